import type { OAuthRefusal } from './oauth-refusal.ts';

/** Where the answer of the authorization endpoint goes, and what it must repeat. */
export interface Return {
  readonly redirectUri: string;
  readonly state: string | undefined;
  /** Our issuer identifier. RFC 9207 §2 */
  readonly issuer: string;
}

/** The redirect URI with the answer behind it; a query that it has stays. RFC 6749 §4.1.2 */
export function answerUrl(
  { redirectUri, state, issuer }: Return,
  answer: Readonly<Record<string, string>>,
): string {
  const query = new URLSearchParams(answer);
  if (state !== undefined) query.set('state', state);
  query.set('iss', issuer);
  return `${redirectUri}${redirectUri.includes('?') ? '&' : '?'}${query.toString()}`;
}

/** The client did something wrong, or may not: it is told by a redirect. RFC 6749 §4.1.2.1 */
export function errorUrl(to: Return, { code, message }: OAuthRefusal): string {
  return answerUrl(to, { error: code, error_description: message });
}
