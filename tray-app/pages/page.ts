/** A page: the program behind it, its content, and its forms. */
import { render, type TemplateResult } from 'lit-html';
import type { Bridge, InputOf, OperationName, OutputOf, Overview } from '#model/contract';

declare global {
  interface Window {
    latchkey: Bridge;
  }
}

/** Sends a request to the program behind the page. Rejects only because of a bug in one of the two. */
export async function ask<Name extends OperationName>(
  operation: Name,
  input: InputOf<Name>,
): Promise<OutputOf<Name>> {
  return window.latchkey.ask(operation, input);
}

/** Calls `listener` with the current overview, and after every change. */
export function onOverview(listener: (overview: Overview) => void): void {
  window.latchkey.onChange(listener);
  void ask('overview', {}).then(listener);
}

/** Renders the content of the page; elements that stay keep their focus. */
export function show(content: TemplateResult): void {
  const page = document.querySelector<HTMLElement>('#page');
  if (!page) return;
  render(content, page);
  page.removeAttribute('aria-busy');
}

/** Announces to screen readers what has happened, if the focus does not move there. */
export function announce(words: string): void {
  const announcement = document.querySelector('#announcement');
  if (announcement) announcement.textContent = words;
}

/** Moves the focus to a new element. */
export function focusOn(selector: string): void {
  document.querySelector<HTMLElement>(selector)?.focus();
}

/** The form that was submitted. */
export function submittedForm(event: SubmitEvent): HTMLFormElement {
  const form = event.currentTarget;
  if (form instanceof HTMLFormElement) return form;
  throw new TypeError('the event of no form');
}

/** The text of a field, trimmed. */
export function typedText(data: FormData, field: string): string {
  const value = data.get(field);
  return typeof value === 'string' ? value.trim() : '';
}
