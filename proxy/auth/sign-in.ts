import { aborted, type Clock, type EpochSeconds } from '#clock/clock';
import { membersOf } from 'latchkey-mcp/json-value';
import type { PersonCredentials } from '#config/connection';
import { readIdentityProvider } from '#config/identity-provider';
import type { NamedProvider } from '#config/provider-files';
import { isInKeychain } from '#config/secret';
import type { HttpClient } from '#transport/http-client';
import type { Account } from './account.ts';
import { throughPage, type ShowPage } from './authorization-page.ts';
import { authorizationRequest, readRedirect, wantedScopes } from './authorization-request.ts';
import { bindSecret } from './client-authentication.ts';
import { chooseClient, registeredClients, type ChooseClientPorts } from './client-registration.ts';
import { discover, type Discovery } from './discovery.ts';
import { LoopbackError, OAuthError, TokenError } from './errors.ts';
import { fetchJson } from './fetch-json.ts';
import { ownGrant } from './account-tokens.ts';
import { clientNamed, personGrant } from './grants.ts';
import { listAccount } from './server-list.ts';
import { authorizationCodeGrant, revokeToken, tokenOf } from './token-request.ts';
import type { Known } from './token-source.ts';
import type { Granted, RefreshRecord, TokenRecord } from './token-vault.ts';

export type SignInPorts = ChooseClientPorts & {
  clock: Clock;
  show: ShowPage;
  save: (granted: Granted) => Promise<TokenRecord>;
  learnProvider?: (named: NamedProvider | undefined) => Promise<void>;
  device?: Account['device'];
};

export type SignInInput = {
  url: string;
  credentials: PersonCredentials;
  challenge?: string | undefined;
  /** The previous token. */
  previous?: TokenRecord | undefined;
  /** Whether to request the scopes of the challenge in addition to the previous ones. */
  wider?: boolean;
  /** Scopes in addition to the configured or announced ones. */
  more?: readonly string[];
  /** Resources to request besides `url`. */
  resources?: readonly string[];
  /** The display name of the assistant that will use the connection. */
  assistant?: string | undefined;
  /** The organization through whose provider the person wants to sign in at a Latchkey server. */
  organization?: string | undefined;
  /** The next step, which the page names, if there is one. */
  next?: string | undefined;
  /** Whether the user allows another issuer than before for the client ID and a stored secret. */
  rebind?: boolean;
  timeoutMs: number;
  signal: AbortSignal;
};

/**
 * Lets a person sign in with the browser, and stores the token. The page shows success only after the token was stored.
 *
 * OAuth 2.1 §4.1, RFC 8252, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError | LoopbackError} or what the secret store rejects with
 */
export async function signIn(input: SignInInput, ports: SignInPorts): Promise<TokenRecord> {
  const { url, credentials, challenge, previous, timeoutMs, signal } = input;
  const { http, clock, show, save, store } = ports;
  const { issuer: configuredIssuer } = credentials;
  const publishedBefore = previous?.published ?? false;
  const discovery = await discover({ url, credentials, challenge, publishedBefore }, http);
  const { issuer, takesS256 } = discovery;
  if (!takesS256)
    throw new OAuthError('metadata', `${issuer} does not support PKCE with S256`, {
      endpoint: issuer,
    });
  // A configured client is valid only at the issuer that registered it, unless the user allows another issuer.
  if (credentials.clientId !== undefined && configuredIssuer === undefined && !input.rebind)
    refuseForeign(previous?.issuer, issuer);
  const before = input.wider
    ? [...(previous?.scope?.split(' ') ?? []), ...(discovery.challengedScopes ?? [])]
    : [];
  const more = [...before, ...(input.more ?? [])].filter(Boolean);
  const scopes = wantedScopes(credentials.scopes, discovery, more);
  const chosen = await chooseClient({ url, credentials }, scopes, discovery, ports);
  const { client, listener } = chosen;
  try {
    if (!input.rebind) refuseForeign(client.boundIssuer, issuer);
    const { clientId } = client;
    const { redirectUri } = listener;
    const { authorizeParams = {} } = credentials;
    // Only a Latchkey server publishes a document about this program, and only it knows these parameters.
    const assistant = chosen.hasOwnDocument ? input.assistant : undefined;
    const organization = chosen.hasOwnDocument ? input.organization : undefined;
    const device = chosen.hasOwnDocument ? await ports.device?.() : undefined;
    const { resources = [] } = input;
    const claims = { assistant, organization, device };
    const parameters = { clientId, redirectUri, scopes, authorizeParams, ...claims, resources };
    const request = authorizationRequest(parameters, discovery);
    return await throughPage(
      { request, listener, show, next: input.next, timeoutMs, signal },
      async (query) => {
        const code = readRedirect(query, request.state, discovery, url);
        const { codeVerifier } = request;
        const redeemed = { client, code, codeVerifier, redirectUri };
        const granted = await authorizationCodeGrant(redeemed, discovery, { http, clock });
        const { refreshToken } = granted;
        const account = await accountOf(discovery, granted.accessToken, http);
        const known = { scope: scopes?.join(' '), signedInAs: account.name };
        const record = await save({
          ...tokenOf(granted, discovery, clock.now(), known),
          ...(refreshToken !== undefined && { refresh: { refreshToken, clientId } }),
        });
        if (isInKeychain(credentials.clientSecret)) await bindSecret(url, client, issuer, store);
        if ('provider' in account) await ports.learnProvider?.(account.provider);
        return record;
      },
    );
  } finally {
    await listener.close();
  }
}

