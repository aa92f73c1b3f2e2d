import { z } from 'zod';

import type { Clock, EpochSeconds } from '#clock/clock';
import type { OAuthClient } from '#credentials/oauth-client';
import { checkRedirectUri, isPrivateScheme } from '#credentials/redirect-uri';
import type { ClientDocumentStore, DocumentedClient } from './client-document-store.ts';
import { ownClientDocument } from './own-client-document.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { isWebAddress } from './web-address.ts';

const documentLifeSeconds = 3600;
/** Short, as the person who waits may be the one who has just put the document right. */
const failureLifeSeconds = 60;
const maxFailures = 1000;
const windowSeconds = 60;
/** How many documents one person can have fetched within the window. */
const maxFetches = 5;
const maxPeople = 10_000;
const maxUrlLength = 2000;

export interface ClientDocumentPorts {
  readonly base: string;
  readonly documents: ClientDocumentStore;
  /** The body of a JSON document elsewhere. @throws when it cannot or may not be had */
  readonly fetchDocument: (url: string) => Promise<string>;
  readonly clock: Clock;
}

interface Failure {
  readonly refusal: OAuthRefusal;
  readonly until: EpochSeconds;
}

/**
 * Clients whose id is the https URL of their own metadata. What a document said holds for an hour; that it could not be
 * read, for a minute. Several people who ask for a document at once share one request, and each person causes a few
 * a minute: anybody can make somebody's browser open the consent page for any URL. Failures and counts are kept in
 * memory.
 *
 * Nothing below our own URL is ever fetched; of it only our own document is a client.
 *
 * draft-ietf-oauth-client-id-metadata-document §3, §4
 */
export class ClientDocuments {
  readonly #ports: ClientDocumentPorts;
  readonly #reading = new Map<string, Promise<void>>();
  readonly #failures = new Map<string, Failure>();
  /** When each person had documents fetched. */
  readonly #fetches = new Map<string, EpochSeconds[]>();

  constructor(ports: ClientDocumentPorts) {
    this.#ports = ports;
  }

  /**
   * The client that the document at `url` describes; `sign-in` where the document has to be fetched and nobody has
   * signed in, `undefined` where the URL is not one of a client.
   *
   * @param userId who asks, once they have signed in
   * @throws {OAuthRefusal} `invalid_client`, `invalid_client_metadata`, `slow_down`
   */
  async client(
    url: string,
    userId: string | undefined,
  ): Promise<OAuthClient | 'sign-in' | undefined> {
    const { base, documents, clock } = this.#ports;
    const own = ownClientDocument(base);
    const isOwn = url === own.client_id;
    if (!isOwn && !isClientUrl(url, base)) return undefined;
    const known = await documents.byUrl(url);
    if (known && known.fetchedAt > clock.now() - documentLifeSeconds) return known.client;
    if (isOwn) await documents.put(readClientDocument(url, JSON.stringify(own)), clock.now());
    else if (userId === undefined) return 'sign-in';
    else await this.#read(url, userId);
    return (await documents.byUrl(url))?.client;
  }

  #read(url: string, userId: string): Promise<void> {
    const reading = this.#reading.get(url);
    if (reading) return reading;
    this.#checkFailure(url);
    this.#countFetch(userId);
    const read = this.#fetch(url).finally(() => this.#reading.delete(url));
    this.#reading.set(url, read);
    return read;
  }

  async #fetch(url: string): Promise<void> {
    const { fetchDocument, documents, clock } = this.#ports;
    try {
      await documents.put(readClientDocument(url, await fetched(url, fetchDocument)), clock.now());
    } catch (refusal) {
      if (!(refusal instanceof OAuthRefusal)) throw refusal;
      const until = clock.now() + failureLifeSeconds;
      keepNewest(this.#failures, url, { refusal, until }, maxFailures);
      throw laterAgain(refusal, failureLifeSeconds);
    }
  }

  #checkFailure(url: string): void {
    const failure = this.#failures.get(url);
    const now = this.#ports.clock.now();
    if (failure && failure.until > now) throw laterAgain(failure.refusal, failure.until - now);
    this.#failures.delete(url);
  }

  #countFetch(userId: string): void {
    const now = this.#ports.clock.now();
    const all = this.#fetches.get(userId) ?? [];
    const recent = all.filter((at) => at > now - windowSeconds);
    const [oldest = now] = recent;
    if (recent.length >= maxFetches) {
      const retryAfterSeconds = Math.max(1, oldest + windowSeconds - now);
      const words = `you opened too many applications that are not known here yet; try again in ${seconds(retryAfterSeconds)}`;
      throw new OAuthRefusal('slow_down', words, { retryAfterSeconds });
    }
    keepNewest(this.#fetches, userId, [...recent, now], maxPeople);
  }
}

/** The same refusal, with when the document is read again. */
function laterAgain({ code, message, cause }: OAuthRefusal, retryAfterSeconds: number) {
  const words = `${message}; it is read again in ${seconds(retryAfterSeconds)}`;
  return new OAuthRefusal(code, words, { cause, retryAfterSeconds });
}

function seconds(count: number): string {
  return count === 1 ? '1 second' : `${count} seconds`;
}

/** Forgets the entry that was set longest ago when there are too many. */
function keepNewest<Value>(
  entries: Map<string, Value>,
  key: string,
  value: Value,
  most: number,
): void {
  entries.delete(key);
  if (entries.size >= most) entries.delete(entries.keys().next().value ?? '');
  entries.set(key, value);
}

/** https, a path of its own, and one spelling only, as it is compared character for character. */
function isClientUrl(text: string, base: string): boolean {
  if (text.length > maxUrlLength || !URL.canParse(text)) return false;
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
