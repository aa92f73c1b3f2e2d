import { parseObject } from 'latchkey-mcp/json-value';
import type { PersonCredentials } from '#config/connection';
import type { SecretStore } from '#keychain/secret-store';
import type { HttpClient } from '#transport/http-client';
import { webUrl } from '#transport/web-url';
import {
  configuredClient,
  type ConfiguredClient,
  type ConfiguredClientPorts,
  type OAuthClient,
} from './client-authentication.ts';
import type { Discovery } from './discovery.ts';
import { OAuthError } from './errors.ts';
import { fetchJson } from './fetch-json.ts';
import type { RedirectListener, RedirectListenerOptions } from './redirect-listener.ts';
import { refusal } from './token-request.ts';

export type ChooseClientPorts = ConfiguredClientPorts & {
  http: HttpClient;
  clients: RegisteredClients;
  listen: (options: RedirectListenerOptions) => Promise<RedirectListener>;
};

/** The client to use, and the open listener for its redirect. */
export type ChosenClient = {
  client: ConfiguredClient;
  listener: RedirectListener;
  /** Whether the authorization server publishes a metadata document about this program. */
  hasOwnDocument?: boolean;
};

/**
 * Chooses the client that asks for a person's consent: the configured one, otherwise the URL of a metadata document about this
 * program, otherwise one that the authorization server registers.
 *
 * MCP 2026-07-28 authorization, client registration
 *
 * @throws {OAuthError} `client`, with what to do, if there is none
 */
export async function chooseClient(
  { url, credentials }: { url: string; credentials: PersonCredentials },
  scopes: readonly string[] | undefined,
  discovery: Discovery,
  ports: ChooseClientPorts,
): Promise<ChosenClient> {
  const { issuer, takesMetadataUrls, registrationEndpoint } = discovery;
  const { clientMetadataUrl, redirectPort: port } = credentials;
  const { redirectHost: host, redirectPath: path } = credentials;
  const address = { port, host, path };
  const { http, clients, listen } = ports;
  const configured = await configuredClient(url, credentials, ports);
  if (configured) return { client: configured, listener: await listen(address) };
  if (clientMetadataUrl !== undefined && takesMetadataUrls)
    return { client: { clientId: clientMetadataUrl }, listener: await listen(address) };
  const document = await clientMetadataDocument(discovery, http);
  if (document) {
    const { clientId, redirectHost, redirectPath } = document;
    const documented = { port, host: redirectHost, path: redirectPath };
    return { client: { clientId }, listener: await listen(documented), hasOwnDocument: true };
  }
  if (registrationEndpoint === undefined)
    throw new OAuthError(
      'client',
      `${issuer} does not register applications automatically; a client ID is required`,
      { endpoint: issuer },
    );
  const registered = await clients.of(issuer);
  const listener = await sameListener(registered?.redirectUri, address, listen);
  try {
    if (registered?.redirectUri === listener.redirectUri) return { client: registered, listener };
    const { redirectUri } = listener;
    const client = await registerClient({ redirectUri, scopes }, discovery, http);
    await clients.keep(client);
    return { client, listener };
  } catch (error) {
    await listener.close();
    throw error;
  }
}

/** Some servers compare the port too, so the registered port is tried first. */
async function sameListener(
  redirectUri: string | undefined,
  address: RedirectListenerOptions,
  listen: ChooseClientPorts['listen'],
): Promise<RedirectListener> {
  const before = Number(redirectUri && URL.parse(redirectUri)?.port);
  if (address.port === undefined && before > 0) {
    const same = await listen({ ...address, port: before, attempts: 1 }).catch(() => undefined);
    if (same) return same;
  }
  return listen(address);
}

/** A client id that is a URL, and the redirect to our listener that its document allows. */
export type ClientMetadataDocument = {
  clientId: string;
  redirectHost: string;
  redirectPath: string;
};