function refuseForeign(known: string | undefined, issuer: string): void {
  if (known === undefined || known === issuer) return;
  throw new OAuthError('issuer', `the client ID belongs to ${known}, not to ${issuer}`, {
    endpoint: issuer,
  });
}

/**
 * The name of the account of an access token, and the identity provider of its company. Empty if the authorization server does not say who
 * signed in, which does not prevent the sign-in. The provider is named here and not in metadata, because only people of the company may
 * know it.
 *
 * OpenID Connect Core 1.0 §5.3; `identity_provider` is our own
 */
export async function accountOf(
  { userinfoEndpoint, within }: Pick<Discovery, 'userinfoEndpoint' | 'within'>,
  accessToken: string,
  http: HttpClient,
): Promise<{ name?: string; provider?: NamedProvider | undefined }> {
  if (userinfoEndpoint === undefined) return {};
  const answer = await fetchJson(http, {
    url: new URL(userinfoEndpoint),
    within,
    method: 'GET',
    headers: { accept: 'application/json', authorization: `Bearer ${accessToken}` },
  }).catch(() => undefined);
  if (answer?.status !== 200) return {};
  const { email, preferred_username: username, identity_provider: announced } = answer.json ?? {};
  const name = [email, username].find((one) => typeof one === 'string' && one.trim() !== '');
  const { issuer, client_id: clientId, servers } = membersOf(announced);
  const provider = readIdentityProvider({ issuer, clientId }, () => undefined);
  const urls = Array.isArray(servers) ? servers.filter((one) => typeof one === 'string') : [];
  return {
    ...(typeof name === 'string' && { name: name.trim().slice(0, 200) }),
    provider: provider && urls.length > 0 ? { provider, servers: urls.slice(0, 20) } : undefined,
  };
}

/** Long enough for a person to find a password and a second factor. */
const timeoutMs = 10 * 60_000;

export type SignInAccountOptions = {
  show: ShowPage;
  signal: AbortSignal;
  known?: Known;
  /** Whether the user allows another issuer than before. */
  rebind?: boolean;
  /** The display name of the assistant that will use the connection. */
  assistant?: string | undefined;
  /** The next step, which the page names, if there is one. */
  next?: string | undefined;
  /** Tells the person why the company sign-in that is configured is not used. */
  tell?: ((sentence: string) => void) | undefined;
};

