import type { Clock } from '#clock/clock';
import type { PersonCredentials } from '#config/connection';
import { LoopbackError } from './loopback-error.ts';
import type { Redirect } from './redirect-listener.ts';
import { accountName } from './account-name.ts';
import { authorizationCodeGrant } from './authorization-code-grant.ts';
import { authorizationRequest } from './authorization-request.ts';
import { discover } from './discover.ts';
import { tokenOf } from './fetched-token.ts';
import { OAuthError } from './oauth-error.ts';
import { readRedirect } from './read-redirect.ts';
import { wantedScopes } from './wanted-scopes.ts';
import type { TokenRecord } from './token-record.ts';
import type { Granted } from './token-vault.ts';
import { chooseClient, type ChooseClientPorts } from './choose-client.ts';
import { bindSecret } from './configured-client.ts';

/** Where a person is asked. */
export type AuthorizationPage = {
  /** The page itself: for this user's eyes alone, and for a browser on another machine. */
  url: URL;
  /** A new one-time address on this machine that leads there; as `RedirectListener` makes them. */
  link: () => URL;
};

/** Shows a page to the person; `undefined`, or the query of a redirect that was brought by hand. */
export type ShowPage = (
  page: AuthorizationPage,
  redirectUri: string,
  isOurs: (query: URLSearchParams) => boolean,
) => Promise<URLSearchParams | undefined>;

export type SignInPorts = ChooseClientPorts & {
  clock: Clock;
  show: ShowPage;
  save: (granted: Granted) => Promise<TokenRecord>;
};

export type SignInInput = {
  url: string;
  credentials: PersonCredentials;
  challenge?: string | undefined;
  /** The token before, whose scopes stay. */
  previous?: TokenRecord | undefined;
  /** Ask for what the challenge names besides what there was. */
  wider?: boolean;
  /** Scopes besides what is configured or announced. */
  more?: readonly string[];
  /** The user's word that a stored secret may go to another issuer than before. */
  rebind?: boolean;
  timeoutMs: number;
  signal: AbortSignal;
};

const done = (signedInAs: string | undefined) => ({
  status: 200,
  title: signedInAs === undefined ? 'You are signed in' : `You are signed in as ${signedInAs}`,
  text: 'Close this page and go back to work.',
});

/**
 * Lets a person sign in with the browser, from the server's URL to a stored token. The page there says
 * so only after the token was fetched and stored.
 *
 * OAuth 2.1 §4.1, RFC 8252, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError} {@link LoopbackError} or what the secret store rejects with
 */
export async function signIn(input: SignInInput, ports: SignInPorts): Promise<TokenRecord> {
  const { url, credentials, challenge, previous, timeoutMs, signal } = input;
  const { http, clock, show, save, store } = ports;
  const { issuer: configuredIssuer } = credentials;
  const discovery = await discover(
    {
      url,
      ...(challenge !== undefined && { challenge }),
      ...(configuredIssuer !== undefined && { issuer: configuredIssuer }),
      ...(credentials.resource !== undefined && { resource: credentials.resource }),
      publishedBefore: previous?.published ?? false,
    },
    http,
  );
  const { issuer, takesS256 } = discovery;
  if (!takesS256)
    throw new OAuthError('metadata', `${issuer} does not announce PKCE with S256`, {
      endpoint: issuer,
    });
  // A client that somebody gave us is good at the issuer it was given by; the user may say otherwise.
  if (credentials.clientId !== undefined && configuredIssuer === undefined && !input.rebind)
    refuseForeign(previous?.issuer, issuer);
  const before = input.wider
    ? [...(previous?.scope?.split(' ') ?? []), ...(discovery.challengedScopes ?? [])]
    : [];
  const more = [...before, ...(input.more ?? [])].filter(Boolean);
  const scopes = wantedScopes(credentials.scopes, discovery, more);
  const { client, listener } = await chooseClient({ url, credentials }, scopes, discovery, ports);
  try {
    if (!input.rebind) refuseForeign(client.boundIssuer, issuer);
    const { clientId } = client;
    const { redirectUri } = listener;
    const { authorizeParams = {} } = credentials;
    const asked = { clientId, redirectUri, scopes, authorizeParams };
    const request = authorizationRequest(asked, discovery);
    const isOurs = (query: URLSearchParams) => query.get('state') === request.state;
    // Listening begins before the browser can be back.
    const arriving = listener.redirect(isOurs, { timeoutMs, signal });
    const page = { url: request.url, link: () => listener.linkTo(request.url) };
    const brought = show(page, redirectUri, isOurs).then((query) =>
      query ? byHand(query) : arriving,
    );
    arriving.catch(() => undefined);
    brought.catch(() => undefined);
    const redirect = await Promise.race([arriving, brought]);
    try {
      const code = readRedirect(redirect.query, request.state, discovery);
      const { codeVerifier } = request;
      const redeemed = { client, code, codeVerifier, redirectUri };
      const granted = await authorizationCodeGrant(redeemed, discovery, { http, clock });
      const { refreshToken } = granted;
      const scope = granted.scope ?? scopes?.join(' ');
      const signedInAs = await accountName(discovery, granted.accessToken, http);
      const record = await save({
        ...tokenOf(granted, discovery, clock.now()),
        ...(scope !== undefined && { scope }),
        ...(signedInAs !== undefined && { signedInAs }),
        ...(refreshToken !== undefined && { refresh: { refreshToken, clientId } }),
      });
      if (credentials.clientSecret === 'keychain') await bindSecret(url, client, issuer, store);
      await redirect.answer(done(signedInAs));
      return record;
    } catch (error) {
      await redirect.answer({ status: 400, title: 'You are not signed in', text: reason(error) });
      throw error;
    }
  } finally {
    await listener.close();
  }
}

function refuseForeign(known: string | undefined, issuer: string): void {
  if (known === undefined || known === issuer) return;
  throw new OAuthError('issuer', `the client id belongs to ${known}, not to ${issuer}`, {
    endpoint: issuer,
  });
}

function byHand(query: URLSearchParams): Redirect {
  return { query, answer: () => Promise.resolve() };
}

function reason(error: unknown): string {
  const known = error instanceof OAuthError || error instanceof LoopbackError;
  const why = known ? error.message : 'the token could not be kept on this machine';
  if (error instanceof OAuthError && error.code === 'denied') return `${why}. Nothing was kept.`;
  return `${why}. Nothing was kept; begin again, or tell whoever runs the server.`;
}
