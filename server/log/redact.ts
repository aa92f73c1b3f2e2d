/** Our secrets by their shape, JWTs, and whatever follows an authentication scheme. */
const secretPatterns: [RegExp, string][] = [
  [/\b(secret|pk_live|mcp|code|rt)_[0-9A-Za-z]{30,}/g, '$1_[redacted]'],
  [/\beyJ[\w-]*\.[\w-]+\.[\w-]*/g, '[redacted]'],
  [/\b(Bearer|Basic) +[\w.~+/=-]{8,}/gi, '$1 [redacted]'],
];

/** `text` with every secret in it blotted out. The last gate before a log, a page or a terminal. */
export function redact(text: string): string {
  return secretPatterns.reduce((line, [pattern, blot]) => line.replace(pattern, blot), text);
}
