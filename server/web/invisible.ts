import { html, type Html, type HtmlValue } from './html.ts';

/**
 * Matches emoji, which may contain invisible characters, and characters that a reader does not see: those that Unicode lets a program
 * ignore, formats and controls, unusual spaces, and fillers. An unusual space looks like an ordinary one, but makes a different name.
 * Created on first use, which takes about 10 ms.
 */
let hidden: RegExp | undefined;

/** The offset of the tag characters from the ASCII characters for which they stand. Unicode, "Tags" */
const firstTag = 0xe0000;

/**
 * Makes everything in a text visible: each invisible character is replaced by its code, `U+200B`, and tag characters, which can carry a
 * whole message, by that message. For the review of text that an assistant reads but a person would not see.
 */
export function revealed(text: string): Html {
  const parts: HtmlValue[] = [];
  let end = 0;
  hidden ??=
    // oxlint-disable-next-line no-control-regex -- it finds them
    /(?<emoji>\p{RGI_Emoji})|(?<tags>[\u{e0020}-\u{e007e}]+)|(?<same>[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Cn}\u{0}-\u{8}\u{b}-\u{1f}\u{7f}-\u{9f}\u{a0}\u{1680}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}\u{2800}])\k<same>*/gv;
  for (const match of text.matchAll(hidden)) {
    const { emoji, tags, same } = match.groups ?? {};
    if (emoji !== undefined) continue;
    parts.push(text.slice(end, match.index));
    const label = tags === undefined ? codes(same ?? '', match[0]) : `tags “${decoded(tags)}”`;
    parts.push(html`<mark class="revealed">${label}</mark>`);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return html`${parts}`;
}

/** `U+200B`, or `U+200B ×12`. */
function codes(character: string, run: string): string {
  const code = character.codePointAt(0) ?? 0;
  const name = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
  const count = run.length / character.length;
  return count === 1 ? name : `${name} ×${count}`;
}

function decoded(tags: string): string {
  return Array.from(tags, (tag) =>
    String.fromCodePoint((tag.codePointAt(0) ?? firstTag) - firstTag),
  ).join('');
}
