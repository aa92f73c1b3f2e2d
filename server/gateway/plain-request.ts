import { parseAccept } from './accept.ts';
import type { GatewayAnswer } from './exchange.ts';
import { wholeBody } from './event-stream.ts';
import { modernHeaders, postHeaders } from './forwarded-headers.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { hidesTools, withoutTools } from './hidden-tools.ts';
import { scanMessage, type Envelope } from './json-scan.ts';
import {
  linkHeaders,
  plainMeta,
  type LegacyLink,
  type LinkAsked,
  type PlainLinks,
} from './plain-links.ts';
import { discard, failure, relay, send } from './relay.ts';
import { withId, withMeta } from './splice.ts';
import type { UpstreamAnswer } from './upstream.ts';

interface PlainRequest extends LinkAsked {
  readonly body: Buffer;
  readonly envelope: Envelope;
  readonly hiddenTools: readonly string[];
  readonly signal: AbortSignal;
  /** `traceHeaders` */
  readonly trace: Readonly<Record<string, string>>;
}

/**
 * A request without any handshake: a JSON-RPC body and a credential. It is answered 200 as JSON
 * whatever the upstream speaks; the gateway makes the handshake that it wants.
 *
 * @throws {GatewayRefusal}
 */
export async function plainRequest(
  request: PlainRequest,
  links: PlainLinks,
): Promise<GatewayAnswer> {
  const { body, envelope, upstream, signal, key, trace } = request;
  const link = await links.link(request);
  if (link.era === 'modern') {
    const carried = withMeta(body, envelope, plainMeta);
    const headers = modernHeaders(envelope, trace);
    const answer = await send(upstream, { method: 'POST', headers, body: carried, signal });
    return finish(request, answer);
  }
  // Several plain requests share one session, where each id may be in use once.
  const unique = envelope.idSpan ? withId(body, envelope, links.nextId()) : body;
  const forward = (over: LegacyLink) => {
    const headers = { ...postHeaders, ...linkHeaders(over), ...trace };
    return send(upstream, { method: 'POST', headers, body: unique, signal });
  };
  const answer = await forward(link);
  if (answer.status !== 404 || link.sessionId === undefined) {
    return underId(await finish(request, answer), envelope);
  }
  // The upstream forgot the session, so it did not run the request: once more with a new one.
  await discard(answer.body);
  await links.forget(key, link);
  const renewed = await links.link(request);
  if (renewed.era === 'modern') throw failure(answer);
  return underId(await finish(request, await forward(renewed)), envelope);
}

/** The answer as JSON, always 200 where it is JSON-RPC, an error or not. */
async function finish(
  { envelope, hiddenTools }: PlainRequest,
  answer: UpstreamAnswer,
): Promise<GatewayAnswer> {
  const relayed = hidesTools(envelope, answer, hiddenTools)
    ? await withoutTools(answer, hiddenTools)
    : await relay(answer, parseAccept(undefined));
  return relayed.status === 202 ? relayed : { ...relayed, status: 200 };
}

/** The answer with the caller's own id in the place of ours. */
async function underId(answer: GatewayAnswer, { id }: Envelope): Promise<GatewayAnswer> {
  if (id === undefined || answer.body === undefined) return answer;
  const { body } = answer;
  const response = typeof body === 'string' ? Buffer.from(body) : await wholeBody(body);
  const scan = scanMessage(response);
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') {
    throw new GatewayRefusal('upstream_failed', {
      detail: 'its answer is not a JSON-RPC response',
    });
  }
  return { ...answer, body: withId(response, scan.envelope, id) };
}
