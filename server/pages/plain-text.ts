/** Characters that reorder, hide or break the text around them: bidi controls, C0, C1, invisible ones. */
const unsettling =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** `text` with nothing in it that could reorder the page around it. Unicode Bidi (UAX #9) §2 */
export function settled(text: string): string {
  return text.replaceAll(unsettling, '\ufffd');
}

/** A name that somebody else chose, fit to be shown: in one line, at most `most` characters long. */
export function shownName(text: string, most = 80): string {
  const line = settled(text).replaceAll(/\s+/g, ' ').trim();
  // A character may carry marks without end, so what is cut apart is short already.
  const head = line.slice(0, most * 4);
  const characters = Array.from(new Intl.Segmenter().segment(head), ({ segment }) => segment);
  if (characters.length <= most && head === line) return line;
  return `${characters.slice(0, most).join('')}…`;
}

/** `text` for HTML and SVG that is put together without a template. */
export function escaped(text: string): string {
  return settled(text).replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
