import type { SyntaxKind } from 'jsonc-parser';

// The library declares them as a const enum, which has no values where each file is compiled alone.
const stringLiteral: SyntaxKind = 10;
const endOfFile: SyntaxKind = 17;

/**
 * A file's text with every string and comment changed by `mask`, and everything else as it was. What is no JSON
 * is read as far as that goes: a string is a string wherever it stands.
 */
export async function maskedStrings(
  bytes: Buffer,
  mask: (text: string) => string,
): Promise<Buffer> {
  const { createScanner } = await import('jsonc-parser');
  const text = bytes.toString();
  const scanner = createScanner(text, false);
  let masked = '';
  for (let kind = scanner.scan(); kind !== endOfFile; kind = scanner.scan()) {
    const token = text.slice(
      scanner.getTokenOffset(),
      scanner.getTokenOffset() + scanner.getTokenLength(),
    );
    if (kind === stringLiteral) {
      const value = scanner.getTokenValue();
      const safe = mask(value);
      masked += safe === value ? token : JSON.stringify(safe);
    } else {
      masked += mask(token);
    }
  }
  return Buffer.from(masked);
}
