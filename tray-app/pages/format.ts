import { html, nothing, type TemplateResult } from 'lit-html';

/** A URL or the path of a file, which may wrap after each slash. */
export function address(text: string): TemplateResult {
  const parts = text.split(/(?<=[/\\])(?=[^/\\])/);
  return html`${parts.map((part, at) => (at === 0 ? part : html`<wbr />${part}`))}`;
}

/** A time relative to now, with the exact time on hover. */
export function moment(at: number): TemplateResult {
  const exact = new Date(at * 1000).toISOString();
  return html`<time datetime=${exact} title=${exact}>${relativeTime(at, Date.now() / 1000)}</time>`;
}

const units: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

/** `2 minutes ago`, `in 3 hours`. Both times are seconds since 1970. */
function relativeTime(at: number, now: number): string {
  const apart = at - now;
  if (Math.abs(apart) < 1) return 'just now';
  const [unit, seconds] = units.find(([, length]) => Math.abs(apart) >= length) ?? ['second', 1];
  const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
  return words.format(Math.trunc(apart / seconds), unit);
}

/** A list of facts with their terms. Empty facts are omitted. */
export function factList(rows: readonly (readonly [string, unknown])[]): TemplateResult {
  return html`<dl class="facts">
    ${rows.map(([term, fact]) =>
      fact
        ? html`<dt>${term}</dt>
            <dd>${fact}</dd>`
        : nothing,
    )}
  </dl>`;
}

/** When a token expires, and whether that needs the user. */
export function tokenLife(expiresAt: number, renewable: boolean): TemplateResult {
  const past = expiresAt <= Date.now() / 1000;
  return html`${past ? 'expired' : 'expires'}
  ${moment(expiresAt)}${renewable ? ', renewed automatically' : ''}`;
}

export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
