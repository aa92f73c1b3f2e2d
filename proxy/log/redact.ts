const secrets: [RegExp, string][] = [
  // Also in the middle of a word: a line feed before one is the letter `n` in JSON.
  [/(secret|pk_live|mcp|code|rt|pat)_[0-9A-Za-z_-]{16,}/g, '$1_…'],
  [/eyJ[0-9A-Za-z_-]{5,}\.[0-9A-Za-z_-]+(?:\.[0-9A-Za-z_-]*)*/g, 'eyJ…'],
  [/\b(Bearer|Basic)\s+[^\s"',;]+/gi, '$1 …'],
  [
    /((?:client_secret|access_token|refresh_token|client_assertion)["']?\s*[=:]\s*["']?)[^\s"'&,]+/gi,
    '$1…',
  ],
];

/**
 * `text` without anything that looks like a key, a token or a credential header, and without the
 * exact `known` secrets, which a server may echo.
 */
export function redact(text: string, known: readonly string[] = []): string {
  const withoutKnown = known.reduce(
    (rest, secret) => (secret.length > 3 ? rest.replaceAll(secret, '…') : rest),
    text,
  );
  return secrets.reduce((rest, [shape, mask]) => rest.replace(shape, mask), withoutKnown);
}
