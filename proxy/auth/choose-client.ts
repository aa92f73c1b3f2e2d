import type { PersonCredentials } from '#config/connection';
import type { HttpClient } from '#transport/http-client';
import type { RedirectListener, RedirectListenerOptions } from './redirect-listener.ts';
import { clientMetadataDocument } from './client-metadata-document.ts';
import type { Discovery } from './discover.ts';
import { OAuthError } from './oauth-error.ts';
import { registerClient } from './register-client.ts';
import {
  configuredClient,
  type ConfiguredClient,
  type ConfiguredClientPorts,
} from './configured-client.ts';
import type { RegisteredClients } from './registered-clients.ts';

export type ChooseClientPorts = ConfiguredClientPorts & {
  http: HttpClient;
  clients: RegisteredClients;
  listen: (options: RedirectListenerOptions) => Promise<RedirectListener>;
};

/** Who asks, and where the answer is to come. The listener is open. */
export type ChosenClient = { client: ConfiguredClient; listener: RedirectListener };

/**
 * Under which id to ask a person's consent: the configured one, else the URL of a document about us,
 * else one that the authorization server makes for us.
 *
 * MCP 2026-07-28 authorization, client registration
 *
 * @throws {OAuthError} `client` when there is none to be had, with what to do
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
  const where = { port, ...(host !== undefined && { host }), ...(path !== undefined && { path }) };
  const { http, clients, listen } = ports;
  const configured = await configuredClient(url, credentials, ports);
  if (configured) return { client: configured, listener: await listen(where) };
  if (clientMetadataUrl !== undefined && takesMetadataUrls)
    return { client: { clientId: clientMetadataUrl }, listener: await listen(where) };
  const document = await clientMetadataDocument(discovery, http);
  if (document) {
    const { clientId, redirectHost, redirectPath } = document;
    const said = { port, host: redirectHost, path: redirectPath };
    return { client: { clientId }, listener: await listen(said) };
  }
  if (registrationEndpoint === undefined)
    throw new OAuthError(
      'client',
      `${issuer} does not register applications by itself; which client id has it given you?`,
      { endpoint: issuer },
    );
  const registered = await clients.of(issuer);
  const listener = await sameListener(registered?.redirectUri, where, listen);
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

/** Servers may compare the port too, so the registered one is tried before any other. */
async function sameListener(
  redirectUri: string | undefined,
  where: RedirectListenerOptions,
  listen: ChooseClientPorts['listen'],
): Promise<RedirectListener> {
  const before = Number(redirectUri && URL.parse(redirectUri)?.port);
  if (where.port === undefined && before > 0) {
    const again = await listen({ ...where, port: before, attempts: 1 }).catch(() => undefined);
    if (again) return again;
  }
  return listen(where);
}
