import type { IncomingMessage } from 'node:http';
import { HttpError, type HttpClient, type HttpRequest } from '#http/http-client';
import type { Credential } from './credential.ts';
import { UpstreamError } from './upstream.ts';

/**
 * Sends a request with a credential; a 401 renews the credential and repeats the request, once.
 *
 * @throws {UpstreamError} `unauthorized`, `unreachable`, `aborted`
 */
export async function authorizedRequest(
  request: HttpRequest,
  { credential, http }: { credential: Credential; http: HttpClient },
): Promise<IncomingMessage> {
  const send = (headers: Record<string, string>) =>
    http
      .request({ ...request, headers: { ...request.headers, ...headers } })
      .catch((error: unknown) => {
        throw error instanceof HttpError
          ? new UpstreamError(error.code, `cannot reach ${error.message}`, { cause: error })
          : error;
      });
  const proof = await credential.headers();
  const first = await send(proof);
  if (first.statusCode !== 401) return first;
  first.resume();
  const renewed = await credential.renewed(proof, first.headers['www-authenticate']);
  const second = renewed && (await send(renewed));
  if (second && second.statusCode !== 401) return second;
  second?.resume();
  throw new UpstreamError(
    'unauthorized',
    Object.keys(proof).length === 0
      ? `${request.url.href} wants to know who is asking`
      : `${request.url.href} does not accept the credential`,
    { status: 401 },
  );
}
