const mostCharacters = 254;

/** The form in which e-mail addresses are compared: normalized, in lower case. */
export function emailKey(email: string): string {
  return email.normalize('NFKC').trim().toLowerCase();
}

/**
 * Whether `text` looks like an e-mail address: one `@` between something and a domain, all characters visible. With a
 * zero-width character an address would look like another person's. RFC 5321 §4.5.3.1
 */
export function isEmail(text: string): boolean {
  if (text.length > mostCharacters || /[\p{Cc}\p{Cf}\p{Cs}]/u.test(text)) return false;
  return /^[^\s@<>"]+@[^\s@<>"]+$/.test(text);
}
