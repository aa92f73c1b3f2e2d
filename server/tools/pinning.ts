import { createHash } from 'node:crypto';
import type { Target } from '#model/endpoints';
import { translateErrors } from '#model/streams';
import { eventsIn, wholeBody } from '#gateway/answers';
import { presentingMethods } from '#gateway/filters';
import type { GatewayPorts, PinnedRequest } from '#gateway/gateway-parts';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { removals } from '#gateway/tool-list';
import type { UpstreamAnswer } from '#gateway/upstream';
import type { Span } from 'latchkey-mcp/json';
import { type Edit, replaced } from 'latchkey-mcp/json-edit';
import { isError, scanMessage } from 'latchkey-mcp/message';
import { SseEventTooLarge, messageEvent } from 'latchkey-mcp/sse';
import {
  type ReadDefinitions,
  readDefinitions,
  unreadableDefinitions,
} from './definition-lists.ts';
import type { DefinitionWatch, PageOutcome } from './definition-watch.ts';
import { correctionEdits } from './list-edits.ts';

/** The longest answer or event. No assistant could use a longer list. */
const mostBytes = 4 * 1024 * 1024;

export interface PinningPorts {
  readonly watch: Pick<
    DefinitionWatch,
    'look' | 'compare' | 'acceptedInstructions' | 'recall' | 'remember'
  >;
  /** Called when definitions could not be stored, or not compared with the accepted ones; the call continues. */
  readonly failed: (error: unknown) => void;
}

/**
 * Compares the definitions that a server lists, and its instructions, with the accepted ones before a caller gets them. Anything ambiguous
 * is refused, because a client might find definitions in it that were not checked. Withheld definitions are left out, corrections of
 * administrators are applied, and withheld instructions are replaced by the accepted ones. If the server withholds changes or reviews new
 * tools, and the comparison fails, the answer does not pass at all.
 *
 * Instructions are stored when they come from the upstream, but compared when they go to a caller, because adapters cache handshakes.
 */
export function pinnedDefinitions(ports: PinningPorts): GatewayPorts['pinned'] {
  return async (answer, target, request) => {
    const pinning = { ...ports, target, request };
    return presentingMethods.has(request.method) && !request.isForCaller
      ? noted(answer, pinning)
      : pinned(answer, pinning);
  };
}

/** The context in which an answer is compared. */
interface Pinning extends PinningPorts {
  readonly target: Target;
  readonly request: PinnedRequest;
}

/** Stores the instructions in an answer, which passes unchanged. They are compared later, when a caller gets them. */
async function noted(answer: UpstreamAnswer, pinning: Pinning): Promise<UpstreamAnswer> {
  const { status, mediaType, body } = answer;
  if (status !== 200) return answer;
  if (mediaType === 'text/event-stream') return { ...answer, body: notedEvents(body, pinning) };
  if (mediaType !== 'application/json') return answer;
  const message = await wholeBody(body);
  await note(message, pinning);
  return { ...answer, body: message };
}

async function* notedEvents(
  body: UpstreamAnswer['body'],
  pinning: Pinning,
): AsyncGenerator<Uint8Array> {
  for await (const { data, raw } of eventsIn(body)) {
    await note(Buffer.from(data), pinning);
    yield raw;
  }
}

async function note(message: Buffer, { watch, failed, target, request }: Pinning): Promise<void> {
  if (!message.includes('instructions')) return;
  try {
    const read = readDefinitions(message, request.method);
    if (read && read.definitions.length > 0) await watch.look(target, read);
  } catch (error) {
    // The same answer is refused when it goes to a caller.
    if (!(error instanceof GatewayRefusal)) failed(error);
  }
}

async function pinned(answer: UpstreamAnswer, pinning: Pinning): Promise<UpstreamAnswer> {
  const { status, mediaType, body } = answer;
  const { request } = pinning;
  // Refused, because a later answer on another stream would not be checked.
  if (status === 202 || status === 204) {
    throw unreadableDefinitions(request.method, 'the response does not contain it');
  }
  if (status === 200 && mediaType === 'text/event-stream') {
    return { ...answer, body: pinnedEvents(body, pinning) };
  }
  const isRefusal = status === 400 || status === 404;
  if (mediaType !== 'application/json' || !(isRefusal || status === 200)) return answer;
  const message = await whole(body, request);
  if (!isRefusal) {
    const known = await recalled(message, pinning);
    return { ...answer, body: known ?? (await changed(message, pinning)) };
  }
  return isError(message)
    ? { ...answer, body: message }
    : { ...answer, mediaType: '', body: new Uint8Array() };
}

/**
 * The parsed messages, each in a newly written event, because some parsers would find another message in what
 * others read as a comment.
 */
async function* pinnedEvents(
  body: UpstreamAnswer['body'],
  pinning: Pinning,
): AsyncGenerator<Uint8Array> {
  let isAnswered = false;
  const events = translateErrors(eventsIn(body, mostBytes), (error) =>
    limitIn(error, pinning.request),
  );
  for await (const { data } of events) {
    if (isAnswered || data.length === 0) continue;
    const message = Buffer.from(data);
    const known = await recalled(message, pinning);
    const scan = known ? undefined : scanMessage(message);
    isAnswered = scan?.outcome !== 'message' || scan.envelope.kind === 'response';
    yield messageEvent(isAnswered ? (known ?? (await changed(message, pinning))) : message);
  }
  // The caller must not continue on another stream, where nothing is checked.
  if (!isAnswered) {
    throw new GatewayRefusal('upstream_broke_off', {
      detail: 'its response ended before the result',
    });
  }
}

