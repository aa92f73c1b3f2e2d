import type { IncomingMessage } from 'node:http';
import { HttpError } from './http-error.ts';
import { type HttpClient, type HttpRequest } from './http-client.ts';
import { UpstreamError } from './upstream.ts';

type Headers = Record<string, string>;

/** How requests authenticate. */
export interface Credential {
  headers(): Promise<Headers>;

  /**
   * New headers after the server answered `refused` with 401; `undefined` if there are none.
   */
  renewed(refused: Headers, challenge: string | undefined): Promise<Headers | undefined>;

  /** New headers after a 403 for lack of a scope that `challenge` names. RFC 6750 §3.1 */
  widened(narrow: Headers, challenge: string): Promise<Headers | undefined>;
}

/** Fixed headers, for example a key in `X-API-Key`, or none. They cannot be renewed. */
export function staticCredential(headers: Headers): Credential {
  return {
    headers: () => Promise.resolve(headers),
    renewed: () => Promise.resolve(undefined),
    widened: () => Promise.resolve(undefined),
  };
}

/**
 * A key from a store. If it is refused, it is read again, because it may have been replaced.
 */
export function rereadCredential(first: Headers, reread: () => Promise<Headers>): Credential {
  let current = first;
  return {
    headers: () => Promise.resolve(current),
    async renewed(refused) {
      current = await reread();
      return Object.entries(current).every(([name, value]) => refused[name] === value)
        ? undefined
        : current;
    },
    widened: () => Promise.resolve(undefined),
  };
}

/**
 * A token that the server refused with 401, and the `WWW-Authenticate` header of that answer. There is no token if the request
 * had none.
 */
export type RejectedToken = { accessToken?: string; challenge?: string };

/** A token that the server refused with 403 because it lacks a scope, and the header that names the scope. */
export type NarrowToken = { accessToken: string; challenge: string };

/** Access tokens for one connection, shared by all callers. */
export interface TokenSource {
  /**
   * A token that stays valid for a while. `rejected` is never handed out again; a successor is
   * fetched, once for all concurrent callers.
   *
   * @throws {TokenError} or the error of the grant or the secret store
   */
  accessToken(rejected?: RejectedToken): Promise<string>;

  /**
   * A token with the scopes that `narrow` lacks; `undefined` when an earlier request for them failed. `narrow` itself stays valid for
   * everything else.
   *
   * @throws the errors of `accessToken`
   */
  widened(narrow: NarrowToken): Promise<string | undefined>;
}

const bearer = 'Bearer ';

/**
 * RFC 6750 §2.1. If no token is `expected`, because no person has signed in, the first request goes without one: the server
 * may not require any, and the keychain is not used.
 */
export function bearerCredential(
  tokens: TokenSource,
  expected: () => boolean = () => true,
): Credential {
  const header = (accessToken: string) => ({ authorization: `${bearer}${accessToken}` });
  let challenged = false;
  return {
    headers: async () => (challenged || expected() ? header(await tokens.accessToken()) : {}),
    async renewed({ authorization }, challenge) {
      const renewed = await tokens.accessToken({
        ...(authorization !== undefined && { accessToken: authorization.slice(bearer.length) }),
        ...(challenge !== undefined && { challenge }),
      });
      challenged = true;
      return header(renewed);
    },
    async widened({ authorization }, challenge) {
      if (authorization === undefined) return undefined;
      const accessToken = await tokens.widened({
        accessToken: authorization.slice(bearer.length),
        challenge,
      });
      return accessToken === undefined ? undefined : header(accessToken);
    },
  };
}

/** Adds `headers` to every request. Those of the credential take precedence. */
export function withHeaders(credential: Credential, headers: Headers): Credential {
  const also = async (proof: Promise<Headers | undefined>) => {
    const own = await proof;
    return own && { ...headers, ...own };
  };
  return {
    headers: async () => ({ ...headers, ...(await credential.headers()) }),
    renewed: (refused, challenge) => also(credential.renewed(refused, challenge)),
    widened: (narrow, challenge) => also(credential.widened(narrow, challenge)),
  };
}

/**
 * Sends a request with a credential. After a 401, or a 403 that names a missing scope, it renews the credential and repeats
 * the request once.
 *
 * @throws {UpstreamError} `unauthorized`, `suspended`, `unreachable`, `aborted`
 */
export async function authorizedRequest(
  request: HttpRequest,
  { credential, http }: { credential: Credential; http: HttpClient },
): Promise<IncomingMessage> {
  const send = (headers: Record<string, string>) =>
    http.request({ ...request, headers: { ...request.headers, ...headers } }).catch(unreached);
  let proof = await credential.headers();
  let response = await send(proof);
  if (response.statusCode === 401) {
    response.resume();
    refuseSuspended(response);
    const renewed = await credential.renewed(proof, response.headers['www-authenticate']);
    if (!renewed) throw unauthorized(request.url, proof);
    proof = renewed;
    response = await send(proof);
  }
  const challenge = response.headers['www-authenticate'] ?? '';
  if (response.statusCode === 403 && /\binsufficient_scope\b/.test(challenge)) {
    const widened = await credential.widened(proof, challenge);
    if (!widened) return response;
    response.resume();
    response = await send(widened);
  }
  if (response.statusCode !== 401) return response;
  response.resume();
  refuseSuspended(response);
  throw unauthorized(request.url, proof);
}

/**
 * Throws if a Latchkey server verified the credential, but a setting suspends it. The credential will be valid again, so it
 * is neither renewed nor forgotten.
 *
 * @throws {UpstreamError} `suspended`
 */
function refuseSuspended({ headers }: IncomingMessage): void {
  const challenge = headers['www-authenticate'] ?? '';
  const why = /\berror_description="(suspended: [^"\\]{1,200})"/.exec(challenge)?.[1];
  if (why !== undefined) throw new UpstreamError('suspended', why, { status: 401 });
}

function unreached(error: unknown): never {
  if (!(error instanceof HttpError)) throw error;
  const code = error.code === 'aborted' ? 'aborted' : 'unreachable';
  throw new UpstreamError(code, error.message, { cause: error });
}

/** The query may contain a key, and the assistant sees this message. */
function unauthorized({ origin, pathname }: URL, proof: Record<string, string>): UpstreamError {
  const where = origin + pathname;
  return new UpstreamError(
    'unauthorized',
    Object.keys(proof).length === 0
      ? `${where} requires authentication (401)`
      : `${where} rejected ${'x-api-key' in proof ? 'this API key' : 'this credential'}`,
    { status: 401 },
  );
}
