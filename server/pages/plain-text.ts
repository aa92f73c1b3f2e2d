/** Characters that reorder, hide or break the text around them: bidi controls, C0, C1, invisible ones. */
const unsettling =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** `text` with nothing in it that could reorder the page around it. Unicode Bidi (UAX #9) §2 */
export function settled(text: string): string {
  return text.replaceAll(unsettling, '\ufffd');
}

const graphemes = new Intl.Segmenter();

/** One line of ASCII without a space at its ends or two in a row: a character each, and nothing to settle. */
const plainLine = /^[!-~]+(?: [!-~]+)*$/;

/** A name that somebody else chose, fit to be shown: in one line, at most `most` characters long. */
export function shownName(text: string, most = 80): string {
  if (text.length <= most && plainLine.test(text)) return text;
  const line = settled(text).replaceAll(/\s+/g, ' ').trim();
  // A character may carry marks without end, so what is cut apart is short already.
  const head = line.slice(0, most * 4);
  const characters = Array.from(graphemes.segment(head), ({ segment }) => segment);
  if (characters.length <= most && head === line) return line;
  return `${characters.slice(0, most).join('')}…`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text that stands in HTML as it is: printable ASCII and line breaks, without what HTML means something by. */
const plain = /^[\t\n !#$%(-;=?-~]*$/;

/** `text` for HTML and SVG, with nothing in it that ends its element or attribute or reorders the page. */
export function escaped(text: string): string {
  if (plain.test(text)) return text;
  return settled(text).replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
}
