import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { legacyHeaders } from 'latchkey-mcp/headers';
import { scanMessage } from 'latchkey-mcp/message';
import { type SseEvent, sseEvents, SseEventTooLarge } from 'latchkey-mcp/sse';
import type { Awaitable } from '#model/awaitable';
import { answerBrokeOff, GatewayRefusal, type UpstreamFailure } from './gateway-refusal.ts';
import {
  type Upstream,
  type UpstreamAnswer,
  type UpstreamBody,
  UpstreamError,
  UpstreamRefusal,
  type UpstreamRequest,
} from './upstream.ts';

/** Sends a request to an upstream. @throws {GatewayRefusal} if there is no answer */
export async function send(upstream: Upstream, request: UpstreamRequest): Promise<UpstreamAnswer> {
  return sent(upstream, request, (answer) => answer);
}

/** Sends a request like `send` and passes the answer to `step`. If there is no answer, `recover` gets the error; the default throws it. */
export function sent<Next, Other = never>(
  upstream: Upstream,
  request: UpstreamRequest,
  step: (answer: UpstreamAnswer) => Awaitable<Next>,
  recover: (error: unknown) => Other = rethrow,
): Promise<Next | Other> {
  let sending: Promise<UpstreamAnswer>;
  try {
    sending = upstream.send(request);
  } catch (cause) {
    sending = Promise.reject(cause);
  }
  return sending.then(step, (cause: unknown) => recover(absence(cause)));
}

function rethrow(error: unknown): never {
  throw error;
}

/** The error for a request that got no answer. */
function absence(cause: unknown): unknown {
  const late = { detail: 'it did not answer in time', cause };
  if (cause instanceof DOMException && cause.name === 'TimeoutError') {
    return new GatewayRefusal('upstream_timeout', late);
  }
  if (cause instanceof UpstreamRefusal) return accessRefusal(cause);
  if (!(cause instanceof UpstreamError)) return cause;
  switch (cause.code) {
    case 'unreachable':
      return new GatewayRefusal('upstream_unreachable', { cause });
    case 'unknown_host':
      return new GatewayRefusal('upstream_unknown_host', { cause });
    case 'not_public':
      return new GatewayRefusal('upstream_not_public', { cause });
    case 'tls':
      return new GatewayRefusal('upstream_tls_failed', { cause });
    case 'not_served':
      return new GatewayRefusal('upstream_not_served', { cause });
    case 'timeout':
      return new GatewayRefusal('upstream_timeout', late);
    case 'too_large':
    case 'broken':
      return unfinished(cause);
    case 'encoded':
      return new GatewayRefusal('upstream_unreadable', {
        detail: 'it sent a compressed response, although the request did not allow one',
        cause,
      });
    case 'offline':
      return new GatewayRefusal('agent_offline', { cause });
  }
}

/** The refusal for a call whose upstream requires credentials from Latchkey, if these are missing or the upstream refused them. */
function accessRefusal(cause: UpstreamRefusal): GatewayRefusal {
  const { code, page } = cause;
  switch (code) {
    case 'not_connected':
      return new GatewayRefusal('not_connected', { page, cause });
    case 'key_missing':
    case 'key_refused':
      return new GatewayRefusal(code, { page, cause });
    case 'no_person':
      return new GatewayRefusal('no_person', { cause });
    case 'scope_missing':
      return new GatewayRefusal('upstream_scope', { page, cause });
    case 'token_refused':
    case 'no_token':
      return new GatewayRefusal('upstream_token', { page, cause });
  }
}

/** The longest `Retry-After` that is passed on from a busy upstream. */
const maxRetryAfterSeconds = 3600;

/** The refusal for an answer that cannot be relayed. */
export function failure({ status, mediaType, retryAfterSeconds }: UpstreamAnswer): GatewayRefusal {
  const code = failureOfStatus(status);
  if (code === 'upstream_rate_limited' || code === 'upstream_busy') {
    const wait = Math.min(retryAfterSeconds ?? 0, maxRetryAfterSeconds);
    return new GatewayRefusal(code, wait > 0 ? { retryAfterSeconds: wait } : {});
  }
  const detail =
    status === 401 || status === 403
      ? `it refused the request (HTTP ${status})`
      : `it answered HTTP ${status}${mediaType && ` with ${mediaType.slice(0, 60)}`}`;
  return new GatewayRefusal(code, { detail });
}

/** The failure that an HTTP status means if the answer cannot be relayed. */
export function failureOfStatus(status: number): UpstreamFailure {
  if (status >= 300 && status < 400) return 'upstream_redirected';
  switch (status) {
    case 200:
      return 'upstream_not_json';
    case 401:
    case 403:
      return 'upstream_refused_credentials';
    case 404:
    case 410:
      return 'upstream_not_found';
    case 405:
      return 'upstream_method_not_allowed';
    case 429:
      return 'upstream_rate_limited';
    case 503:
      return 'upstream_busy';
    default:
      return status >= 500 ? 'upstream_server_error' : 'upstream_failed';
  }
}

/** Reads a body to its end, so that its connection can be used again. A body of more than 64 KiB is cut off. */
export async function discard(body: UpstreamAnswer['body']): Promise<void> {
  if (body instanceof Uint8Array) return;
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > 64 * 1024) return;
  }
}

