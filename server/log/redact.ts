/**
 * Our secrets by their shape, JWTs, and whatever follows an authentication scheme. Also in the middle of
 * a word, as a line feed before one is the letter `n` in JSON, and cut off: fewer than sixteen characters
 * of a secret are no help in guessing the rest.
 */
const secretPatterns: [RegExp, string][] = [
  [/(secret|pk_live|mcp|code|rt|pat)_[0-9A-Za-z]{16,}/g, '$1_[redacted]'],
  // Standard Webhooks, in base64, also as a URL spells it.
  [/whsec_(?:[\w+/-]|%2[BF]){16,}(?:=|%3D)*/gi, 'whsec_[redacted]'],
  [/eyJ[\w-]*\.[\w-]+\.[\w-]*/g, '[redacted]'],
  [/(Bearer|Basic) +[\w.~+/=-]{8,}/gi, '$1 [redacted]'],
];

/** `text` with every secret in it blotted out. The last gate before a log, a page or a terminal. */
export function redact(text: string): string {
  return secretPatterns.reduce((line, [pattern, blot]) => line.replace(pattern, blot), text);
}
