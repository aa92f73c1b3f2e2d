import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * What a form of ours carries to show that it is ours: derived from the browser's cookie, which no other
 * site can read, so nothing is kept. OWASP CSRF Prevention Cheat Sheet, "HMAC Based Token Pattern"
 */
export function csrfToken(cookieToken: string): string {
  return createHmac('sha256', cookieToken).update('latchkey csrf').digest('base64url');
}

export function isCsrfToken(presented: string | undefined, cookieToken: string): boolean {
  const expected = Buffer.from(csrfToken(cookieToken));
  const given = Buffer.from(presented ?? '');
  return given.length === expected.length && timingSafeEqual(given, expected);
}