/** Signs in to a connection, as a person or as the client or workload itself, and stores the token. */
export async function signInAccount(
  account: Account,
  { known = { wider: false }, rebind = false, tell, ...page }: SignInAccountOptions,
): Promise<TokenRecord> {
  const { connection, vault, lock, marks, store } = account;
  const { url, credentials } = connection;
  if (credentials.kind === 'client_credentials') {
    const grant = ownGrant(account, { url, credentials }, rebind);
    return lock.hold(vault.account, async () => vault.save(await grant({ wider: false })));
  }
  const { show, signal, assistant, next } = page;
  const provider = await account.provider();
  if (provider) {
    const { managedSignIn } = await import('./managed-authorization.ts');
    const stored = known.previous ?? (await vault.access());
    const current = { ...known, ...(stored && { previous: stored }) };
    const how = { show, signal, next, known: current, rebind, tell };
    const record = await managedSignIn(account, provider, how);
    if (record) return record;
  }
  const save = async (granted: Granted) => {
    const record = await lock.hold(vault.account, async () => vault.save(granted));
    await marks.rememberSignedIn();
    return record;
  };
  const { challenge, wider } = known;
  const previous = known.previous ?? (await vault.access());
  if (previous?.renewedBy !== undefined)
    return signInShared(account, previous.renewedBy, { ...page, wider, previous, rebind });
  return signIn(
    {
      url,
      credentials,
      challenge,
      previous,
      wider,
      more: await marks.wantedScopes(),
      rebind,
      assistant,
      next,
      timeoutMs,
      signal,
    },
    { ...account, clients: registeredClients(store), show, save },
  );
}

/** The options of a sign-in for several servers. */
export type SharedSignInOptions = Pick<
  SignInAccountOptions,
  'show' | 'signal' | 'assistant' | 'next'
> &
  Pick<SignInInput, 'organization'>;

/**
 * Signs in to a list of servers, and stores the tokens of the list. On the page, the servers that share its sign-in are ticked. The
 * previous sign-in ends, and with it all access that the person no longer allows.
 */
export async function signInToList(
  account: Account,
  {
    show,
    signal,
    assistant,
    organization,
    next,
    scopes = [],
  }: SharedSignInOptions & { scopes?: string[] },
): Promise<TokenRecord> {
  const { connection, vault, lock, store, marks } = account;
  const { url, credentials } = connection;
  if (credentials.kind !== 'authorization_code') throw new TypeError('no list of servers');
  const before = await vault.access();
  const old = before && (await vault.refresh(before.issuer));
  const save = async (granted: Granted) =>
    lock.hold(vault.account, async () => vault.save(granted));
  const record = await signIn(
    {
      url,
      credentials,
      previous: before,
      more: scopes,
      resources: await account.sharedServers(url),
      assistant,
      organization,
      next,
      timeoutMs,
      signal,
    },
    { ...account, clients: registeredClients(store), show, save },
  );
  await marks.rememberSignedIn();
  if (old && before.issuer === record.issuer) await endSignIn(account, old, before);
  return record;
}

/** Revokes a sign-in that a new one has replaced. Ignores failures, because the old sign-in is no longer stored on this computer. */
async function endSignIn(
  account: Account,
  { refreshToken, clientId }: RefreshRecord,
  { published, issuer }: TokenRecord,
): Promise<void> {
  const { url, credentials } = account.connection;
  if (credentials.kind !== 'authorization_code') return;
  const ports = { ...account, clients: registeredClients(account.store) };
  try {
    const known = { url, credentials, publishedBefore: published };
    const server = await discover(known, account.http);
    const client = await clientNamed(clientId, issuer, url, credentials, ports);
    await revokeToken({ client, token: refreshToken, hint: 'refresh_token' }, server, account);
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error;
  }
}

/**
 * Signs in again for all connections that share the sign-in of a list, and gets the token of this one. Of several proxies that need the
 * person, one opens a page, and the others use that sign-in.
 */
