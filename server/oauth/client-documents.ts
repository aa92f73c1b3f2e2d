import { z } from 'zod';

import type { Clock, EpochSeconds } from '#model/clock';
import {
  findClient,
  findDocumentedClient,
  putDocumentedClient,
  type OAuthClient,
  type DocumentedClient,
} from '#db/clients';
import type { Db } from '#db/transaction';
import { parseObject } from 'latchkey-mcp/json-value';
import { LimitedMap } from '#model/limited-map';
import { SlidingWindow } from '#model/sliding-window';
import { OutboundError } from '#outbound/checked-addresses';
import { OAuthError } from './oauth-error.ts';
import { checkRedirectUri, isPrivateScheme, isWebAddress } from './redirect-uris.ts';

/**
 * Finds the client that an authorization request names, unless it was revoked. Returns `sign-in` when that requires
 * fetching a document, which is done only for people who have signed in; `userId` is that person.
 *
 * @throws {OAuthError} `invalid_client` when there is none, or it was revoked; `invalid_client_metadata`, `slow_down`
 */
export type ResolveClient = (
  clientId: string,
  person: { userId: string | undefined },
) => Promise<OAuthClient | 'sign-in'>;

/** Resolves clients in the database and clients that a document on the web describes. */
export function clientResolver(ports: ClientDocumentPorts): ResolveClient {
  const documents = new ClientDocuments(ports);
  return async (clientId, { userId }) => {
    const isDocument = /^https?:/.test(clientId);
    const found = isDocument
      ? await documents.client(clientId, userId)
      : await findClient(ports.db, clientId);
    if (found === 'sign-in') return found;
    if (found && found.revokedAt === undefined) return found;
    throw new OAuthError('invalid_client', 'unknown client_id');
  };
}

const documentLifeSeconds = 3600;
/** How long a failure is cached: briefly, because the person who waits may have just corrected the document. */
const failureLifeSeconds = 60;
const maxFailures = 1000;
/** How many documents one person can cause to be fetched within the window. */
const maxFetches = 5;
const fetchWindow = { seconds: 60, maxNames: 10_000 };
const maxUrlLength = 2000;

export interface ClientDocumentPorts {
  readonly base: string;
  readonly db: Db;
  /** Returns the body of a JSON document on another host. @throws if it cannot or must not be fetched */
  readonly fetchDocument: (url: string) => Promise<string>;
  /** Clients whose documents the operator provided. They are never fetched. */
  readonly provided?: readonly DocumentedClient[] | undefined;
  readonly clock: Clock;
}

interface Failure {
  readonly refusal: OAuthError;
  readonly until: EpochSeconds;
}

/**
 * Clients whose id is the https URL of their own metadata document. Documents are cached for an hour, failures for a
 * minute. Concurrent requests for a document share one fetch. The number of fetches per person is limited, because
 * any site can make a browser open the consent page for any URL. Failures and counts are kept in memory.
 *
 * Nothing below this server's own URL is ever fetched. Of those URLs, only the proxy's document is a client.
 *
 * draft-ietf-oauth-client-id-metadata-document §3, §4
 */
export class ClientDocuments {
  readonly #ports: ClientDocumentPorts;
  /** The clients that are known without a fetch: our own proxy, and those whose documents the operator provided. */
  readonly #provided: ReadonlyMap<string, DocumentedClient>;
  readonly #reading = new Map<string, Promise<void>>();
  readonly #failures = new LimitedMap<string, Failure>(maxFailures);
  /** The recent fetches of each person. */
  readonly #fetches: SlidingWindow;

  constructor(ports: ClientDocumentPorts) {
    this.#ports = ports;
    this.#fetches = new SlidingWindow(ports.clock, fetchWindow);
    const own = ownClientDocument(ports.base);
    const proxy = readClientDocument(own.client_id, JSON.stringify(own));
    const provided = [...(ports.provided ?? []), { ...proxy, isLatchkeyProxy: true }];
    this.#provided = new Map(provided.map((client) => [client.id, client]));
  }

