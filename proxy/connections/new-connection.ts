import { ConfigurationError, UsageError, type Problem } from '#config/errors';
import type { Connection } from '#config/connection';
import { pastedEntry } from '#config/pasted-entry';
import { readCredentials } from '#config/read-credentials';
import { isInKeychain } from '#config/secret';
import { registryFile } from '#config/user-files';
import { UpstreamError } from '#transport/upstream';
import { meantWebUrl, percentDecoded, webUrl, webUrlProblem } from '#transport/web-url';
import type { Host, UserHost } from '#host';
import type { BoundHost } from './connections-host.ts';
import type { AddInput, Pasted, Probed } from './accounts-service.ts';
import { wantedScopes } from '#auth/authorization-request';
import { clientMetadataDocument } from '#auth/client-registration';
import { discover } from '#auth/discovery';
import { OAuthError } from '#auth/errors';
import type { ConnectionSecrets } from './stored-secrets.ts';

/**
 * Finds out what authentication a server requires, without sending a secret.
 *
 * @throws {UsageError} if the URL is invalid; otherwise the error of a server that cannot be reached
 */
export async function probeServer(
  url: string,
  freeName: string,
  host: BoundHost,
  signal?: AbortSignal,
): Promise<Probed> {
  if (!webUrl(url)) {
    throw refusedUrl(url);
  }
  const found = { url, serverName: serverName(url), suggestedName: freeName };
  const credentials = { kind: 'authorization_code' as const };
  const anonymous = { name: url, url, source: 'the address', credentials };
  const closed = { ...found, needs: 'api_key', takes: ['api_key'], needsClientId: false } as const;
  const checked = await host.check(anonymous, signal).catch(async (error: unknown) => {
    if (error instanceof OAuthError && error.code === 'metadata') return undefined;
    throw (await noEndpoint(error, url, host)) ?? error;
  });
  if (checked?.as === null) return { ...found, needs: 'nothing', takes: [], needsClientId: false };
  if (!checked) return closed;
  const discovery = await discover({ url, publishedBefore: false }, host.http);
  const { issuer, published, registrationEndpoint, takesMetadataUrls } = discovery;
  const scopes = wantedScopes(undefined, discovery);
  const requirements = { ...found, issuer, ...(scopes && { scopes }) };
  const document = takesMetadataUrls && (await clientMetadataDocument(discovery, host.http));
  const needsClientId = !document && registrationEndpoint === undefined;
  const takes = ['person', 'client', 'api_key'] as const;
  // Without published metadata, the endpoints are guesses, and an API key is more likely.
  const needs = published || !needsClientId ? 'person' : 'api_key';
  return { ...requirements, needs, takes, needsClientId };
}

/** The statuses with which a URL responds to a message if it is a page, or nothing at all. */
const pageStatuses = new Set([404, 405]);

/** The message for a URL that is a page of a server, such as its dashboard; `undefined` for any other error. */
async function noEndpoint(
  error: unknown,
  url: string,
  { http }: Pick<Host, 'http'>,
): Promise<UpstreamError | undefined> {
  if (!(error instanceof UpstreamError)) return undefined;
  const { code, status = 0 } = error;
  // The server responded with its own URL.
  if (error.remedy !== undefined) return undefined;
  if (code !== 'not_json_rpc' && code !== 'redirected' && !pageStatuses.has(status))
    return undefined;
  const { origin } = new URL(url);
  const within = (await http.networkOf(new URL(url))) ?? 'public';
  const isOurs = await clientMetadataDocument({ issuer: origin, within }, http);
  return new UpstreamError(code, `${url} is not an MCP endpoint: ${error.message}`, {
    ...error.details,
    remedy: isOurs
      ? `use the URL of a server, ${origin}/mcp/ORGANIZATION/SERVER; your servers: ${origin}/dashboard; to choose from them, run latchkey setup ${origin}`
      : 'check the URL, or ask the administrator of the server for it',
    cause: error,
  });
}