async function signInShared(
  account: Account,
  list: string,
  {
    wider,
    previous,
    rebind,
    ...page
  }: SharedSignInOptions & { wider: boolean; previous: TokenRecord; rebind: boolean },
): Promise<TokenRecord> {
  const { signInLock, marks } = account;
  const shared = await listAccount(account, list);
  const before = wider ? (previous.scope?.split(' ') ?? []) : [];
  const withPage = async () => {
    const scopes = [...before, ...(await marks.wantedScopes())];
    const signedIn = await signInToList(shared, { ...page, scopes });
    return joinList(account, list, signedIn).catch((error: unknown) => {
      const { cause } = error instanceof TokenError ? error : {};
      if (!(cause instanceof OAuthError && cause.details.error === 'invalid_target')) throw error;
      const { name } = account.connection;
      const message = `you did not choose ${name} on the page, so you are not signed in to it`;
      throw new TokenError('not_chosen', message, { cause: error });
    });
  };
  if (rebind || wider) return withPage();
  return signInLock.hold(`sign in ${shared.vault.account}`, async () => {
    if ((await shared.vault.refresh(previous.issuer)) === undefined) return withPage();
    return joinList(account, list, previous).catch(async (error: unknown) => {
      if (!(error instanceof TokenError && error.code === 'signed_out')) throw error;
      return withPage();
    });
  });
}

/** Gets and stores the token of a connection with the sign-in of a list. */
export async function joinList(
  account: Account,
  list: string,
  { issuer, signedInAs, published, obtainedAt }: TokenRecord,
): Promise<TokenRecord> {
  const { connection, vault, lock, marks, store } = account;
  const { url, credentials } = connection;
  if (credentials.kind !== 'authorization_code') throw new TypeError('no person signs in');
  const previous = {
    accessToken: '',
    obtainedAt,
    issuer,
    published,
    renewedBy: list,
    ...(signedInAs !== undefined && { signedInAs }),
  };
  const ports = { ...account, clients: registeredClients(store) };
  const record = await lock.hold(vault.account, async () =>
    vault.save(await personGrant({ url, credentials }, { previous, wider: false }, ports)),
  );
  await marks.rememberSignedIn();
  return record;
}

/** The progress of a sign-in; `waiting` has the page for a person whose browser does not open. */
export type SignInProgress =
  | { step: 'discovering' }
  | { step: 'waiting'; page: string; browserOpened: boolean }
  | { step: 'storing' };

export type SignedIn = {
  issuer: string;
  /** The account, if the server names it. */
  signedInAs?: string;
  scopes?: readonly string[];
  expiresAt?: EpochSeconds;
  /** The issuer of the company's provider that vouched for the person. */
  provider?: string;
  /** Why the company sign-in that is configured was not used. */
  note?: string;
  /** Other connections that are now signed in, because they name the same provider. */
  also?: readonly string[];
};

/** Opens the page in the browser of this computer. */
export function browserPage({
  openBrowser,
  progress,
}: {
  openBrowser: (url: URL) => Promise<boolean>;
  progress: (progress: SignInProgress) => void;
}): ShowPage {
  return async (page) => {
    const browserOpened = await openBrowser(page.link());
    progress({ step: 'waiting', page: page.link().href, browserOpened });
    return undefined;
  };
}

/** Signs in at the user's request, which also allows another issuer than before. Ends when `signal` aborts. */
export async function signInConnection(
  account: Account,
  how: Omit<SignInAccountOptions, 'known' | 'rebind'>,
): Promise<SignedIn> {
  let note: string | undefined;
  const tell = (sentence: string) => {
    note = sentence;
    how.tell?.(sentence);
  };
  const signingIn = signInAccount(account, { ...how, tell, rebind: true });
  const { issuer, scope, expiresAt, signedInAs, provider } = await Promise.race([
    signingIn,
    abortedSignIn(how.signal, signingIn),
  ]);
  return {
    issuer,
    ...(signedInAs !== undefined && { signedInAs }),
    ...(scope !== undefined && { scopes: scope.split(' ').filter(Boolean) }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(provider !== undefined && { provider }),
    ...(note !== undefined && { note }),
  };
}

/** How long an aborted sign-in may take to end. */
const graceMs = 200;

/** Rejects soon after `signal` aborts, even if a server does not respond. Until then, the page can show the outcome. */
export async function abortedSignIn(
  signal: AbortSignal,
  signingIn: Promise<unknown>,
): Promise<never> {
  const ending = signingIn.catch(() => undefined);
  await aborted(signal);
  await Promise.race([ending, new Promise((resolve) => setTimeout(resolve, graceMs))]);
  throw new LoopbackError('aborted', 'the sign-in was cancelled');
}
