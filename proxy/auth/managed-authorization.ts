// Enterprise-managed authorization: the person signs in once at the identity provider of the company, which then vouches for them at each
// server with an assertion (ID-JAG). Neither a consent page nor a refresh token of the server is needed.
import type { PersonCredentials } from '#config/connection';
import type { IdentityProvider } from '#config/identity-provider';
import type { OAuthSettings } from '#config/oauth-fields';
import { isInKeychain } from '#config/secret';
import { providerAccount } from '#keychain/secret-accounts';
import type { OAuthConnection, Account } from './account.ts';
import { wantedScopes } from './authorization-request.ts';
import type { ShowPage } from './authorization-page.ts';
import {
  bindSecret,
  configuredClient,
  type ConfiguredClient,
  type ConfiguredClientPorts,
} from './client-authentication.ts';
import { clientMetadataDocument, ownDocumentUrl } from './client-registration.ts';
import { discover, type Discovery } from './discovery.ts';
import { OAuthError, TokenError } from './errors.ts';
import {
  currentSignIn,
  signInAtProvider,
  type ProviderPorts,
  type ProviderSignIn,
} from './provider-sign-in.ts';
import { jwtBearer, jwtBearerGrant, tokenOf, tokenRequest } from './token-request.ts';
import type { Known } from './token-source.ts';
import { isExpired, type Granted, type TokenRecord } from './token-vault.ts';

const idJagProfile = 'urn:ietf:params:oauth:grant-profile:id-jag';
const idJagType = 'urn:ietf:params:oauth:token-type:id-jag';
const idTokenType = 'urn:ietf:params:oauth:token-type:id_token';

/** `unsupported`: why the person has to sign in to the server itself. If only the server named the provider, a refusal counts as well. */
export type ManagedOutcome = { granted: Granted } | { unsupported: string };

export type ManagedInput = {
  url: string;
  credentials: PersonCredentials;
  provider: IdentityProvider;
  /** Whether the user allows another issuer than before. */
  rebind?: boolean;
};

export type ManagedPorts = ProviderPorts & ConfiguredClientPorts & Partial<Pick<Account, 'device'>>;

/**
 * Fetches a token with the company sign-in, without opening a page.
 *
 * io.modelcontextprotocol/enterprise-managed-authorization §4–5, RFC 8693, RFC 7523
 *
 * @throws {TokenError} `signed_out` if the person has to sign in at the provider
 * @throws {OAuthError} `refused` if the provider or the server gives the person no access
 */
export async function managedGrant(
  { url, credentials, provider, rebind = false }: ManagedInput,
  { challenge, previous, wider }: Known,
  ports: ManagedPorts,
): Promise<ManagedOutcome> {
  const { http, clock, store } = ports;
  const publishedBefore = previous?.published ?? false;
  const discovery = await discover({ url, credentials, challenge, publishedBefore }, http);
  const { issuer } = discovery;
  if (!offersIdJag(discovery, credentials)) return { unsupported: `${issuer} does not offer it` };
  const client = await clientFor(url, credentials, previous, discovery, ports);
  if (!client) return { unsupported: `${issuer} knows no client of this program` };
  const known =
    client.boundIssuer ?? (credentials.issuer === undefined ? previous?.issuer : issuer);
  if (!rebind && known !== undefined && known !== issuer)
    throw new OAuthError('issuer', `${url} now trusts ${issuer}; until now it trusted ${known}`, {
      endpoint: issuer,
    });
  const before = wider ? [previous?.scope, ...(discovery.challengedScopes ?? [])] : [];
  const more = before.flatMap((scope) => scope?.split(' ') ?? []).filter(Boolean);
  const wanted = wantedScopes(credentials.scopes, discovery, more);
  // `offline_access` requests a refresh token, which this grant does not issue.
  const scopes = wanted?.filter((scope) => scope !== 'offline_access');
  const asked = { url, provider, scopes };
  // Only a Latchkey server publishes a document about this program.
  const device = client.clientId === ownDocumentUrl(issuer) ? await ports.device?.() : undefined;
  try {
    const { assertion, signedInAs } = await exchanged(asked, discovery, ports);
    const form = { client, assertion, scopes, device };
    const given = await jwtBearerGrant(form, discovery, ports).catch((error: unknown) => {
      throw isSignedOut(error)
        ? new TokenError('signed_out', `${issuer} signed this computer out`, { cause: error })
        : accessRefusal(error, issuer, url);
    });
    if (isInKeychain(credentials.clientSecret)) await bindSecret(url, client, issuer, store);
    const named = { scope: scopes?.join(' '), signedInAs };
    return {
      granted: {
        ...tokenOf(given, discovery, clock.now(), named),
        provider: provider.issuer,
        clientId: client.clientId,
      },
    };
  } catch (error) {
    if (!(error instanceof OAuthError && error.code === 'refused')) throw error;
    // If only the server named the provider, the company does not require it: the person can still sign in to the server itself.
    const isNamedByServer = provider.namedBy !== undefined;
    if (!isNamedByServer && !unsupported.has(error.details.error ?? '')) throw error;
    return { unsupported: error.message };
  }
}

