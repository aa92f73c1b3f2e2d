import { eventsIn, unfinished, wholeBody } from './event-stream.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { isError, scanMessage, type Envelope } from './json-scan.ts';
import { TopLevelMembers } from './top-level-members.ts';
import type { UpstreamAnswer } from './upstream.ts';

const refusals: ReadonlySet<number> = new Set([400, 404]);
/** What is held back of an answer until all of it has been read. */
const heldBytes = 1024 * 1024;

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
  if (isRefusal) {
    const message = await wholeBody(body);
    return isError(message)
      ? { ...answer, body: message }
      : { ...answer, mediaType: '', body: new Uint8Array() };
  }
  return { ...answer, body: await ownJson(body, id) };
}

/** A short answer is read before anything of it goes on; a long one goes on as it comes, but for its end. */
async function ownJson(
  body: UpstreamAnswer['body'],
  id: string | undefined,
): Promise<UpstreamAnswer['body']> {
  if (body instanceof Uint8Array) return checked(body, id);
  const chunks = body[Symbol.asyncIterator]();
  const held: Uint8Array[] = [];
  let bytes = 0;
  try {
    while (bytes <= heldBytes) {
      const { done, value } = await chunks.next();
      if (done) return checked(Buffer.concat(held), id);
      held.push(value);
      bytes += value.length;
    }
  } catch (cause) {
    throw unfinished(cause);
  }
  // As long as nothing has gone on, a refusal can still be an answer of ours.
  const members = new TopLevelMembers();
  try {
    for (const chunk of held) check(members, chunk, id);
  } catch (refusal) {
    await chunks.return?.();
    throw refusal;
  }
  return ownLong(held, chunks, { members, id });
}

async function* ownLong(
  held: readonly Uint8Array[],
  rest: AsyncIterator<Uint8Array>,
  { members, id }: { members: TopLevelMembers; id: string | undefined },
): AsyncGenerator<Uint8Array> {
  try {
    yield* held;
    for (;;) {
      const { done, value } = await rest.next();
      if (done) break;
      check(members, value, id);
      yield value;
    }
    if (!members.isComplete) throw failed('its answer ends too early');
  } finally {
    await rest.return?.();
  }
}

/** Before the chunk that completes a message goes on, it is known whose it is. */
function check(members: TopLevelMembers, chunk: Uint8Array, id: string | undefined): void {
  members.push(chunk);
  if (members.isBroken) throw failed('its answer cannot be read');
  if (!members.isComplete || !members.names.has('result')) return;
  const [answered, ...others] = members.ids;
  if (others.length > 0 || !isSameId(answered, id)) throw ofAnother();
}

function checked(message: Uint8Array, id: string | undefined): Uint8Array {
  if (isOfAnother(message, id)) throw ofAnother();
  return message;
}

function ofAnother(): GatewayRefusal {
  return failed('it answered another request than it was sent');
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
  return one === other || plainId(one) === plainId(other);
}

function plainId(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

function failed(detail: string): GatewayRefusal {
  return new GatewayRefusal('upstream_failed', { detail });
}
