const quote = 0x22;
const backslash = 0x5c;
const shortEscapes = Buffer.from('"\\/bfnrt');

// Behind the last byte these functions read NUL, which is in no JSON text.

/** What the functions here return in place of an end: the text is not JSON. */
export const notJson = -1;

/** What `stringEnd` returns for an escaped surrogate without its other half. */
export const loneSurrogate = -2;

/** Where the blanks that begin at `at` end. RFC 8259 §2 */
export function blankEnd(bytes: Uint8Array, at: number): number {
  for (let i = at; ; i++) {
    const code = bytes[i] ?? 0;
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return i;
  }
}

/** Where the string whose opening quote is at `at` ends, behind its closing quote. RFC 8259 §7 */
export function stringEnd(bytes: Uint8Array, at: number): number {
  for (let i = at + 1; ;) {
    const code = bytes[i] ?? 0;
    if (code === quote) return i + 1;
    if (code < 0x20) return notJson;
    if (code !== backslash) i++;
    else if ((i = escapeEnd(bytes, i)) < 0) return i;
  }
}

function escapeEnd(bytes: Uint8Array, at: number): number {
  const letter = bytes[at + 1] ?? 0;
  if (letter !== 0x75) return shortEscapes.includes(letter) ? at + 2 : notJson;
  const unit = codeUnit(bytes, at + 2);
  if (unit < 0) return notJson;
  if (unit < 0xd800 || unit > 0xdfff) return at + 6;
  if (unit > 0xdbff || bytes[at + 6] !== backslash || bytes[at + 7] !== 0x75) return loneSurrogate;
  const low = codeUnit(bytes, at + 8);
  if (low < 0) return notJson;
  return low >= 0xdc00 && low <= 0xdfff ? at + 12 : loneSurrogate;
}

function codeUnit(bytes: Uint8Array, at: number): number {
  let unit = 0;
  for (let i = at; i < at + 4; i++) {
    const code = bytes[i] ?? 0;
    const letter = code | 0x20;
    if (isDigit(code)) unit = unit * 16 + code - 0x30;
    else if (letter >= 0x61 && letter <= 0x66) unit = unit * 16 + letter - 0x57;
    else return notJson;
  }
  return unit;
}

/** Where the number, `true`, `false` or `null` that begins at `at` ends. RFC 8259 §3, §6 */
export function wordEnd(bytes: Uint8Array, at: number): number {
  switch (bytes[at] ?? 0) {
    case 0x74:
      return spells(bytes, at, 'true');
    case 0x66:
      return spells(bytes, at, 'false');
    case 0x6e:
      return spells(bytes, at, 'null');
    default:
      return numberEnd(bytes, at);
  }
}

function spells(bytes: Uint8Array, at: number, word: string): number {
  for (let i = 1; i < word.length; i++) {
    if (bytes[at + i] !== word.charCodeAt(i)) return notJson;
  }
  return at + word.length;
}

function numberEnd(bytes: Uint8Array, at: number): number {
  let i = (bytes[at] ?? 0) === 0x2d ? at + 1 : at;
  const whole = (bytes[i] ?? 0) === 0x30 ? i + 1 : digitsEnd(bytes, i);
  if (whole === i) return notJson;
  i = whole;
  if ((bytes[i] ?? 0) === 0x2e) {
    const fraction = digitsEnd(bytes, i + 1);
    if (fraction === i + 1) return notJson;
    i = fraction;
  }
  if (((bytes[i] ?? 0) | 0x20) !== 0x65) return i;
  const sign = bytes[i + 1] ?? 0;
  const from = sign === 0x2b || sign === 0x2d ? i + 2 : i + 1;
  const exponent = digitsEnd(bytes, from);
  return exponent === from ? notJson : exponent;
}

function digitsEnd(bytes: Uint8Array, at: number): number {
  let i = at;
  while (isDigit(bytes[i] ?? 0)) i++;
  return i;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