/** Whether a Latchkey server signed this computer out. It accepts the computer again after a new sign-in at the provider. */
function isSignedOut(error: unknown): boolean {
  return (
    error instanceof OAuthError && (error.details.errorDescription ?? '').startsWith('signed out: ')
  );
}

/** The error codes of a server that does not support this grant at all. Every other refusal is about this person or client. */
const unsupported = new Set(['unsupported_grant_type', 'unsupported_token_type']);

/**
 * Whether an authorization server accepts a provider's assertions about people. The grant type alone proves that only if the connection
 * itself names its provider, because some servers list the type for workloads or service accounts.
 */
export function offersIdJag(
  { grantProfiles, grantTypes = [] }: Pick<Discovery, 'grantProfiles' | 'grantTypes'>,
  { identityProvider }: OAuthSettings,
): boolean {
  const byType = identityProvider !== undefined && grantTypes.includes(jwtBearer);
  return grantProfiles?.includes(idJagProfile) ?? byType;
}

/** The client at the server: the configured one, the previous one, or a metadata document. Registers none, because no person asked for it. */
async function clientFor(
  url: string,
  credentials: PersonCredentials,
  previous: TokenRecord | undefined,
  discovery: Discovery,
  ports: ManagedPorts,
): Promise<ConfiguredClient | undefined> {
  const configured = await configuredClient(url, credentials, ports);
  if (configured) return configured;
  const { clientMetadataUrl } = credentials;
  if (clientMetadataUrl !== undefined && discovery.takesMetadataUrls)
    return { clientId: clientMetadataUrl };
  if (previous?.provider !== undefined && previous.clientId !== undefined)
    return { clientId: previous.clientId };
  const document = await clientMetadataDocument(discovery, ports.http);
  return document && { clientId: document.clientId };
}

type Asked = { url: string; provider: IdentityProvider; scopes: readonly string[] | undefined };
type Exchanged = { assertion: string; signedInAs?: string | undefined };

/** The error codes of a provider that no longer accepts the ID token. RFC 8693 §2.2.2 specifies `invalid_request`. */
const aboutSubject = new Set(['invalid_grant', 'invalid_request', 'invalid_token']);
/** The error codes of a provider that requires the person to sign in again. RFC 9470 §3, OpenID Connect Core 1.0 §3.1.2.6 */
const aboutPerson = new Set([
  'insufficient_user_authentication',
  'interaction_required',
  'login_required',
]);

/** The provider's assertion about the person, for one server. An ID token that the provider does not accept is renewed once, unless it is new. */
async function exchanged(
  asked: Asked,
  discovery: Discovery,
  ports: ManagedPorts,
): Promise<Exchanged> {
  const { provider, url } = asked;
  const signedIn = await currentSignIn(provider, undefined, ports);
  const exchangeOf = async (one: ProviderSignIn) =>
    exchange(one, asked, discovery, ports).catch((error: unknown) => {
      throw isAbout(aboutPerson, error)
        ? new TokenError('signed_out', `${provider.issuer} requires you to sign in again`, {
            cause: error,
          })
        : error;
    });
  const refuse = (error: unknown) => {
    throw accessRefusal(error, provider.issuer, url);
  };
  if (isNew(signedIn, ports)) return exchangeOf(signedIn).catch(refuse);
  return exchangeOf(signedIn).catch(async (error: unknown) => {
    if (!isAbout(aboutSubject, error)) return refuse(error);
    return exchangeOf(await currentSignIn(provider, signedIn.idToken, ports)).catch(refuse);
  });
}

function isAbout(codes: ReadonlySet<string>, error: unknown): boolean {
  return (
    error instanceof OAuthError && error.code === 'refused' && codes.has(error.details.error ?? '')
  );
}

/** If a provider refuses a sign-in that is younger than this, its age is not the reason. */
const newSeconds = 60;

function isNew({ obtainedAt }: ProviderSignIn, { clock }: ManagedPorts): boolean {
  return clock.now() - obtainedAt < newSeconds;
}

async function exchange(
  { idToken, server, signedInAs }: ProviderSignIn,
  { provider, scopes = [] }: Asked,
  { issuer, parameters }: Discovery,
  ports: ManagedPorts,
): Promise<Exchanged> {
  const form = {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    requested_token_type: idJagType,
    audience: issuer,
    subject_token: idToken,
    subject_token_type: idTokenType,
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    ...parameters,
  };
  // An ID-JAG is not an access token, so RFC 8693 §2.2.1 requires the token type `N_A`.
  const granted = await tokenRequest(provider, server, form, ports, 'N_A');
  if (granted.issuedTokenType === idJagType) return { assertion: granted.accessToken, signedInAs };
  const endpoint = server.tokenEndpoint;
  throw new OAuthError('metadata', `${endpoint} issued another token than an ID-JAG`, { endpoint });
}