/** The longest answer, or event of an answer, that is held in memory as a whole. */
export const maxEventBytes = 64 * 1024 * 1024;

/** A body as an upstream returns it: whole, or in chunks. */
type Body = UpstreamAnswer['body'];

/** The events of a body as they come, each of up to `maxBytes`. */
export async function* eventsIn(body: Body, maxBytes = maxEventBytes): AsyncGenerator<SseEvent> {
  const letGo = body instanceof Uint8Array ? undefined : body.letGo;
  try {
    for await (const event of sseEvents(body, { maxBytes })) {
      yield event;
      letGo?.();
    }
  } catch (cause) {
    throw unfinished(cause);
  }
}

/**
 * The error for an answer that could not be read to its end. If we ended the answer ourselves, the upstream is not at
 * fault, and `cause` is returned unchanged.
 */
export function unfinished(cause: unknown): Error {
  if (cause instanceof SseEventTooLarge) {
    const detail = `its response is too large: more than ${cause.limit}`;
    return new GatewayRefusal('upstream_too_large', { detail, cause });
  }
  if (cause instanceof UpstreamError && cause.code === 'too_large') {
    const detail = 'a message is larger than its agent allows';
    return new GatewayRefusal('upstream_too_large', { detail, isOutcomeUnknown: true, cause });
  }
  const isOurs = cause instanceof GatewayRefusal;
  if (isOurs || (cause instanceof Error && cause.name === 'AbortError')) return cause;
  return answerBrokeOff(cause);
}

/**
 * The bytes of the one response in an answer: the whole body, or, in an event stream, the response among its messages.
 *
 * @throws {GatewayRefusal} `upstream_broke_off`, `upstream_too_large` for more than `maxBytes`
 */
export async function responseBytes(
  { mediaType, body }: Pick<UpstreamAnswer, 'mediaType' | 'body'>,
  maxBytes = maxEventBytes,
): Promise<Buffer> {
  if (mediaType !== 'text/event-stream') return wholeBody(body, maxBytes);
  for await (const { data } of eventsIn(body, maxBytes)) {
    const scan = scanMessage(data);
    if (scan.outcome === 'message' && scan.envelope.kind === 'response') {
      return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    }
  }
  throw new GatewayRefusal('upstream_broke_off', {
    detail: 'its response ended before the result',
  });
}

/**
 * All of a body, up to `maxBytes`.
 *
 * @throws {GatewayRefusal} `upstream_broke_off`, `upstream_too_large`
 */
export async function wholeBody(body: Body, maxBytes = maxEventBytes): Promise<Buffer> {
  if (body instanceof Uint8Array) {
    if (body.length > maxBytes) throw unfinished(new SseEventTooLarge(`${maxBytes} bytes`));
    // Not copied, because a body is recognized as already scanned only if it is the same object.
    return Buffer.isBuffer(body)
      ? body
      : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  }
  const gathered = new GatheredBytes();
  try {
    for await (const chunk of body) {
      gathered.add(chunk);
      if (gathered.length > maxBytes) throw new SseEventTooLarge(`${maxBytes} bytes`);
    }
  } catch (cause) {
    throw unfinished(cause);
  }
  return gathered.whole();
}

/** The beginning of a body that is too long to be read whole, and the rest of it. */
export interface LongBody {
  readonly held: Uint8Array[];
  readonly rest: AsyncIterator<Uint8Array>;
  readonly letGo: UpstreamBody['letGo'];
}

/**
 * All of a body of up to `maxBytes`, or the beginning of a longer one.
 *
 * @throws {GatewayRefusal} `upstream_broke_off`
 */
export async function bodyWithin(body: Body, maxBytes: number): Promise<Buffer | LongBody> {
  if (body instanceof Uint8Array) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const rest = body[Symbol.asyncIterator]();
  const held = new GatheredBytes();
  try {
    while (held.length <= maxBytes) {
      const { done, value } = await rest.next();
      if (done) return held.whole();
      held.add(value);
    }
  } catch (cause) {
    throw unfinished(cause);
  }
  return { held: held.parts(), rest, letGo: body.letGo };
}

const timeoutMs = 2000;

/**
 * Ends a session at an upstream because it is no longer used; `headers` name the session.
 *
 * MCP 2025-11-25 transports, "Session Management"
 *
 * @throws {UpstreamError} if the upstream cannot be reached
 */
export async function endUpstreamSession(
  upstream: Upstream,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const { body } = await upstream.send({ method: 'DELETE', headers, signal });
  await discard(body);
}

/**
 * Ends the session, if any, that an upstream opened in a handshake that failed afterwards. Ignores an upstream that
 * cannot be reached.
 */
export async function endFailedHandshake(
  upstream: Upstream,
  { sessionId }: Pick<UpstreamAnswer, 'sessionId'>,
): Promise<void> {
  if (sessionId === undefined) return;
  await endUpstreamSession(upstream, legacyHeaders({}, sessionId)).catch(() => undefined);
}

/** Reads and discards the rest of an answer. Ignores an answer that breaks off. */
export async function discardAnswer({ body }: UpstreamAnswer): Promise<void> {
  await discard(body).catch(() => undefined);
}
