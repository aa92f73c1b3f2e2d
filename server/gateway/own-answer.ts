import { eventsIn, wholeBody } from './event-stream.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { isError, scanMessage, type Envelope } from './json-scan.ts';
import type { UpstreamAnswer } from './upstream.ts';

const refusals: ReadonlySet<number> = new Set([400, 404]);

/**
 * The answer to a message without results for any other request. Clients find the request that a response is for by
 * its id alone, wherever it comes: a result for another one would be taken for that one's, and nobody would have
 * looked at it as such. Errors pass, as they carry nothing that is looked at.
 *
 * @throws {GatewayRefusal} `upstream_failed`
 */
export async function ownAnswer(
  answer: UpstreamAnswer,
  { kind, id }: Pick<Envelope, 'kind' | 'id'>,
): Promise<UpstreamAnswer> {
  const { status, mediaType, body } = answer;
  const isRefusal = refusals.has(status);
  if (status === 200 && mediaType === 'text/event-stream') {
    return { ...answer, body: ownEvents(body, id) };
  }
  if (mediaType !== 'application/json' || !(isRefusal || status === 200)) return answer;
  // What is no request has no answer, whatever some upstreams say to it.
  if (status === 200 && kind !== 'request') return { ...answer, status: 202 };
  const message = await wholeBody(body);
  if (isRefusal) {
    return isError(message)
      ? { ...answer, body: message }
      : { ...answer, mediaType: '', body: new Uint8Array() };
  }
  if (isOfAnother(message, id)) throw failed('it answered another request than it was sent');
  return { ...answer, body: message };
}

/** The events of the answer to the request with this id, without results for others. */
export async function* ownEvents(
  body: UpstreamAnswer['body'],
  id: string | undefined,
): AsyncGenerator<Uint8Array> {
  for await (const { raw, data } of eventsIn(body)) {
    if (data.length === 0 || !isOfAnother(data, id)) yield raw;
  }
}

/** @throws {GatewayRefusal} `upstream_failed` for what could be read as one result or another */
function isOfAnother(message: Uint8Array, id: string | undefined): boolean {
  const scan = scanMessage(message);
  if (scan.outcome === 'refused') {
    if (isError(message)) return false;
    throw failed(`its answer cannot be read: ${scan.reason}`);
  }
  const { kind, id: answered } = scan.envelope;
  return kind === 'response' && !isSameId(answered, id) && !isError(message);
}

/** Some upstreams write an id in another form, a number as a string above all, and clients know it again. */
function isSameId(one: string | undefined, other: string | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  return one === other || String(JSON.parse(one)) === String(JSON.parse(other));
}

function failed(detail: string): GatewayRefusal {
  return new GatewayRefusal('upstream_failed', { detail });
}
