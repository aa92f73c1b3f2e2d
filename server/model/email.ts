import { domainToASCII } from 'node:url';

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

/** The domain of an e-mail address in lower case and ASCII; empty if it has none. */
export function domainOf(email: string): string {
  return domainToASCII(emailKey(email).split('@').at(-1) ?? '');
}

/** Whether a text in lower case and ASCII is a domain that a name server can have records for. RFC 1123 §2.1 */
export function isDomain(text: string): boolean {
  if (text.length > 240 || /\.\d+$/.test(text)) return false;
  return /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])$/.test(
    text,
  );
}