  /**
   * Returns the client that the document at `url` describes; `sign-in` if the document has to be fetched and the
   * person has not signed in; `undefined` if the URL cannot be that of a client.
   *
   * @param userId the person, once they have signed in
   * @throws {OAuthError} `invalid_client`, `invalid_client_metadata`, `slow_down`
   */
  async client(
    url: string,
    userId: string | undefined,
  ): Promise<OAuthClient | 'sign-in' | undefined> {
    const { base, db, clock } = this.#ports;
    const provided = this.#provided.get(url);
    if (!provided && !isClientUrl(url, base)) return undefined;
    const known = await findDocumentedClient(db, url);
    const isFresh = known && known.fetchedAt > clock.now() - documentLifeSeconds;
    if (isFresh && (!provided || describes(provided, known.client))) return known.client;
    if (provided) await putDocumentedClient(db, provided, clock.now());
    else if (userId === undefined) return 'sign-in';
    else await this.#read(url, userId);
    return (await findDocumentedClient(db, url))?.client;
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
    const { fetchDocument, db, clock } = this.#ports;
    try {
      await putDocumentedClient(
        db,
        readClientDocument(url, await fetched(url, fetchDocument)),
        clock.now(),
      );
    } catch (refusal) {
      if (!(refusal instanceof OAuthError)) throw refusal;
      const until = clock.now() + failureLifeSeconds;
      this.#failures.set(url, { refusal, until });
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
    const retryAfterSeconds = this.#fetches.secondsUntilFree(userId, maxFetches);
    if (retryAfterSeconds > 0) {
      const words = `you opened too many new applications; try again in ${seconds(retryAfterSeconds)}`;
      throw new OAuthError('slow_down', words, { retryAfterSeconds });
    }
    this.#fetches.count(userId, maxFetches);
  }
}

/** Whether a stored client is as a document describes it. */
function describes(document: DocumentedClient, client: OAuthClient): boolean {
  const { name, redirectUris, jwks, isLatchkeyProxy = false } = document;
  const uris = JSON.stringify(redirectUris) === JSON.stringify(client.redirectUris);
  const isSame = name === client.name && jwks === client.jwks;
  return uris && isSame && isLatchkeyProxy === client.isLatchkeyProxy;
}

/** A cached refusal, with the time until the document is fetched again. */
function laterAgain(refusal: OAuthError, retryAfterSeconds: number) {
  const { code, message, cause, unreachableHost } = refusal;
  const words = `${message}; Latchkey reads it again in ${seconds(retryAfterSeconds)}`;
  return new OAuthError(code, words, { cause, retryAfterSeconds, unreachableHost });
}

function seconds(count: number): string {
  return count === 1 ? '1 second' : `${count} seconds`;
}

/**
 * Reads a document that the operator provided as a file. It names its own URL.
 *
 * @throws {OAuthError} `invalid_client_metadata`
 */
export function readProvidedDocument(text: string): DocumentedClient {
  const { data } = z.looseObject({ client_id: z.string() }).safeParse(parseObject(text));
  const url = data?.client_id ?? '';
  if (isDocumentUrl(url)) return readClientDocument(url, text);
  const why = 'client_id is not the https URL of a client metadata document';
  throw new OAuthError('invalid_client_metadata', why);
}

/** https, with a path, and in canonical form, because ids are compared character for character. */
function isDocumentUrl(text: string): boolean {
  if (text.length > maxUrlLength || !URL.canParse(text)) return false;
  const { protocol, pathname, username, password, href } = new URL(text);
  const plain = username === '' && password === '' && !text.includes('#') && href === text;
  return protocol === 'https:' && plain && pathname !== '/';
}

/** Nothing below this server's own URL is fetched. */
function isClientUrl(text: string, base: string): boolean {
  return isDocumentUrl(text) && new URL(text).origin !== new URL(base).origin;
}

async function fetched(url: string, fetchDocument: (url: string) => Promise<string>) {
  try {
    return await fetchDocument(url);
  } catch (cause) {
    const { host } = new URL(url);
    const isOut = cause instanceof OutboundError && unreached.has(cause.code);
    const words = isOut
      ? `this server cannot reach ${host}, which has the metadata of this client`
      : 'the metadata of this client could not be read';
    const unreachableHost = isOut ? host : undefined;
    throw new OAuthError('invalid_client', words, { cause, unreachableHost });
  }
}

/** All these errors get the same answer, so that it does not reveal which names exist in the private network. */
const unreached: ReadonlySet<OutboundError['code']> = new Set([
  'forbidden',
  'not_public',
  'unreachable',
  'timeout',
]);

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

/** @throws {OAuthError} `invalid_client_metadata` */
export function readClientDocument(url: string, text: string): DocumentedClient {
  const refused = (why: string, cause?: unknown) =>
    new OAuthError('invalid_client_metadata', `the metadata of this client ${why}`, { cause });
  const { success, data, error } = documentSchema.safeParse(parseObject(text));
  if (!success) throw refused('is invalid', error);
  if (data.client_id !== url) throw refused('contains another client_id');
  const isKeyed = data.token_endpoint_auth_method === 'private_key_jwt';
  if (isKeyed && !data.jwks) throw refused('has no keys for private_key_jwt');
  for (const uri of data.redirect_uris) {
    const problem = checkRedirectUri(uri);
    if (problem !== undefined) throw refused(`contains a redirect URI that ${problem}`);
  }
  // Any program can claim a private scheme, so only an administrator may register one.
  const redirectUris = data.redirect_uris.filter((uri) => !isPrivateScheme(uri));
  if (redirectUris.length === 0) throw refused('contains no redirect URI that is allowed here');
  const name = data.client_name ?? new URL(url).host;
  return { id: url, name, redirectUris, jwks: isKeyed ? JSON.stringify(data.jwks) : undefined };
}

/**
 * `/oauth/clients/latchkey.json`: describes the proxy as a client of any server that reads such documents. The proxy
 * listens on any free loopback port.
 *
 * draft-ietf-oauth-client-id-metadata-document §4
 */
export function ownClientDocument(base: string) {
  return {
    client_id: `${base}/oauth/clients/latchkey.json`,
    client_name: 'Latchkey',
    redirect_uris: [
      'http://127.0.0.1/callback',
      'http://[::1]/callback',
      'http://localhost/callback',
    ],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
}