/** `acme / sales at cloud.example.com`: a name by which people can distinguish servers. */
function serverName(url: string): string {
  const { host, pathname } = new URL(url);
  const words = pathname.split('/').filter((word) => word !== '' && word !== 'mcp');
  return words.length === 0 ? host : `${words.map(percentDecoded).join(' / ')} at ${host}`;
}

export function suggestedName(url: string, taken: readonly string[]): string {
  const address = URL.parse(url);
  const [host = 'server'] = (address?.hostname ?? '').split('.');
  const last = (address?.pathname ?? '')
    .split('/')
    .findLast((word) => !['', 'mcp', 'sse'].includes(word));
  const plain = (last ?? host).replaceAll(/[^A-Za-z0-9_-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '');
  const base = plain.slice(0, 50) || 'server';
  for (let count = 1; ; count += 1) {
    const name = count === 1 ? base : `${base}-${count}`;
    if (!taken.includes(name)) return name;
  }
}

export type Described = { connection: Connection; secrets: ConnectionSecrets };

/** The error for a `url` to which no credential may be sent. Its hint is the URL that was probably meant. */
export function refusedUrl(url: string): UsageError {
  const meant = meantWebUrl(url);
  return new UsageError(
    webUrlProblem(url),
    meant === undefined ? 'for example https://latchkey.example.com' : `did you mean ${meant}?`,
  );
}

/**
 * The connection that a person described, and its secrets.
 *
 * @throws {ConfigurationError} with all problems, never with a value
 */
export function describedConnection(input: AddInput, host: UserHost): Described {
  const { name, url } = input;
  const problems: Problem[] = [];
  const source = registryFile(host);
  if (!webUrl(url)) {
    problems.push({ source: '', key: '', problem: webUrlProblem(url) });
  }
  const credentials = readCredentials(
    { ...credentialTexts(input), at: { source, key: name } },
    problems,
  );
  if (problems.length > 0) throw new ConfigurationError(problems);
  const connection = { name, url, source, account: name, credentials };
  if (credentials.kind === 'api_key') {
    const { apiKeySecret } = credentials;
    return { connection, secrets: isInKeychain(apiKeySecret) ? {} : { apiKeySecret } };
  }
  const { clientSecret } = credentials;
  const isWritten = clientSecret !== undefined && !isInKeychain(clientSecret);
  return { connection, secrets: isWritten ? { clientSecret } : {} };
}

function credentialTexts(input: AddInput): { oauth?: unknown; apiKey?: unknown } {
  switch (input.as) {
    case 'person': {
      const { as: _, name: _name, url: _url, replace: _replace, ...given } = input;
      if (Object.keys(given).length === 0) return {};
      return { oauth: { ...given, grant: 'authorization_code' } };
    }
    case 'client': {
      const { clientId, clientSecret, scopes } = input;
      return { oauth: { clientId, clientSecret, scopes } };
    }
    case 'api_key':
      return { apiKey: input.apiKeySecret };
    case 'pasted': {
      const { oauth, apiKey } = pastedEntry(input.oauthText);
      return apiKey === undefined ? { ...(oauth !== undefined && { oauth }) } : { apiKey };
    }
  }
}

/**
 * Reads a pasted text. Returns no secret.
 *
 * @throws {UsageError} {@link ConfigurationError}
 */
export function readPasted(text: string): Pasted {
  const { name, url, oauth, apiKey } = pastedEntry(text);
  const problems: Problem[] = [];
  const at = { source: 'the pasted text', key: '' };
  const credentials = readCredentials(
    apiKey === undefined ? { at, ...(oauth !== undefined && { oauth }) } : { at, apiKey },
    problems,
  );
  if (problems.length > 0) throw new ConfigurationError(problems);
  const found = { ...(name !== undefined && { name }), ...(url !== undefined && { url }) };
  if (credentials.kind === 'api_key') return { ...found, as: 'api_key' };
  const { kind, clientId, scopes } = credentials;
  return {
    ...found,
    as: kind === 'client_credentials' ? 'client' : 'person',
    ...(clientId !== undefined && { clientId }),
    ...(scopes && { scopes }),
  };
}
