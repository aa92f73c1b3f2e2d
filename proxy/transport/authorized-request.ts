import type { IncomingMessage } from 'node:http';
import type { HttpClient, HttpRequest } from './http-client.ts';
import { HttpError } from './http-error.ts';
import type { Credential } from './credential.ts';
import { UpstreamError } from './upstream.ts';

/**
 * Sends a request with a credential; a 401 renews the credential and repeats the request, once, and
 * so does a 403 that names a missing scope.
 *
 * @throws {UpstreamError} `unauthorized`, `unreachable`, `aborted`
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
  throw unauthorized(request.url, proof);
}

function unreached(error: unknown): never {
  if (!(error instanceof HttpError)) throw error;
  const code = error.code === 'aborted' ? 'aborted' : 'unreachable';
  throw new UpstreamError(code, `cannot reach ${error.message}`, { cause: error });
}

/** What stands behind the path may be a key, and the assistant hears this. */
function unauthorized({ origin, pathname }: URL, proof: Record<string, string>): UpstreamError {
  const where = origin + pathname;
  return new UpstreamError(
    'unauthorized',
    Object.keys(proof).length === 0
      ? `${where} wants to know who is asking`
      : `${where} does not accept the credential`,
    { status: 401 },
  );
}
