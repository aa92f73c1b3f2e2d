/**
 * Our secrets by their form, JWTs, and credentials after an authentication scheme. Also in the middle of a word,
 * because an escaped line feed before a secret is the letter `n` in JSON. A truncated secret is recognized from sixteen
 * characters on; fewer do not help to guess the rest.
 */
const secretPatterns: [RegExp, string][] = [
  [/(secret|pk_live|mcp|code|rt|pat)_[0-9A-Za-z]{16,}/g, '$1_[redacted]'],
  // Standard Webhooks secrets, in base64, also URL-encoded.
  [/whsec_(?:[\w+/-]|%2[BF]){16,}(?:=|%3D)*/gi, 'whsec_[redacted]'],
  [/eyJ[\w-]*\.[\w-]+\.[\w-]*/g, '[redacted]'],
  [/(Bearer|Basic) +[\w.~+/=-]{8,}/gi, '$1 [redacted]'],
];

/** Replaces every secret in `text`. The last step before a log, a page or a terminal. */
export function redact(text: string): string {
  return secretPatterns.reduce((line, [pattern, blot]) => line.replace(pattern, blot), text);
}
