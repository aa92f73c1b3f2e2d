const mostCharacters = 254;

/** How addresses are compared: without regard to case. */
export function emailKey(email: string): string {
  return email.normalize('NFKC').trim().toLowerCase();
}

/** Whether `text` could be an address: one `@` between something and a name. RFC 5321 §4.5.3.1 */
export function isEmail(text: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return text.length <= mostCharacters && /^[^\s@<>"\u0000-\u001f\u007f]+@[^\s@<>"]+$/.test(text);
}
