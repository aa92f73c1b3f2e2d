/** The functions that all pages share: requests to the main process, rendering, focus and forms. */
import { render, type TemplateResult } from 'lit-html';
import type { Bridge, InputOf, OperationName, OutputOf, Overview } from '#model/contract';

declare global {
  interface Window {
    latchkey: Bridge;
  }
}

/** Sends a request to the main process. Rejects only if the page or the main process has a bug. */
export async function ask<Name extends OperationName>(
  operation: Name,
  input: InputOf<Name>,
): Promise<OutputOf<Name>> {
  return window.latchkey.ask(operation, input);
}

/** Calls `listener` with the current overview, and again with the new one after every change. */
export function onOverview(listener: (overview: Overview) => void): void {
  window.latchkey.onChange(listener);
  void ask('overview', {}).then(listener);
}

/** Renders the content of the page. An element that is part of both the old and the new content keeps the focus. */
export function show(content: TemplateResult): void {
  const page = document.querySelector<HTMLElement>('#page');
  if (!page) return;
  render(content, page);
  page.removeAttribute('aria-busy');
}

/** Announces a result to screen readers. Needed only if the focus does not move to the result. */
export function announce(words: string): void {
  const announcement = document.querySelector('#announcement');
  if (announcement) announcement.textContent = words;
}

/** Moves the focus to the first element that matches `selector`. */
export function focusOn(selector: string): void {
  document.querySelector<HTMLElement>(selector)?.focus();
}

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