/** The URL at which a Latchkey server publishes the metadata document about this program. */
export function ownDocumentUrl(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/oauth/clients/latchkey.json`;
}

/**
 * The metadata document about this program that an authorization server itself publishes, at
 * `{issuer}/oauth/clients/latchkey.json`; `undefined` if there is none that contains its own URL and a redirect to this host. A
 * Latchkey server without internet access announces no support for such documents, but accepts its own.
 *
 * OAuth Client ID Metadata Document §4
 */
export async function clientMetadataDocument(
  { issuer, within }: Pick<Discovery, 'issuer' | 'within'>,
  http: HttpClient,
): Promise<ClientMetadataDocument | undefined> {
  const url = webUrl(ownDocumentUrl(issuer));
  if (!url) return undefined;
  const answer = await fetchJson(http, {
    url,
    within,
    method: 'GET',
    headers: { accept: 'application/json' },
  }).catch(() => undefined);
  const { client_id: clientId, redirect_uris: uris } = answer?.json ?? {};
  if (answer?.status !== 200 || clientId !== url.href || !Array.isArray(uris)) return undefined;
  const redirects = uris
    .map((uri) => (typeof uri === 'string' ? URL.parse(uri) : null))
    .filter((uri) => uri !== null)
    .filter(({ protocol, search, hash }) => protocol === 'http:' && !search && !hash);
  const redirect =
    redirects.find(({ hostname }) => hostname === '127.0.0.1') ??
    redirects.find(({ hostname }) => hostname === 'localhost');
  return (
    redirect && {
      clientId,
      redirectHost: redirect.hostname,
      redirectPath: redirect.pathname,
    }
  );
}

/** A client that an authorization server registered for us. It is valid only there. */
export type RegisteredClient = Omit<OAuthClient, 'privateKey'> & {
  issuer: string;
  redirectUri: string;
};

/**
 * Registers this program as a native application, without a secret if the server allows that.
 *
 * RFC 7591 §3.1, MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function registerClient(
  { redirectUri, scopes }: { redirectUri: string; scopes: readonly string[] | undefined },
  { issuer, registrationEndpoint, tokenEndpointAuthMethods: methods, within }: Discovery,
  http: HttpClient,
): Promise<RegisteredClient> {
  const endpoint = registrationEndpoint ?? issuer;
  const wanted = ['none', 'client_secret_basic', 'client_secret_post'];
  const requestedMethod = wanted.find((method) => methods.includes(method)) ?? 'none';
  const { status, json } = await fetchJson(http, {
    url: new URL(endpoint),
    within,
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: Buffer.from(
      JSON.stringify({
        client_name: 'Latchkey',
        application_type: 'native',
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: requestedMethod,
        ...(scopes?.length && { scope: scopes.join(' ') }),
      }),
    ),
  });
  const { client_id: clientId, client_secret: clientSecret } = json ?? {};
  if ((status !== 200 && status !== 201) || typeof clientId !== 'string' || clientId === '') {
    const { code, message, details } = refusal(status, json, endpoint, []);
    const why = `${message} to the registration`;
    throw new OAuthError(code === 'refused' ? 'client' : code, why, details);
  }
  const agreed = json?.['token_endpoint_auth_method'];
  return {
    clientId,
    issuer,
    redirectUri,
    authMethod: typeof agreed === 'string' ? agreed : requestedMethod,
    ...(typeof clientSecret === 'string' && clientSecret !== '' && { clientSecret }),
  };
}

/** The registered clients in the secret store, one for each issuer. */
export interface RegisteredClients {
  of(issuer: string): Promise<RegisteredClient | undefined>;
  keep(client: RegisteredClient): Promise<void>;
}

export function registeredClients(store: SecretStore): RegisteredClients {
  const account = (issuer: string) => `oauth client ${issuer.slice(0, 380)}`;
  return {
    async of(issuer) {
      const client = parseClient(await store.get(account(issuer)));
      return client?.issuer === issuer ? client : undefined;
    },
    keep: (client) => store.set(account(client.issuer), JSON.stringify(client)),
  };
}

function parseClient(text: string | undefined): RegisteredClient | undefined {
  const { clientId, clientSecret, authMethod, issuer, redirectUri } = parseObject(text) ?? {};
  if (typeof clientId !== 'string' || typeof issuer !== 'string') return undefined;
  if (typeof redirectUri !== 'string') return undefined;
  return {
    clientId,
    issuer,
    redirectUri,
    ...(typeof clientSecret === 'string' && { clientSecret }),
    ...(typeof authMethod === 'string' && { authMethod }),
  };
}
