// A collection calls its members through the gateway, like any caller, so the rules of a member apply to callers of the collection, too.

import { randomUUID } from 'node:crypto';
import { modernHeaders } from 'latchkey-mcp/headers';
import { type Message, readMessage, stringAt } from 'latchkey-mcp/message';
import type { Admission } from '#gateway/admission';
import { GatewayRefusal, meaningOf } from '#gateway/gateway-refusal';
import type { GatewayAnswer, GatewayRequest, ProvedCredential } from '#gateway/request';
import { principalSeal, type Mac } from '#gateway/seal';
import type { UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { type Awaitable, whenReady } from '#model/awaitable';
import type { EpochSeconds } from '#model/clock';
import type { Listed } from '#model/collection-names';
import type { Target } from '#model/endpoints';
import { onEnd } from '#model/streams';
import type { UpstreamKind } from '#model/upstream-kinds';

/** The functions of the server that collections use. */
export interface CollectionPorts {
  readonly answer: (request: GatewayRequest) => Awaitable<GatewayAnswer>;
  /** Admits a caller. @throws {GatewayRefusal} */
  readonly admit: (
    proved: ProvedCredential,
    at: { readonly organization: string; readonly server: string },
  ) => Awaitable<Admission>;
  readonly mac: Mac;
  /** Decides about names that members list for the first time. Returns the names that the collection shows from now on. */
  readonly note: (
    collectionId: string,
    noted: { readonly lists: readonly Listed[]; readonly withApps: readonly string[] },
  ) => Promise<UpstreamKind<'collection'>['names']>;
  readonly now: () => EpochSeconds;
}

export interface Member {
  /** The id of its endpoint. */
  readonly id: string;
  /** The name of its server. */
  readonly name: string;
}

/** A caller of a collection, with one request. */
export interface CollectionCaller {
  /** The owner of its sessions at the collection. */
  readonly owner: string;
  readonly admission: Admission;
  readonly target: Target;
  readonly upstream: UpstreamKind<'collection'>;
  /** Whether one of our pages makes the request, which does not count as a call of the person. */
  readonly isForPage: boolean;
  /** The request, which describes the client: the lists of members may depend on its capabilities. */
  readonly request: Message;
}

/** How a caller of the collection authenticates to a member. */
function provedTo({ admission, target }: CollectionCaller): ProvedCredential {
  const { proved } = admission;
  if (proved.type === 'member') throw new TypeError('a member of a collection is no collection');
  return { type: 'member', collection: target.name, proved };
}

/** Admits a caller of a collection to a member; `undefined` if the caller may not use the member. @throws {GatewayRefusal} `unavailable` */
export async function admittedToMember(
  { name }: Member,
  caller: CollectionCaller,
  ports: Pick<CollectionPorts, 'admit'>,
): Promise<Admission | undefined> {
  const { organization } = caller.target;
  try {
    return await ports.admit(provedTo(caller), { organization, server: name });
  } catch (error) {
    if (error instanceof GatewayRefusal && meaningOf(error) !== 'not_sent') return undefined;
    throw error;
  }
}

/** Whether the member gave the caller this task. @throws {GatewayRefusal} `unavailable` */
export async function hasTask(
  member: Member,
  taskId: string,
  caller: CollectionCaller,
  ports: Pick<CollectionPorts, 'admit' | 'mac'>,
): Promise<boolean> {
  const admission = await admittedToMember(member, caller, ports);
  if (!admission) return false;
  const { principal, endpoint } = admission;
  const seal = principalSeal(`${principal} ${endpoint.id}`, ports.mac);
  return seal.open('task', taskId) !== undefined;
}

/**
 * Sends a message to a member. Returns `undefined` if the caller may not use the member, or the subject of the message.
 *
 * @throws {GatewayRefusal} `unavailable`, with which callers learn that they can send the call again
 */
export function callMember(
  { name }: Member,
  message: Message,
  request: Pick<UpstreamRequest, 'headers' | 'message' | 'whole' | 'signal'>,
  { caller, ports }: { readonly caller: CollectionCaller; readonly ports: CollectionPorts },
): Awaitable<UpstreamAnswer | undefined> {
  const { whole, signal } = request;
  // The headers for the caller's own message have been made already.
  const headers =
    message === request.message
      ? request.headers
      : modernHeaders(message.envelope, request.headers);
  const answered = ports.answer({
    // The same id makes both one request in the audit log.
    id: whole?.requestId ?? randomUUID(),
    whole,
    method: 'POST',
    organization: caller.target.organization,
    server: name,
    headers,
    messageHeaders: headers,
    rawHeaders: [],
    proved: provedTo(caller),
    isForPage: caller.isForPage,
    readBody: () => message.body,
    message,
    gone: signal,
  });
  return whenReady(answered, memberAnswer);
}

/** @throws {GatewayRefusal} `unavailable` */
function memberAnswer(answer: GatewayAnswer): UpstreamAnswer | undefined {
  switch (answer.refused) {
    case undefined:
      return upstreamAnswer(answer);
    case 'failed':
      return { ...upstreamAnswer(answer), status: answer.errorCode === unknownMethod ? 404 : 200 };
    case 'not_sent':
      answer.sent?.();
      throw new GatewayRefusal('unavailable', { detail: wordsOf(answer) });
    case 'unknown':
    case 'no_access':
      // The member has another name for the subject, and its words would reveal that the subject exists.
      answer.sent?.();
      return undefined;
  }
}

const unknownMethod = -32_601;

function wordsOf({ body }: GatewayAnswer): string {
  const isWhole = typeof body === 'string' || body instanceof Uint8Array;
  const refused = isWhole ? readMessage(Buffer.from(body)) : undefined;
  return (refused && stringAt(refused, 'error', 'message')) ?? '';
}

function upstreamAnswer({ status, headers, body, message, sent }: GatewayAnswer): UpstreamAnswer {
  const [type = ''] = (headers['Content-Type'] ?? '').split(';');
  return {
    status,
    mediaType: type.trim().toLowerCase(),
    sessionId: undefined,
    retryAfterSeconds: Number(headers['Retry-After']) || undefined,
    body: bodyOf(body, sent),
    message,
  };
}

function bodyOf(body: GatewayAnswer['body'], sent: GatewayAnswer['sent']): UpstreamAnswer['body'] {
  if (typeof body === 'object' && !(body instanceof Uint8Array)) {
    return onEnd(body, () => sent?.());
  }
  // From here on, the memory counts for the answer of the collection.
  sent?.();
  return typeof body === 'string' ? Buffer.from(body) : (body ?? new Uint8Array());
}
