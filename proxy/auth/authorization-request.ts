import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { deviceParameters, type Device } from './device.ts';
import type { Discovery } from './discovery.ts';
import { LoopbackError, OAuthError, type OAuthErrorDetails } from './errors.ts';

/** A pending request for a person's consent. The verifier never leaves this process. */
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
  /** Additional parameters that some servers require. The protocol's own parameters take precedence. */
  authorizeParams?: Readonly<Record<string, string>>;
  /** Resources in addition to that of the server. RFC 8707 §2 */
  resources?: readonly string[];
  /** The assistant's display name, which a Latchkey server shows to the person. */
  assistant?: string | undefined;
  /** The organization whose provider the person wants to use at a Latchkey server. */
  organization?: string | undefined;
  /** This computer, so that the person can end its access at a Latchkey server. */
  device?: Device | undefined;
};

/** A Latchkey server ignores longer names. */
const maxAssistantLength = 100;

/**
 * Builds the URL at which a person gives consent, with PKCE and a new state.
 *
 * RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2
 *
 * @throws {OAuthError} `metadata` if the server does not support PKCE or has no authorization endpoint
 */
export function authorizationRequest(
  {
    clientId,
    redirectUri,
    scopes,
    authorizeParams,
    assistant,
    organization,
    device,
    resources = [],
  }: AuthorizationRequestInput,
  { issuer, authorizationEndpoint, takesS256, parameters }: Discovery,
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
    ...(assistant && { assistant: assistant.slice(0, maxAssistantLength) }),
    ...(organization !== undefined && { organization }),
    ...(device && deviceParameters(device)),
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    state,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...(scopes?.length && { scope: scopes.join(' ') }),
    ...parameters,
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  for (const resource of resources) url.searchParams.append('resource', resource);
  return { url, state, codeVerifier, redirectUri };
}

/**
 * The scopes to request: those that the user configured, otherwise those of the challenge, otherwise those that the resource
 * announces, otherwise `undefined` (the server decides); and `more` in addition. `offline_access` is requested only if the
 * server announces it: such servers issue refresh tokens only with that scope.
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
 * Reads the code from the redirect. The redirect must carry our state and come from the issuer that we sent the person to,
 * compared as plain strings. Otherwise the code is not used.
 *
 * RFC 6749 §4.1.2, RFC 9207 §2.4
 *
 * @throws {OAuthError} `redirect` if it does not answer our request, `declined`, `no_access` or `denied` if consent was refused
 */
export function readRedirect(
  query: URLSearchParams,
  state: string,
  { issuer, sendsIssuer }: Pick<Discovery, 'issuer' | 'sendsIssuer'>,
  url = issuer,
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
    // If there is a description, `access_denied` adds nothing to it.
    const parts = error === 'access_denied' && description ? [description] : [error, description];
    const reasons = parts.filter((part) => part !== null).map(plain);
    const details = { endpoint: issuer, error: plain(error) };
    const known = error === 'access_denied' && knownRefusal(reasons.join(), issuer, url, details);
    if (known) throw known;
    throw new OAuthError('denied', `${issuer} answered: ${reasons.join(': ')}`, {
      ...details,
    });
  }
  const code = query.get('code');
  if (!code) throw refuse('the redirect contains no code');
  return code;
}

/** The exact words with which a Latchkey server explains why it sends a person back without a code. */
const ownReasons = {
  declined: 'the person denied access',
  stranger: 'this server does not exist, or you have no access to it',
  none: 'this person can use none of these servers',
} as const;

function knownRefusal(
  reason: string,
  issuer: string,
  url: string,
  details: OAuthErrorDetails,
): OAuthError | undefined {
  switch (reason) {
    case ownReasons.declined:
      return new OAuthError('declined', 'you chose Deny', details);
    case ownReasons.stranger: {
      const remedy = `check the URL, or ask for access: ${myServersUrl(url)}`;
      const message = `${url} does not exist, or you have no access to it`;
      return new OAuthError('no_access', message, { ...details, remedy });
    }
    case ownReasons.none:
      return new OAuthError('no_access', `you have no access to any server of ${issuer}`, details);
    default:
      return undefined;
  }
}

/** The page of the dashboard where a person sees the servers of an organization, and asks for access. */
function myServersUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  const [, organization] = /^\/mcp\/([a-z0-9-]+)\//.exec(pathname) ?? [];
  return `${origin}/dashboard${organization === undefined ? '' : `/${organization}/my-servers`}`;
}

function same(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Text from a server, made safe for a page and a terminal. */
function plain(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, ' ').slice(0, 200);
}

/**
 * Reads the query of a redirect that the person pastes. They copy it from the browser's address bar if the browser runs on
 * another computer and cannot reach our listener. Calls `complain` for other lines.
 *
 * @throws {LoopbackError} `pasted` if the input ends first
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
