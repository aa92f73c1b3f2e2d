import { render, type TemplateResult } from 'lit-html';

/** Puts a template where the page's content is; what stays the same keeps its focus. */
export function show(content: TemplateResult): void {
  const page = document.querySelector<HTMLElement>('#page');
  if (!page) return;
  render(content, page);
  page.removeAttribute('aria-busy');
}

/** Tells a screen reader what has happened, where no focus moves there. */
export function announce(words: string): void {
  const said = document.querySelector('#said');
  if (said) said.textContent = words;
}

/** Moves the focus to what is new, once it is there. */
export function focusOn(selector: string): void {
  document.querySelector<HTMLElement>(selector)?.focus();
}
