import { z } from 'zod';

import type { Clock } from '#clock/clock';
import type { OAuthClient } from '#credentials/oauth-client';
import { checkRedirectUri, isPrivateScheme } from '#credentials/redirect-uri';
import type { ClientDocumentStore, DocumentedClient } from './client-document-store.ts';
import { ownClientDocument } from './own-client-document.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { isWebAddress } from './web-address.ts';

const documentLifeSeconds = 3600;

export interface ClientDocumentPorts {
  readonly base: string;
  readonly documents: ClientDocumentStore;
  /** The body of a JSON document elsewhere. @throws when it cannot or may not be had */
  readonly fetchDocument: (url: string) => Promise<string>;
  readonly clock: Clock;
}

/**
 * The client whose id is the https URL of its own metadata. What the document said holds for an hour.
 * Nothing below our own URL is ever fetched; of it only our own document is a client.
 *
 * draft-ietf-oauth-client-id-metadata-document §3, §4
 *
 * @throws {OAuthRefusal} `invalid_client`, `invalid_client_metadata`
 */
export async function clientFromDocument(
  url: string,
  { mayFetch }: { mayFetch: boolean },
  { base, documents, fetchDocument, clock }: ClientDocumentPorts,
): Promise<OAuthClient | 'sign-in' | undefined> {
  const isOwn = url === ownClientDocument(base).client_id;
  if (!isOwn && !isClientUrl(url, base)) return undefined;
  const known = await documents.byUrl(url);
  if (known && known.fetchedAt > clock.now() - documentLifeSeconds) return known.client;
  if (!isOwn && !mayFetch) return 'sign-in';
  const text = isOwn ? JSON.stringify(ownClientDocument(base)) : await fetched(url, fetchDocument);
  await documents.put(readClientDocument(url, text), clock.now());
  return (await documents.byUrl(url))?.client;
}

/** https, a path of its own, and one spelling only, as it is compared character for character. */
function isClientUrl(text: string, base: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, pathname, username, password, href, origin } = new URL(text);
  const plain = username === '' && password === '' && !text.includes('#') && href === text;
  return protocol === 'https:' && plain && pathname !== '/' && origin !== new URL(base).origin;
}

async function fetched(url: string, fetchDocument: (url: string) => Promise<string>) {
  try {
    return await fetchDocument(url);
  } catch (cause) {
    throw new OAuthRefusal('invalid_client', 'the metadata of this client cannot be read', {
      cause,
    });
  }
}

const documentSchema = z.looseObject({
  client_id: z.string(),
  client_name: z.string().optional(),
  redirect_uris: z.array(z.string()).min(1).max(50),
  token_endpoint_auth_method: z.enum(['none', 'private_key_jwt']).default('none'),
  jwks: z.looseObject({ keys: z.array(z.looseObject({ kty: z.string() })).min(1) }).optional(),
  client_secret: z.undefined().optional(),
  client_secret_expires_at: z.undefined().optional(),
  client_uri: z.string().refine(isWebAddress).optional(),
  logo_uri: z.string().refine(isWebAddress).optional(),
  tos_uri: z.string().refine(isWebAddress).optional(),
  policy_uri: z.string().refine(isWebAddress).optional(),
});

/** @throws {OAuthRefusal} `invalid_client_metadata` */
export function readClientDocument(url: string, text: string): DocumentedClient {
  const refused = (why: string, cause?: unknown) =>
    new OAuthRefusal('invalid_client_metadata', `the metadata of this client ${why}`, { cause });
  const { success, data, error } = documentSchema.safeParse(parseJson(text));
  if (!success) throw refused('is not what it must be', error);
  if (data.client_id !== url) throw refused('names another client_id');
  const isKeyed = data.token_endpoint_auth_method === 'private_key_jwt';
  if (isKeyed && !data.jwks) throw refused('has no keys for private_key_jwt');
  for (const uri of data.redirect_uris) {
    const problem = checkRedirectUri(uri);
    if (problem !== undefined) throw refused(`names a redirect URI that ${problem}`);
  }
  // A private scheme is anybody's: only an administrator can say that it is this program's.
  const redirectUris = data.redirect_uris.filter((uri) => !isPrivateScheme(uri));
  if (redirectUris.length === 0) throw refused('has no redirect URI that can be used here');
  const name = data.client_name ?? new URL(url).host;
  return { id: url, name, redirectUris, jwks: isKeyed ? JSON.stringify(data.jwks) : undefined };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