/** A page that was compared before, with the same edits as then; `undefined` if it has to be compared. */
async function recalled(
  message: Buffer,
  { watch, target, request }: Pinning,
): Promise<Buffer | undefined> {
  const place = placeOfId(message, request.id);
  if (!place) return undefined;
  const page = pageOf(message, place, request.method);
  const known = await watch.recall(target, page).catch(() => undefined);
  return known && edited(message, shifted(known.edits, place, 1));
}

async function changed(message: Buffer, pinning: Pinning): Promise<Buffer> {
  const { watch, target, request } = pinning;
  const read = readDefinitions(message, request.method);
  if (!read) return message;
  const { edits, basis } = await outcomeOf(message, read, pinning);
  const place = placeOfId(message, request.id);
  const { idSpan } = read;
  if (basis && place && idSpan?.start === place.start && idSpan.end === place.end) {
    const page = pageOf(message, place, request.method);
    watch.remember(target, page, { edits: shifted(edits, place, -1), basis });
  }
  return edited(message, edits);
}

async function outcomeOf(
  message: Buffer,
  read: ReadDefinitions,
  pinning: Pinning,
): Promise<PageOutcome> {
  const isInstructions = read.kind === 'instructions';
  // An answer without instructions has nothing to compare.
  if (isInstructions && read.definitions.length === 0) return { edits: [], basis: undefined };
  try {
    return await (isInstructions
      ? comparedInstructions(read, pinning)
      : comparedList(message, read, pinning));
  } catch (cause) {
    if (cause instanceof GatewayRefusal) throw cause;
    if (mustCompare(pinning.target)) throw new GatewayRefusal('unavailable', { cause });
    pinning.failed(cause);
    return { edits: [], basis: undefined };
  }
}

/** Withheld instructions are replaced by the accepted ones. */
async function comparedInstructions(
  read: ReadDefinitions,
  { watch, target }: Pinning,
): Promise<PageOutcome> {
  const { withheld, basis } = await watch.compare(target, read);
  const entries = entriesOf(read).filter(({ name }) => withheld.includes(name));
  if (entries.length === 0) return { edits: [], basis };
  const text = JSON.stringify((await watch.acceptedInstructions(target)) ?? '');
  return { edits: entries.map(({ span }) => ({ span, text })), basis };
}

/** Withheld entries are left out, and others corrected. */
async function comparedList(
  message: Buffer,
  read: ReadDefinitions,
  { watch, target }: Pinning,
): Promise<PageOutcome> {
  const { withheld, corrections, basis } = await watch.look(target, read);
  const isWithheld = new Set(withheld);
  const entries = entriesOf(read);
  const removed = removals({ entries }, ({ name }) => isWithheld.has(name));
  const corrected = entries.flatMap(({ span, name }) => {
    const correction = corrections.get(name);
    return correction ? correctionEdits(message, span, correction) : [];
  });
  return { edits: [...removed, ...corrected], basis };
}

function entriesOf({ definitions, spans }: ReadDefinitions) {
  return spans.map((span, index) => ({ span, name: definitions[index]?.name ?? '' }));
}

/** Whether definitions may pass only after a comparison. */
function mustCompare({ changedTools, newTools }: Target): boolean {
  return changedTools === 'withhold' || newTools === 'review';
}

/** The id of a message is searched for within this many bytes of its beginning or its end, where servers write it. */
const mostLettersAround = 200;
const idMember = '"id":';

/** The place of the request's id in its answer, if a search near both ends finds it. The answer is not parsed. */
function placeOfId(message: Buffer, id: string | undefined): Span | undefined {
  if (id === undefined) return undefined;
  const wanted = `${idMember}${id}`;
  const first = message.subarray(0, mostLettersAround).indexOf(wanted);
  const tail = Math.max(0, message.length - mostLettersAround);
  const last = first >= 0 ? -1 : message.subarray(tail).lastIndexOf(wanted);
  const at = first >= 0 ? first : last >= 0 ? tail + last : -1;
  if (at < 0) return undefined;
  const start = at + idMember.length;
  return { start, end: start + Buffer.byteLength(id) };
}

/**
 * A digest of an answer without its id. Two messages with the same digest and an id in the same place have the same content, because the
 * bytes left out are a whole JSON value in both.
 */
function pageOf(message: Buffer, { start, end }: Span, method: string): string {
  return createHash('sha256')
    .update(`${method} ${start}\n`)
    .update(message.subarray(0, start))
    .update(message.subarray(end))
    .digest('base64url');
}

function edited(message: Buffer, edits: readonly Edit[]): Buffer {
  return edits.length > 0 ? replaced(message, edits) : message;
}

/** The edits, with those after the id moved by its length: forward for `1`, backward for `-1`. */
function shifted(edits: readonly Edit[], id: Span, sign: 1 | -1): Edit[] {
  const by = sign * (id.end - id.start);
  return edits.map(({ span: { start, end }, text }) =>
    start >= id.start
      ? { span: { start: start + by, end: end + by }, text }
      : { span: { start, end }, text },
  );
}

async function whole(body: UpstreamAnswer['body'], request: PinnedRequest): Promise<Buffer> {
  try {
    return await wholeBody(body, mostBytes);
  } catch (error) {
    throw limitIn(error, request);
  }
}

function limitIn(error: unknown, request: PinnedRequest): unknown {
  const cause = error instanceof GatewayRefusal ? error.cause : undefined;
  return cause instanceof SseEventTooLarge
    ? unreadableDefinitions(request.method, `it is larger than ${cause.limit}`)
    : error;
}
