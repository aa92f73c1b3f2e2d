import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Discovery } from './discovery.ts';
import { LoopbackError, OAuthError } from './errors.ts';

/** A request for a person's consent that is under way. The verifier never leaves this process. */
export type AuthorizationRequest = {
  url: URL;
  state: string;
  codeVerifier: string;
  redirectUri: string;
};

export type AuthorizationRequestInput = {
  clientId: string;
  redirectUri: string;
  scopes: readonly string[] | undefined;
  /** What some servers want besides; the protocol's own parameters win. */
  authorizeParams?: Readonly<Record<string, string>>;
  /** For a Latchkey server, which shows it to the person. */
  assistant?: string | undefined;
};

/** A Latchkey server ignores a longer one. */
const longestAssistant = 100;

/**
 * The URL at which a person is asked, with PKCE and a state of its own.
 *
 * RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2
 *
 * @throws {OAuthError} `metadata` when the server cannot be asked safely
 */
export function authorizationRequest(
  { clientId, redirectUri, scopes, authorizeParams, assistant }: AuthorizationRequestInput,
  { issuer, authorizationEndpoint, takesS256, resource }: Discovery,
): AuthorizationRequest {
  const endpoint = authorizationEndpoint ?? issuer;
  if (authorizationEndpoint === undefined)
    throw new OAuthError('metadata', `${issuer} announces no authorization endpoint`, { endpoint });
  if (!takesS256)
    throw new OAuthError('metadata', `${issuer} does not support PKCE with S256`, { endpoint });
  const codeVerifier = randomBytes(48).toString('base64url');
  const state = randomBytes(24).toString('base64url');
  const url = new URL(authorizationEndpoint);
  const query = {
    ...authorizeParams,
    ...(assistant && { assistant: assistant.slice(0, longestAssistant) }),
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    state,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...(scopes?.length && { scope: scopes.join(' ') }),
    ...(resource && { resource }),
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return { url, state, codeVerifier, redirectUri };
}

/**
 * What to ask a person for: what the user configured, else what the challenge says, else what the
 * resource offers, else `undefined` (the server decides); and `more` on top. `offline_access` only
 * where the server knows it, as it is what brings a refresh token there.
 *
 * MCP 2026-07-28 authorization, scope selection
 */
export function wantedScopes(
  configured: readonly string[] | undefined,
  { challengedScopes, scopesSupported, serverScopesSupported }: Discovery,
  more: readonly string[] = [],
): string[] | undefined {
  const base = configured ?? challengedScopes ?? scopesSupported;
  const scopes = new Set([...(base ?? []), ...more]);
  if (scopes.size === 0) return undefined;
  if (serverScopesSupported?.includes('offline_access')) scopes.add('offline_access');
  return [...scopes];
}

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
    if (query.getAll(name).length > 1) throw refuse(`the redirect contains ${name} twice`);
  if (!same(query.get('state') ?? '', state))
    throw refuse('the redirect does not belong to this sign-in (state)');
  const from = query.get('iss');
  if (from === null && sendsIssuer) throw refuse('the redirect does not name its issuer (iss)');
  if (from !== null && from !== issuer)
    throw refuse(`the redirect comes from ${plain(from)}, not from ${issuer}`);
  const error = query.get('error');
  if (error !== null) {
    const description = query.get('error_description');
    // With a reason, `access_denied` tells nothing more.
    const parts = error === 'access_denied' && description ? [description] : [error, description];
    const reasons = parts.filter((part) => part !== null).map(plain);
    throw new OAuthError('denied', `${issuer} answered: ${reasons.join(': ')}`, {
      endpoint: issuer,
      error: plain(error),
    });
  }
  const code = query.get('code');
  if (!code) throw refuse('the redirect contains no code');
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

/**
 * The query of the redirect that the person copies from the browser's address bar if the browser runs on another
 * computer and cannot reach our listener. Other lines get `complain`.
 *
 * @throws {LoopbackError} `pasted` when the input ends before
 */
export async function pastedRedirect(
  lines: AsyncIterable<string>,
  redirectUri: string,
  isOurs: (query: URLSearchParams) => boolean,
  complain: (message: string) => void,
): Promise<URLSearchParams> {
  for await (const line of lines) {
    const text = line.trim();
    if (text === '') continue;
    const url = text.startsWith(`${redirectUri}?`) ? URL.parse(text) : null;
    if (url && isOurs(url.searchParams)) return url.searchParams;
    complain(
      `that is not the address that this sign-in ends at; paste the one that begins with ${redirectUri}?`,
    );
  }
  throw new LoopbackError('pasted', 'the input ended before you pasted the redirect');
}
