import { html, type TemplateResult } from 'lit-html';

/** A URL or the path of a file, which breaks behind its slashes where a line is too short for it. */
export function address(text: string): TemplateResult {
  const parts = text.split(/(?<=[/\\])(?=[^/\\])/);
  return html`${parts.map((part, at) => (at === 0 ? part : html`<wbr />${part}`))}`;
}
