import type { OAuthRefusal } from './oauth-refusal.ts';

/** Which client the answer of the authorization endpoint is for, and where it goes. */
export interface AnswerTarget {
  readonly clientId: string;
  readonly clientName: string;
  /** Whether anybody can make the client up, as it described or registered itself. */
  readonly isSelfRegistered: boolean;
  readonly redirectUri: string;
  readonly state: string | undefined;
}

/** The redirect URI with the answer behind it; a query that it has stays. RFC 6749 §4.1.2, RFC 9207 §2 */
export function answerUrl(
  { redirectUri, state }: Pick<AnswerTarget, 'redirectUri' | 'state'>,
  answer: Readonly<Record<string, string>>,
  issuer: string,
): string {
  const query = new URLSearchParams(answer);
  if (state !== undefined) query.set('state', state);
  query.set('iss', issuer);
  return `${redirectUri}${redirectUri.includes('?') ? '&' : '?'}${query.toString()}`;
}

/** The redirect URI with an error behind it. RFC 6749 §4.1.2.1 */
export function errorUrl(
  target: AnswerTarget,
  { code, message }: OAuthRefusal,
  issuer: string,
): string {
  return answerUrl(target, { error: code, error_description: message }, issuer);
}

/** How a client is told of an error that nobody chose. */
export type ErrorAnswer =
  | { readonly outcome: 'redirect'; readonly location: string }
  /** A page says it, and the person decides whether to go to `location`. */
  | {
      readonly outcome: 'refused';
      readonly refusal: OAuthRefusal;
      readonly target: AnswerTarget;
      readonly location: string;
    };

/**
 * Only for a client that an administrator created is the browser redirected: the redirect URI of any other may be
 * whatever site somebody wants to send people to from an address of ours.
 *
 * RFC 9700 §4.11.2
 */
export function errorAnswer(
  target: AnswerTarget,
  refusal: OAuthRefusal,
  issuer: string,
): ErrorAnswer {
  const location = errorUrl(target, refusal, issuer);
  if (!target.isSelfRegistered) return { outcome: 'redirect', location };
  return { outcome: 'refused', refusal, target, location };
}
