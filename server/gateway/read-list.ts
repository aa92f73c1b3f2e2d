import type { EndSignal } from '#model/ending';
import type { PrimitiveKind } from '#model/tool-rights';
import { upstreamLocation } from '#model/upstream-kinds';
import { traceHeaders } from 'latchkey-mcp/headers';
import { type Message, messageOf, readMessage, spanAt, textAt } from 'latchkey-mcp/message';
import { AdaptedUpstream } from './adapted-upstream.ts';
import { carriesMessages } from './adapter-messages.ts';
import { discardAnswer, failure, responseBytes } from './answers.ts';
import type { MessageCall } from './call.ts';
import { answeredAnother, isSameId } from './filters.ts';
import type { GatewayParts } from './gateway-parts.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { forwardPlain } from './plain-calls.ts';
import { listIn, type ListMethod, listOfKind, unreadableList } from './tool-list.ts';
import type { Upstream } from './upstream.ts';

const timeoutMs = 30_000;
const maxPages = 100;
const maxPageBytes = 4 * 1024 * 1024;
/** The most names, and characters in them, on all pages together. */
const maxNames = 100_000;
const maxCharacters = 8 * 1024 * 1024;
const methodNotFound = '-32601';

/**
 * Reads the whole list that decides which names of a kind exist, on behalf of a caller and through the caller's own upstream. As with
 * any list, its definitions are compared with the accepted ones, and noted. With `mayWait`, if another caller's request is already
 * reading the list, waits for that and returns `undefined`.
 *
 * @throws {GatewayRefusal} if it cannot be read
 */
export function readList(
  kind: PrimitiveKind,
  call: MessageCall,
  parts: GatewayParts,
  { mayWait }: { readonly mayWait: boolean },
): Promise<ReadonlySet<string> | undefined> {
  const method = listOfKind[kind];
  const { target, owner } = call;
  const place = `${method} ${target.id} ${upstreamLocation(target.upstream)}`;
  const asked = { place, owner: `${method} ${owner}`, mayWait };
  return parts.unread.read(asked, () => readAll(method, call, parts));
}

/** The names on all pages of a list. */
async function readAll(
  method: ListMethod,
  call: MessageCall,
  parts: GatewayParts,
): Promise<ReadonlySet<string>> {
  // Other calls may wait for this list, so reading it does not end when this call ends.
  const ending = new AbortController();
  const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(timeoutMs)]);
  const giveUp = (refusal: GatewayRefusal) => ending.abort(refusal);
  const upstream: Upstream = { send: (request) => call.upstream.send({ ...request, giveUp }) };
  const through = new AdaptedUpstream({ ...call, upstream }, 'legacy', parts);
  const names = new Set<string>();
  let characters = 0;
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const request = messageOf(
      JSON.stringify({ jsonrpc: '2.0', id: `list-${page}`, method, params }),
    );
    const answer = await ask(request, { call, through, signal, parts });
    const list = answer && listIn(answer.body, method);
    if (!list) return names;
    for (const { name } of list.entries) {
      names.add(name);
      characters += name.length;
    }
    if (names.size > maxNames || characters > maxCharacters)
      throw unreadableList(method, 'it is too long');
    cursor = list.nextCursor;
    if (cursor === undefined) return names;
  }
  throw unreadableList(method, `it has more than ${maxPages} pages`);
}

interface Asking {
  readonly call: MessageCall;
  readonly through: Upstream;
  readonly signal: EndSignal;
  readonly parts: GatewayParts;
}

/**
 * The response with one page; `undefined` if the server has no such lists.
 *
 * @throws {GatewayRefusal}
 */
async function ask(
  { body, envelope }: Message,
  { call, through, signal, parts }: Asking,
): Promise<Message | undefined> {
  const { owner: key, target } = call;
  const place = upstreamLocation(target.upstream);
  const trace = traceHeaders(call.headers);
  const { answer, ownId } = await forwardPlain(
    { body, envelope, upstream: through, key, place, signal, trace },
    parts.legacy.links,
  );
  if (!carriesMessages(answer)) {
    await discardAnswer(answer);
    throw failure(answer);
  }
  const response = readMessage(await responseBytes(answer, maxPageBytes));
  if (response?.envelope.kind !== 'response')
    throw new GatewayRefusal('upstream_unreadable', { detail: 'its list is not a response' });
  if (!isSameId(response.envelope.id, ownId?.id)) throw answeredAnother();
  if (!spanAt(response, 'error')) return response;
  const code = textAt(response, 'error', 'code');
  if (code === methodNotFound) return undefined;
  throw new GatewayRefusal('upstream_failed', {
    detail: 'it answered with an error when it was asked for its list',
    cause: code?.slice(0, 20),
  });
}