/** Rewords a refusal to say who refuses access and who can grant it. Returns any other error unchanged. */
function accessRefusal(error: unknown, who: string, url: string): unknown {
  if (!(error instanceof OAuthError) || error.code !== 'refused') return error;
  if (unsupported.has(error.details.error ?? '')) return error;
  const { error: code, errorDescription } = error.details;
  const reason = [code, errorDescription].filter(Boolean).join(': ');
  const message = `${who} gives you no access to ${url}${reason && ` (${reason})`}`;
  const remedy = 'ask the administrators of your company for access';
  return new OAuthError('refused', message, { ...error.details, remedy }, { cause: error });
}

/** Long enough for a person to find a password and a second factor. */
const timeoutMs = 10 * 60_000;

export type ManagedSignInOptions = {
  show: ShowPage;
  signal: AbortSignal;
  known: Known;
  rebind: boolean;
  next?: string | undefined;
  /** Tells the person why the company sign-in is not used. */
  tell?: ((sentence: string) => void) | undefined;
};

/**
 * Signs in to a connection with the company sign-in. Only the first connection of a provider opens a page. Returns `undefined` if the
 * person has to sign in to the server itself.
 */
export async function managedSignIn(
  account: Account,
  provider: IdentityProvider,
  { show, signal, known, rebind, next, tell }: ManagedSignInOptions,
): Promise<TokenRecord | undefined> {
  const { connection, signInLock } = account;
  const { url, credentials } = connection;
  if (credentials.kind !== 'authorization_code') return undefined;
  const attempt = async () => managedGrant({ url, credentials, provider, rebind }, known, account);
  const withPage = async ({ cause }: TokenError): Promise<ManagedOutcome> => {
    // The provider or the server refused the current sign-in. Only a new one helps, so the provider must not reuse its session.
    const again = cause instanceof OAuthError;
    await showProviderPage(account, provider, { again, next, show, signal });
    return orElse(attempt, async (why) => {
      if (!isSignedOut(why.cause)) throw why;
      if (!again) return withPage(why);
      // The person's consent at the server lets the computer in again, whatever the provider says.
      return { unsupported: `${why.message}, and the provider does not say when you signed in` };
    });
  };
  // Of several proxies that need the person, one opens a page, and the others use that sign-in. A person's own request does not wait.
  const outcome = await orElse(attempt, async (why) =>
    rebind
      ? withPage(why)
      : signInLock.hold(`sign in ${providerAccount(provider)}`, async () =>
          orElse(attempt, withPage),
        ),
  );
  if ('unsupported' in outcome) {
    tell?.(unsupportedSentence(connection, provider, outcome.unsupported));
    return undefined;
  }
  return keep(outcome.granted, account);
}

/** Lets the person sign in at the provider with the browser. The redirect uses the connection's address, with the provider's port if it has one. */
export async function showProviderPage(
  account: Account,
  provider: IdentityProvider,
  how: Pick<ManagedSignInOptions, 'show' | 'signal' | 'next'> & { again: boolean },
): Promise<ProviderSignIn> {
  const { redirectHost: host, redirectPath: path, redirectPort } = account.connection.credentials;
  const address = { port: provider.redirectPort ?? redirectPort, host, path };
  const { show, ...page } = how;
  return signInAtProvider(provider, { ...page, address, timeoutMs }, { ...account, show });
}

async function keep(granted: Granted, { vault, lock, marks }: Account): Promise<TokenRecord> {
  const record = await lock.hold(vault.account, async () => vault.save(granted));
  await marks.rememberSignedIn();
  return record;
}

/**
 * Signs in to another connection of a provider at which the person has just signed in. Returns `false` if that is not necessary or the
 * server does not support it.
 */
export async function joinSignIn(account: Account, provider: IdentityProvider): Promise<boolean> {
  const { connection, vault, clock } = account;
  const { url, credentials } = connection;
  if (credentials.kind !== 'authorization_code') return false;
  const previous = await vault.access();
  if (previous && !isExpired(previous, clock.now())) return false;
  const known = { ...(previous && { previous }), wider: false };
  const outcome = await managedGrant({ url, credentials, provider }, known, account);
  if ('granted' in outcome) await keep(outcome.granted, account);
  return 'granted' in outcome;
}

/** Tries `silently`, and `then` if that requires the person. */
async function orElse<T>(
  silently: () => Promise<T>,
  then: (why: TokenError) => Promise<T>,
): Promise<T> {
  try {
    return await silently();
  } catch (error) {
    if (!(error instanceof TokenError && error.code === 'signed_out')) throw error;
    return then(error);
  }
}

/** The message for a connection that cannot use the company sign-in. */
export function unsupportedSentence(
  { name }: Pick<OAuthConnection, 'name'>,
  { issuer }: IdentityProvider,
  why: string,
): string {
  return `${name} cannot use the company sign-in of ${issuer}: ${why}; sign in to the server itself`;
}
