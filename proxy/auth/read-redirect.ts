import { timingSafeEqual } from 'node:crypto';
import type { Discovery } from './discover.ts';
import { OAuthError } from './oauth-error.ts';

/**
 * The code in the redirect that answers our request. It is ours only with our state and from the
 * issuer we asked, compared as plain strings; else the code goes nowhere.
 *
 * RFC 6749 §4.1.2, RFC 9207 §2.4
 *
 * @throws {OAuthError} `redirect` when it is not the answer to our question, `denied` when it is a no
 */
export function readRedirect(
  query: URLSearchParams,
  state: string,
  { issuer, sendsIssuer }: Pick<Discovery, 'issuer' | 'sendsIssuer'>,
): string {
  const refuse = (message: string) => new OAuthError('redirect', message, { endpoint: issuer });
  for (const name of ['state', 'iss', 'code', 'error'])
    if (query.getAll(name).length > 1) throw refuse(`the redirect has ${name} twice`);
  if (!same(query.get('state') ?? '', state))
    throw refuse('the redirect does not belong to this sign-in (state)');
  const from = query.get('iss');
  if (from === null && sendsIssuer) throw refuse('the redirect does not say who sent it (iss)');
  if (from !== null && from !== issuer)
    throw refuse(`the redirect comes from ${plain(from)}, not from ${issuer}`);
  const error = query.get('error');
  if (error !== null) {
    const description = query.get('error_description');
    const said = [error, description].filter((part) => part !== null).map(plain);
    throw new OAuthError('denied', `${issuer} answered ${said.join(': ')}`, {
      endpoint: issuer,
      error: plain(error),
    });
  }
  const code = query.get('code');
  if (!code) throw refuse('the redirect brings no code');
  return code;
}

function same(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** A stranger's words, for a page and a terminal. */
function plain(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, ' ').slice(0, 200);
}
