import { ConfigurationError } from '#config/configuration-error';
import { webUrl } from '#transport/web-url';
import { clientMetadataDocument } from './client-metadata-document.ts';
import { discover } from './discover.ts';
import { OAuthError } from './oauth-error.ts';
import { wantedScopes } from './wanted-scopes.ts';
import type { Options } from '#config/options';
import type { Probed } from './accounts-door.ts';
import type { AccountsHost } from './accounts-host.ts';

/**
 * Finds out what a server wants of whoever comes, without sending anything secret.
 *
 * @throws {ConfigurationError} when it is no URL of a server, and what a server that is away brings
 */
export async function probeServer(
  url: string,
  suggestedName: string,
  options: Options,
  host: AccountsHost,
  signal?: AbortSignal,
): Promise<Probed> {
  if (!webUrl(url)) {
    const problem = 'must be https, or http on this machine, without user or password';
    throw new ConfigurationError([{ source: 'the address', key: 'URL', problem }]);
  }
  const found = { url, serverName: serverName(url), suggestedName };
  const credentials = { kind: 'authorization_code' as const };
  const nobody = { name: url, url, source: 'the address', credentials };
  const closed = { ...found, needs: 'api_key', takes: ['api_key'], needsClientId: false } as const;
  const checked = await host.check(nobody, options, signal).catch((error: unknown) => {
    if (error instanceof OAuthError && error.code === 'metadata') return undefined;
    throw error;
  });
  if (checked?.as === 'nobody')
    return { ...found, needs: 'nothing', takes: [], needsClientId: false };
  if (!checked) return closed;
  const discovery = await discover({ url, publishedBefore: false }, host.http);
  const { issuer, published, registrationEndpoint, takesMetadataUrls } = discovery;
  const scopes = wantedScopes(undefined, discovery);
  const told = { ...found, issuer, ...(scopes && { scopes }) };
  const document = takesMetadataUrls && (await clientMetadataDocument(discovery, host.http));
  const needsClientId = !document && registrationEndpoint === undefined;
  const takes = ['person', 'client', 'api_key'] as const;
  // Where nothing was published the addresses are guessed, and a key is likelier.
  const needs = published || !needsClientId ? 'person' : 'api_key';
  return { ...told, needs, takes, needsClientId };
}

/** `acme / sales at cloud.example.com`: what people can tell servers apart by. */
function serverName(url: string): string {
  const { host, pathname } = new URL(url);
  const words = pathname.split('/').filter((word) => word !== '' && word !== 'mcp');
  return words.length === 0 ? host : `${words.map(decoded).join(' / ')} at ${host}`;
}

function decoded(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}
