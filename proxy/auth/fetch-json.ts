import { parseObject, type JsonObject } from 'latchkey-mcp/json-value';
import type { IncomingMessage } from 'node:http';
import { HttpError } from '#transport/http-error';
import { type HttpClient, type HttpRequest } from '#transport/http-client';
import { readBody } from '#transport/answers';
import { OAuthError } from './errors.ts';

export type JsonAnswer = { status: number; headers: IncomingMessage['headers']; json?: JsonObject };

const maxBytes = 256 * 1024;
const timeoutMs = 15_000;

/**
 * Sends one HTTP request, such as to an authorization server. `json` is absent if the body is not a JSON object.
 *
 * @throws {OAuthError} `unreachable`, also for a body over 256 KiB or a response after more than 15 s; `metadata` if the URL
 * leads further into a private network than the server that named it
 */
export async function fetchJson(
  http: HttpClient,
  request: Omit<HttpRequest, 'signal'>,
): Promise<JsonAnswer> {
  const endpoint = request.url.href;
  const signal = AbortSignal.timeout(timeoutMs);
  const slow = () => `${endpoint} did not answer within ${timeoutMs / 1000} s`;
  try {
    const response = await http.request({ ...request, signal });
    const status = response.statusCode ?? 0;
    const body = await readBody(response, maxBytes);
    if (!body)
      throw new OAuthError('unreachable', `${endpoint} sent a response that is too large`, {
        endpoint,
      });
    const json = parseObject(body.toString());
    return { status, headers: response.headers, ...(json && { json }) };
  } catch (error) {
    if (error instanceof OAuthError) throw error;
    if (error instanceof HttpError && error.code === 'network')
      throw new OAuthError('metadata', refusedUrl(endpoint, error.message), { endpoint });
    const reason =
      error instanceof HttpError ? error.message : `${endpoint} ended its response early`;
    throw new OAuthError(
      'unreachable',
      signal.aborted ? slow() : reason,
      { endpoint },
      { cause: error },
    );
  }
}

/** The message for a URL that was not contacted because it leads further into a private network than the server that named it. */
export function refusedUrl(endpoint: string, why: string): string {
  return `${endpoint} was not contacted: ${why}, but the server that names it is not; if you trust it, set oauth.issuer`;
}
