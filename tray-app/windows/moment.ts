import { html, type TemplateResult } from 'lit-html';
import { exactly, when } from './when.ts';

/** A moment, relative to now, with the exact one on hover. */
export function moment(at: number): TemplateResult {
  const exact = exactly(at);
  return html`<time datetime=${exact} title=${exact}>${when(at, Date.now() / 1000)}</time>`;
}
