// Text for a log, a page or a terminal. `redact` removes secrets; `printable` escapes what could act on a terminal. All logs and
// all output of proxy and server pass through here, because names and errors may come from servers, files and callers.

const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * One line of text that cannot control a terminal, forge log lines or reverse the text direction: control characters, line ends
 * and invisible or bidirectional marks become escapes such as `\u001b`. JSON stays JSON, which escapes them in the same way.
 */
export function printable(text: string): string {
  return text.replace(unsafe, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** Like `printable`, for a line of a text whose lines end with CR LF: the CR at the end of the line stays. */
export function printableLine(line: string): string {
  return line.endsWith('\r') ? `${printable(line.slice(0, -1))}\r` : printable(line);
}

const redacted = '[redacted]';

/** Members and parameters whose values are secrets of any form. RFC 6749, RFC 7521, RFC 7636, RFC 8693 */
const secretName =
  '(?:client_secret|(?:access|refresh|id|subject|actor)_token|assertion|code_verifier|api[_-]?key)';
/** A quote, which is escaped if it is part of a JSON text within another. */
const quote = String.raw`\\{0,8}["']`;
const blanks = String.raw`\s{0,20}`;

/**
 * Patterns for our own secrets, JWTs, credentials after an authentication scheme, values whose names mark them as secrets, and keys of
 * large services. They also match in the middle of a word, because in JSON an escaped line feed before a secret ends with the letter
 * `n`. A truncated secret is recognized from sixteen characters on; fewer do not help to guess the rest.
 *
 * A repetition is bounded if text that may occur many times precedes it, so that no text takes long to search.
 */
const secretPatterns: readonly (readonly [RegExp, Blot])[] = [
  // RFC 7468, OpenPGP and OpenSSH; also cut off, or with escaped line feeds. First, so that no other pattern cuts a key.
  [
    /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:[\w+/=\s:.,()-]|\\[nrt])*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:[\w+/=\s:.,()-]|\\[nrt])*)/g,
    '[redacted private key]',
  ],
  // GitHub; before our own `pat_`, which it contains.
  [/(gh[pousr]|github_pat)_[0-9A-Za-z_]{16,}/g, `$1_${redacted}`],
  [/(secret|pk_live|mcp|code|rt|pat|scim)_[0-9A-Za-z]{16,}/g, `$1_${redacted}`],
  // Standard Webhooks secrets, in base64, also URL-encoded.
  [/whsec_(?:[\w+/-]|%2[BF]){16,}(?:=|%3D)*/gi, `whsec_${redacted}`],
  // Signed (RFC 7515 §7.1), encrypted with two more parts (RFC 7516 §7.1), or cut off within the claims.
  [
    /eyJ[\w-]*(\.[\w-]*\.[\w-]*(?:\.[\w-]+\.[\w-]+)?|\.eyJ[\w-]*)?/g,
    // A run of letters without the other parts is passed over, so that its rest is not searched again and again.
    (run: string, parts: string | undefined) => (parts === undefined ? run : redacted),
  ],
  [/(Bearer|Basic) +[\w.~+/=-]{8,}/gi, `$1 ${redacted}`],
  // AWS: the id of a key, and the key itself after its usual name.
  [/(AKIA|ASIA)[0-9A-Z]{16}/g, `$1${redacted}`],
  [/(aws_?secret_?access_?key\\?["']? {0,3}[=:] {0,3}\\?["']?)[\w/+=]{16,}/gi, `$1${redacted}`],
  [/(xox[a-z]|xapp|glpat)-[\w-]{10,}/g, `$1-${redacted}`],
  [/(hooks\.slack\.com\/services\/)[\w/]{10,}/g, `$1${redacted}`],
  [/([rs]k_(?:live|test)|npm|hf)_[0-9A-Za-z]{16,}/g, `$1_${redacted}`],
  [/AIza[\w-]{35}/g, `AIza${redacted}`],
  [/ya29\.[\w-]{16,}/g, `ya29.${redacted}`],
  // Keys of language model providers. Words such as `task-` contain the same letters; a key has digits.
  [/(?<![A-Za-z0-9](?<!\\[nrt]))sk-(?=[A-Za-z_-]{0,60}\d)[\w-]{20,}/g, `sk-${redacted}`],
  // Passwords in URLs (RFC 3986 §3.2.1) and in connection strings.
  [/(:\/\/[^\s:/?#@"'\\]{0,100}):[^\s@/?#"'\\]{1,200}@/g, `$1:${redacted}@`],
  [/(password|passwd|pwd|AccountKey|SharedAccessKey)=[^\s;&"'\\]{3,}/gi, `$1=${redacted}`],
  // Members of JSON, and parameters in quotes.
  [
    new RegExp(
      `(${secretName}(?:${quote})?${blanks}[=:]${blanks}${quote})([^\\s"'\\\\]{3,})`,
      'gi',
    ),
    valueOf,
  ],
  // Parameters of forms and URLs. A colon without quotes may also precede a sentence, so the value must contain a digit.
  [
    new RegExp(
      `(${secretName}(?:(?:${quote})?${blanks}=${blanks}|${blanks}:${blanks}(?=[^\\s"'&,\\\\]{0,100}\\d)))([^\\s"'&,\\\\]{3,})`,
      'gi',
    ),
    valueOf,
  ],
];

type Blot = string | ((match: string, group: string | undefined, rest: string) => string);

/** Leaves a value that another pattern has redacted, because what remains of it shows the kind of the secret. */
function valueOf(match: string, name: string | undefined, value: string): string {
  return value.includes(redacted) ? match : `${name}${redacted}`;
}

/** Matches a part of every secret above. Most texts do not match, and then no pattern has to be tried. */
const hints =
  /(?:secret|live|test|mcp|code|rt|pat|scim|gh[pousr]|npm|hf)_|whsec_|eyJ|bearer|basic|a[ks]ia|secret_?access|xox|xapp-|glpat-|slack|aiza|ya29|sk-|private key|:\/\/|(?:word|passwd|pwd|key)=|client_secret|_token|assertion|api[_-]?key/i;

/** Replaces every secret in `text`, and the `known` ones, which a server may echo. */
export function redact(text: string, known: readonly string[] = []): string {
  const withoutKnown = known.reduce(
    (rest, secret) => (secret.length > 3 ? rest.replaceAll(secret, redacted) : rest),
    text,
  );
  if (!hints.test(withoutKnown)) return withoutKnown;
  return secretPatterns.reduce(
    (line, [pattern, blot]) =>
      typeof blot === 'string' ? line.replace(pattern, blot) : line.replace(pattern, blot),
    withoutKnown,
  );
}
