/** Invisible characters in a text. */
export interface HiddenCharacters {
  readonly code: 'invisible' | 'hidden-text' | 'bidirectional' | 'control';
  readonly detail: string;
}

/** Characters without a glyph, except those that structure a text, such as line breaks. Most texts contain none. */
const unseen = /[[\p{Cc}\p{Default_Ignorable_Code_Point}\uFFF9-\uFFFB]--[\t\n\r]]/v;

const control = /\p{Cc}/u;
const bidirectional = /[\u202A-\u202E\u2066-\u2069]/u;
const direction = /[\u061C\u200E\u200F]/u;
const joiner = /\p{Join_Control}/u;
const selector = /\p{Variation_Selector}/u;
const ideographic = /[\u{E0100}-\u{E01EF}]/u;
const ideograph = /\p{Script=Han}/u;
const tag = /[\u{E0000}-\u{E007F}]/u;
const rightToLeft =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
/** Scripts whose letters take another shape beside a joiner. */
const joining =
  /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\p{Script=Lao}\p{Script=Thai}]/u;
/** Characters that precede or follow a joiner within an emoji. */
const emoji = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\u20E3\uFE0F]/u;
/** Characters that have variants: emoji, symbols, ideographs, Mongolian letters and, in ASCII, the bases of keycaps. */
const varying =
  /[\p{Extended_Pictographic}\p{Symbol}\p{Script=Han}\p{Script=Mongolian}\p{Script=Myanmar}\p{Script=Phags_Pa}\p{Punctuation}\d#*]/u;
/** The flags of England, Scotland and Wales, the only emoji with tags. Unicode Emoji, RGI_Emoji_Tag_Sequence */
const flags =
  /\u{1F3F4}\u{E0067}\u{E0062}(?:\u{E0065}\u{E006E}\u{E0067}|\u{E0073}\u{E0063}\u{E0074}|\u{E0077}\u{E006C}\u{E0073})\u{E007F}/gu;

const mostShown = 5;
const longestText = 100;

/**
 * Finds invisible characters, except where a script or an emoji needs them: joiners after letters that join or between parts of an emoji,
 * variation selectors after characters that have variants, and direction marks in texts with right-to-left letters.
 */
export function hiddenCharacters(text: string): HiddenCharacters[] {
  if (!unseen.test(text)) return [];
  const characters = Array.from(text.replaceAll(flags, '\u{1F3F4}'));
  const isRightToLeft = rightToLeft.test(text);
  const found = {
    invisible: new Set<string>(),
    bidirectional: new Set<string>(),
    control: new Set<string>(),
  };
  let hidden = '';
  characters.forEach((character, index) => {
    if (!unseen.test(character)) return;
    const [before = '', after = ''] = [characters[index - 1], characters[index + 1]];
    if (control.test(character)) found.control.add(character);
    else if (bidirectional.test(character)) found.bidirectional.add(character);
    else if (tag.test(character)) {
      const spelled = asciiOf(character);
      hidden += spelled;
      if (spelled === '') found.invisible.add(character);
    } else if (!isNeeded(character, before, after, isRightToLeft)) found.invisible.add(character);
  });
  return [
    ...(hidden.trim().length > 0
      ? [{ code: 'hidden-text', detail: `hides “${cut(hidden)}” in tag characters` } as const]
      : []),
    ...(['invisible', 'bidirectional', 'control'] as const).flatMap((code) => {
      const seen = [...found[code]];
      return seen.length > 0 ? [{ code, detail: `contains ${listed(seen)}` }] : [];
    }),
  ];
}

function isNeeded(
  character: string,
  before: string,
  after: string,
  isRightToLeft: boolean,
): boolean {
  if (direction.test(character)) return isRightToLeft;
  if (joiner.test(character)) {
    if (joining.test(before)) return true;
    return character === '\u200D' && emoji.test(before) && emoji.test(after);
  }
  // One selector after a character that has variants. Several in a row can spell anything.
  if (selector.test(character)) {
    const bases = ideographic.test(character) ? ideograph : varying;
    return bases.test(before) && !selector.test(before);
  }
  // A soft hyphen, which word processors leave behind.
  if (character === '\u00AD') return before !== '\u00AD' && after !== '\u00AD';
  return false;
}

function asciiOf(tagCharacter: string): string {
  const code = (tagCharacter.codePointAt(0) ?? 0) - 0xe0000;
  return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : '';
}

function cut(text: string): string {
  return text.length > longestText ? `${text.slice(0, longestText)}…` : text;
}

function listed(characters: readonly string[]): string {
  const shown = characters.slice(0, mostShown).map((character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    return character === '\u001B' ? `U+${code}, which begins a terminal sequence` : `U+${code}`;
  });
  const more = characters.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
