/**
 * The spellings in which a secret might have been written down: its bytes, hex, and base64 in either
 * alphabet, also from the middle of a longer text, where the alignment is any of three. Search for each
 * with `Buffer.includes`.
 */
export function spellings(secret: string | Uint8Array): Buffer[] {
  const bytes = Buffer.from(secret);
  const hex = bytes.toString('hex');
  const texts = [hex, hex.toUpperCase()];
  for (const shift of [0, 1, 2]) {
    const shifted = Buffer.concat([Buffer.alloc(shift), bytes]);
    // Whole groups of three bytes only: the characters at either end also depend on the bytes beside.
    const from = shift === 0 ? 0 : 4;
    const to = Math.floor(shifted.length / 3) * 4;
    const inner = shifted.toString('base64').slice(from, to);
    texts.push(inner, inner.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return [bytes, ...[...new Set(texts)].map((text) => Buffer.from(text))];
}
