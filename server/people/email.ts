const mostCharacters = 254;

/** How addresses are compared: without regard to case. */
export function emailKey(email: string): string {
  return email.normalize('NFKC').trim().toLowerCase();
}

/**
 * Whether `text` could be an address: one `@` between something and a name, all of it to be seen. One with a character
 * of no width would look like somebody else's. RFC 5321 §4.5.3.1
 */
export function isEmail(text: string): boolean {
  if (text.length > mostCharacters || /[\p{Cc}\p{Cf}\p{Cs}]/u.test(text)) return false;
  return /^[^\s@<>"]+@[^\s@<>"]+$/.test(text);
}
