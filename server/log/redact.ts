/**
 * Our secrets by their form, JWTs, credentials after an authentication scheme, and what large services hand out. Also in the
 * middle of a word, because an escaped line feed before a secret is the letter `n` in JSON. A truncated secret is recognized
 * from sixteen characters on; fewer do not help to guess the rest.
 *
 * A repetition after what may occur again and again is bounded, so that no text takes long.
 */
const secretPatterns: readonly (readonly [RegExp, Blot])[] = [
  // RFC 7468, OpenPGP and OpenSSH; also cut off, or with escaped line feeds. First, because no other pattern may cut it.
  [
    /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:[\w+/=\s:.,()-]|\\[nrt])*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:[\w+/=\s:.,()-]|\\[nrt])*)/g,
    '[redacted private key]',
  ],
  // GitHub; before our own `pat_`, which it contains.
  [/(gh[pousr]|github_pat)_[0-9A-Za-z_]{16,}/g, '$1_[redacted]'],
  [/(secret|pk_live|mcp|code|rt|pat|scim)_[0-9A-Za-z]{16,}/g, '$1_[redacted]'],
  // Standard Webhooks secrets, in base64, also URL-encoded.
  [/whsec_(?:[\w+/-]|%2[BF]){16,}(?:=|%3D)*/gi, 'whsec_[redacted]'],
  // Signed (RFC 7515 §7.1) or, with two more parts, encrypted (RFC 7516 §7.1).
  [
    /eyJ[\w-]*(\.[\w-]*\.[\w-]*(?:\.[\w-]+\.[\w-]+)?)?/g,
    // A run of letters without the other parts is passed over, so that its rest is not searched again and again.
    (run: string, parts: string | undefined) => (parts === undefined ? run : '[redacted]'),
  ],
  [/(Bearer|Basic) +[\w.~+/=-]{8,}/gi, '$1 [redacted]'],
  // AWS: the id of a key, and the key itself where its usual name says so.
  [/(AKIA|ASIA)[0-9A-Z]{16}/g, '$1[redacted]'],
  [/(aws_?secret_?access_?key\\?["']? {0,3}[=:] {0,3}\\?["']?)[\w/+=]{16,}/gi, '$1[redacted]'],
  [/(xox[a-z]|xapp|glpat)-[\w-]{10,}/g, '$1-[redacted]'],
  [/(hooks\.slack\.com\/services\/)[\w/]{10,}/g, '$1[redacted]'],
  [/([rs]k_(?:live|test)|npm|hf)_[0-9A-Za-z]{16,}/g, '$1_[redacted]'],
  [/AIza[\w-]{35}/g, 'AIza[redacted]'],
  [/ya29\.[\w-]{16,}/g, 'ya29.[redacted]'],
  // Of language model providers. Words such as `task-` contain the same letters; a key has digits.
  [/(?<![A-Za-z0-9](?<!\\[nrt]))sk-(?=[A-Za-z_-]{0,60}\d)[\w-]{20,}/g, 'sk-[redacted]'],
  // Passwords in URLs (RFC 3986 §3.2.1) and in connection strings.
  [/(:\/\/[^\s:/?#@"'\\]{0,100}):[^\s@/?#"'\\]{1,200}@/g, '$1:[redacted]@'],
  [/(password|passwd|pwd|AccountKey|SharedAccessKey)=[^\s;&"'\\]{3,}/gi, '$1=[redacted]'],
];

type Blot = string | ((match: string, group: string | undefined) => string);

/** What every secret above contains. Most texts contain none of it, and then no pattern has to be tried. */
const hints =
  /(?:secret|live|test|mcp|code|rt|pat|scim|gh[pousr]|npm|hf)_|whsec_|eyJ|bearer|basic|a[ks]ia|secret_?access|xox|xapp-|glpat-|slack|aiza|ya29|sk-|private key|:\/\/|(?:word|passwd|pwd|key)=/i;

/** Replaces every secret in `text`. The last step before a log, a page or a terminal. */
export function redact(text: string): string {
  if (!hints.test(text)) return text;
  return secretPatterns.reduce(
    (line, [pattern, blot]) =>
      typeof blot === 'string' ? line.replace(pattern, blot) : line.replace(pattern, blot),
    text,
  );
}
