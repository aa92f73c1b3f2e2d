import type { HttpClient } from '#transport/http-client';
import { webUrl } from '#transport/web-url';
import type { Discovery } from './discover.ts';
import { fetchJson } from './fetch-json.ts';

/** A client id that is a URL, and the path of our listener that its document allows. */
export type ClientMetadataDocument = {
  clientId: string;
  redirectHost: string;
  redirectPath: string;
};

/**
 * The document about this program that an authorization server itself keeps, at
 * `{issuer}/oauth/clients/latchkey.json`; `undefined` when there is none that names itself and a
 * redirect to this machine.
 *
 * OAuth Client ID Metadata Document §4
 */
export async function clientMetadataDocument(
  { issuer, takesMetadataUrls, within }: Discovery,
  http: HttpClient,
): Promise<ClientMetadataDocument | undefined> {
  if (!takesMetadataUrls) return undefined;
  const url = webUrl(`${issuer.replace(/\/$/, '')}/oauth/clients/latchkey.json`);
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
