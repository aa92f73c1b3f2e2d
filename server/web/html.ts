/** Characters that reorder, hide or break the text around them: bidi controls, C0, C1, invisible ones. */
const disruptive =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** `text` with every character replaced that could reorder the page around it. Unicode Bidi (UAX #9) §2 */
export function neutralized(text: string): string {
  return text.replaceAll(disruptive, '\ufffd');
}

/** Created on first use, which takes about 5 ms; most names do not need it. */
let graphemes: Intl.Segmenter | undefined;

/** One line of ASCII without leading, trailing or repeated spaces: one character each, none of them disruptive. */
const plainLine = /^[!-~]+(?: [!-~]+)*$/;

/** A name from outside, made fit for display: on one line, at most `limit` characters long. */
export function displayName(text: string, limit = 80): string {
  if (text.length <= limit && plainLine.test(text)) return text;
  const line = neutralized(text).replaceAll(/\s+/g, ' ').trim();
  // A character may carry any number of marks, so cut the text first and split only what is left.
  const head = line.slice(0, limit * 4);
  graphemes ??= new Intl.Segmenter();
  const characters = Array.from(graphemes.segment(head), ({ segment }) => segment);
  if (characters.length <= limit && head === line) return line;
  return `${characters.slice(0, limit).join('')}…`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text that needs no escaping: printable ASCII and line breaks, without the characters that HTML gives a meaning. */
const plain = /^[\t\n !#$%(-;=?-~]*$/;

function escaped(text: string): string {
  if (plain.test(text)) return text;
  return neutralized(text).replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
}

class Markup {
  readonly #markup: string;

  constructor(markup: string) {
    this.#markup = markup;
  }

  toString(): string {
    return this.#markup;
  }
}

/** Markup that is safe to send. The class is not exported, so only `html` and `trustedHtml` make it. */
export type Html = Markup;

/** A value in a template. Nothing is rendered for `undefined`, `null` and `false`; the items of a list are joined. */
export type HtmlValue = Html | string | number | undefined | null | false | readonly HtmlValue[];

/**
 * HTML or SVG. Text is escaped, so it cannot end its element or quoted attribute, and cannot reorder the page.
 *
 * @throws {TypeError} when a value is anything else than an `HtmlValue`
 */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let markup = strings[0] ?? '';
  for (const [index, value] of values.entries()) {
    markup += rendered(value) + (strings[index + 1] ?? '');
  }
  return new Markup(markup);
}

/** Markup of our own that was made without `html`, such as the image of a QR code. Never pass it text from outside. */
export function trustedHtml(markup: string): Html {
  return new Markup(markup);
}

function rendered(value: HtmlValue): string {
  if (typeof value === 'string') return escaped(value);
  if (value instanceof Markup) return value.toString();
  if (typeof value === 'number') return String(value);
  if (value === undefined || value === null || value === false) return '';
  if (isList(value)) return value.map(rendered).join('');
  throw new TypeError('a template contains something other than text, numbers and HTML');
}

function isList(value: unknown): value is readonly HtmlValue[] {
  return Array.isArray(value);
}
