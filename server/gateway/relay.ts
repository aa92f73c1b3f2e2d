import type { Accepts } from './accept.ts';
import { responseIn, wholeBody } from './event-stream.ts';
import { messageEvent } from './sse-event.ts';
import type { GatewayAnswer } from './exchange.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import {
  UpstreamError,
  UpstreamRefusal,
  type Upstream,
  type UpstreamAnswer,
  type UpstreamRequest,
} from './upstream.ts';

const json = 'application/json';
const eventStream = 'text/event-stream';

/** @throws {GatewayRefusal} the upstream's absence, in the gateway's words. */
export async function send(upstream: Upstream, request: UpstreamRequest): Promise<UpstreamAnswer> {
  try {
    return await upstream.send(request);
  } catch (cause) {
    const late = { detail: 'it did not answer in time', cause };
    if (cause instanceof DOMException && cause.name === 'TimeoutError') {
      throw new GatewayRefusal('upstream_failed', late);
    }
    if (cause instanceof UpstreamRefusal) throw accessRefusal(cause);
    if (!(cause instanceof UpstreamError)) throw cause;
    switch (cause.code) {
      case 'unreachable':
        throw new GatewayRefusal('upstream_unreachable', { cause });
      case 'timeout':
        throw new GatewayRefusal('upstream_failed', late);
      case 'broken':
        throw new GatewayRefusal('upstream_failed', { detail: 'its answer broke off', cause });
      case 'encoded':
        throw new GatewayRefusal('upstream_failed', {
          detail: 'it answered in a content coding that it was told not to use',
          cause,
        });
      case 'offline':
        throw new GatewayRefusal('agent_offline', { cause });
    }
  }
}

/** Why an upstream that wants credentials of its own got none, or took none. */
function accessRefusal(cause: UpstreamRefusal): GatewayRefusal {
  const { code, page } = cause;
  switch (code) {
    case 'not_connected':
      return new GatewayRefusal('not_connected', { page, cause });
    case 'no_person':
      return new GatewayRefusal('no_person', { cause });
    case 'scope_missing':
      return new GatewayRefusal('upstream_scope', { page, cause });
    case 'token_refused':
    case 'no_token':
      return new GatewayRefusal('upstream_token', { page, cause });
  }
}

/**
 * The upstream's answer to a POST as the caller gets it: status, media type and body, and nothing else
 * of it. JSON and event streams go through as they come; an event stream is reduced to the response in
 * it for who takes JSON only. `follow` has a stream's body on its way.
 *
 * @throws {GatewayRefusal} `upstream_failed`, `upstream_busy`
 */
export async function relay(
  answer: UpstreamAnswer,
  accepts: Accepts,
  follow: (body: UpstreamAnswer['body']) => NonNullable<GatewayAnswer['body']> = (body) => body,
): Promise<GatewayAnswer> {
  const { status, mediaType, body } = answer;
  if (status === 202 || status === 204) {
    await discard(body);
    return { status: 202, headers: {} };
  }
  if (status === 200 && mediaType === eventStream) {
    if (!accepts.events) return jsonAnswer(200, await responseIn(body));
    return eventAnswer(follow(body));
  }
  if (mediaType === json && status === 200) {
    return accepts.json ? jsonAnswer(200, body) : asEvent(await wholeBody(body));
  }
  // A refusal in JSON-RPC, as for a header or a version: the caller's to understand.
  if (mediaType === json && (status === 400 || status === 404)) return jsonAnswer(status, body);
  throw failure(answer);
}

/** Why an answer that cannot be relayed is none. */
export function failure({ status, mediaType, retryAfterSeconds }: UpstreamAnswer): GatewayRefusal {
  const retry = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
  if (status === 429 || status === 503) return new GatewayRefusal('upstream_busy', retry);
  const detail =
    status === 401 || status === 403
      ? `it refuses this gateway (HTTP ${status})`
      : `it answered HTTP ${status}${mediaType && ` with ${mediaType.slice(0, 60)}`}`;
  return new GatewayRefusal('upstream_failed', { detail, ...retry });
}

export function jsonAnswer(
  status: number,
  body: NonNullable<GatewayAnswer['body']>,
): GatewayAnswer {
  return { status, headers: { 'Content-Type': json, 'Cache-Control': 'no-store' }, body };
}

/** A stream of events as an answer. */
export function eventAnswer(body: NonNullable<GatewayAnswer['body']>): GatewayAnswer {
  const headers = {
    'Content-Type': eventStream,
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  };
  return { status: 200, headers, body };
}

/** Reads a body to its end, so that its connection can be used again; a long one is cut off. */
export async function discard(body: UpstreamAnswer['body']): Promise<void> {
  if (body instanceof Uint8Array) return;
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > 64 * 1024) return;
  }
}

function asEvent(message: Buffer): GatewayAnswer {
  return {
    status: 200,
    headers: { 'Content-Type': eventStream, 'Cache-Control': 'no-store' },
    body: messageEvent(message).toString(),
  };
}
