import { createHash } from 'node:crypto';
import { type ListMethod, listedKind, listIn } from '#gateway/tool-list';
import { responseBytes } from '#gateway/answers';
import type { Admission } from '#gateway/admission';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { UpstreamAnswer } from '#gateway/upstream';
import type { EpochSeconds } from '#model/clock';
import { isNotedName } from '#model/collection-names';
import { changedObject } from 'latchkey-mcp/json-edit';
import { type Message, messageOf, readMessage, valueAt } from 'latchkey-mcp/message';
import { type ClientDescription, clientTextsOf, metaOf } from 'latchkey-mcp/translation';
import {
  admittedToMember,
  callMember,
  type CollectionCaller,
  type CollectionPorts,
  type Member,
} from './member-calls.ts';

const timeoutMs = 10_000;
const freshSeconds = 5;
const maxPages = 100;
const maxPageBytes = 4 * 1024 * 1024;
/** For all pages of one list together. */
const maxListBytes = 16 * 1024 * 1024;
/** For all cached answers together. */
const mostKeptBytes = 128 * 1024 * 1024;
/** The memory of a cached answer besides its own bytes. Callers can cause many answers: each client that they name has its own. */
const bytesOfEntry = 2048;
const unknownMethod = -32_601;

export interface ListEntry {
  /** The member's own name; of a resource its URI, of a template its text. */
  readonly name: string;
  /** A JSON object, as the member wrote it. */
  readonly bytes: Buffer;
}

/** The list of a member for one caller, or its answer to `server/discover`. */
export interface KeptAnswer {
  readonly entries: readonly ListEntry[];
  /** The answer to `server/discover`. */
  readonly response?: Message;
  readonly bytes: number;
  readonly readAt: EpochSeconds;
  /** In milliseconds, as the member says. */
  readonly ttlMs: number;
}

/** The state of a member's answer. */
export type MemberAnswer =
  | { readonly outcome: 'read'; readonly answer: KeptAnswer }
  /** The member is away; this is its last answer. */
  | { readonly outcome: 'stale'; readonly answer: KeptAnswer }
  /** The answer was never read. */
  | { readonly outcome: 'away' }
  /** The caller may not use the member. */
  | { readonly outcome: 'closed' };

/** A list that is being read. */
interface Reading extends Pick<Admission, 'endpoint' | 'rights'> {
  readonly answer: Promise<KeptAnswer>;
}

/** While the endpoint and the rights are the same objects, the caller's rights are unchanged. */
interface Kept extends Pick<Admission, 'endpoint' | 'rights'> {
  readonly answer: KeptAnswer;
  checkedAt: EpochSeconds;
}

/**
 * Reads the lists of members, and keeps them for each caller. They may depend on the caller's rights, account or key at the member, so
 * they never serve another caller.
 */
export class MemberLists {
  readonly #ports: CollectionPorts;
  readonly #kept = new Map<string, Kept>();
  readonly #reading = new Map<string, Reading>();
  readonly #maxKeptBytes: number;
  #keptBytes = 0;

  constructor(ports: CollectionPorts, maxKeptBytes = mostKeptBytes) {
    this.#ports = ports;
    this.#maxKeptBytes = maxKeptBytes;
  }

  /** Reads a list of a member, or `server/discover`; an answer that was read just now is not read again. */
  async read(
    method: ListMethod | 'server/discover',
    member: Member,
    caller: CollectionCaller,
  ): Promise<MemberAnswer> {
    const admission = await admittedToMember(member, caller, this.#ports);
    if (!admission) return { outcome: 'closed' };
    const key = keyOf(method, member, caller);
    const kept = this.#kept.get(key);
    const { endpoint, rights } = admission;
    const isSame = kept?.endpoint === endpoint && kept.rights === rights;
    if (kept && isSame && kept.checkedAt + freshSeconds > this.#ports.now()) {
      const isStale = kept.checkedAt !== kept.answer.readAt;
      return { outcome: isStale ? 'stale' : 'read', answer: kept.answer };
    }
    try {
      const answer = await this.#readOnce(key, admission, () =>
        this.#readAll(method, member, caller),
      );
      this.#keep(key, { answer, endpoint, rights, checkedAt: answer.readAt });
      return { outcome: 'read', answer };
    } catch {
      if (!kept) return { outcome: 'away' };
      // Leaves out what the caller may no longer use. The member is not asked again immediately.
      const answer =
        method === 'server/discover' ? kept.answer : allowed(kept.answer, method, rights);
      this.#keep(key, { answer, endpoint, rights, checkedAt: this.#ports.now() + 1 });
      return { outcome: 'stale', answer };
    }
  }

  /** Makes the caller's next `read` ask the member again. */
  forget(method: ListMethod, member: Member, caller: CollectionCaller): void {
    const kept = this.#kept.get(keyOf(method, member, caller));
    if (kept) kept.checkedAt = 0;
  }

  /** Shares one reading among simultaneous requests of a caller, unless the caller's rights have changed since it began. */
  #readOnce(
    key: string,
    { endpoint, rights }: Pick<Admission, 'endpoint' | 'rights'>,
    read: () => Promise<KeptAnswer>,
  ): Promise<KeptAnswer> {
    const known = this.#reading.get(key);
    if (known?.endpoint === endpoint && known.rights === rights) return known.answer;
    const answer = read().finally(() => {
      if (this.#reading.get(key) === reading) this.#reading.delete(key);
    });
    const reading = { answer, endpoint, rights };
    this.#reading.set(key, reading);
    return answer;
  }

  async #readAll(
    method: ListMethod | 'server/discover',
    member: Member,
    caller: CollectionCaller,
  ): Promise<KeptAnswer> {
    const signal = AbortSignal.timeout(timeoutMs);
    const entries: ListEntry[] = [];
    let [bytes, ttlMs] = [0, Infinity];
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page += 1) {
      const asked = requestOf(method, page, cursor, caller);
      const sent = { headers: {}, signal };
      const answer = await callMember(member, asked, sent, { caller, ports: this.#ports });
      const response = await responseIn(answer);
      const readAt = this.#ports.now();
      if (!response) return { entries: [], bytes: 0, readAt, ttlMs: 0 };
      bytes += response.body.length;
      if (method === 'server/discover') return { entries, response, bytes, readAt, ttlMs: 0 };
      const list = listIn(response.body, method);
      for (const { name, span } of list?.entries ?? []) {
        if (!isNotedName(listedKind(method), name)) continue;
        entries.push({ name, bytes: response.body.subarray(span.start, span.end) });
      }
      const said = valueAt(response, 'result', 'ttlMs');
      ttlMs = Math.min(ttlMs, typeof said === 'number' && said >= 0 && said < Infinity ? said : 0);
      cursor = list?.nextCursor;
      if (cursor === undefined) return { entries, bytes, readAt, ttlMs };
      if (bytes > maxListBytes) break;
    }
    throw new GatewayRefusal('unreadable_list', {
      detail: `the list of ${member.name} is too long`,
    });
  }

  #keep(key: string, kept: Kept): void {
    this.#drop(key);
    this.#kept.set(key, kept);
    this.#keptBytes += kept.answer.bytes + bytesOfEntry;
    for (const oldest of this.#kept.keys()) {
      if (this.#keptBytes <= this.#maxKeptBytes) return;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    if (!kept) return;
    this.#keptBytes -= kept.answer.bytes + bytesOfEntry;
    this.#kept.delete(key);
  }
}

function allowed(answer: KeptAnswer, method: ListMethod, rights: Admission['rights']): KeptAnswer {
  const kind = listedKind(method);
  const entries = answer.entries.filter(({ name }) => rights.lists(kind, name));
  return entries.length === answer.entries.length ? answer : { ...answer, entries };
}

/** The caller's client, because members may offer less to clients with fewer capabilities. */
function clientOf({ request }: CollectionCaller): ClientDescription {
  const { capabilities, clientInfo } = clientTextsOf(request);
  return { capabilities: capabilities ?? '{}', clientInfo, logLevel: undefined };
}

/** A digest of the client that each request describes, made once for all members. */
const clientDigests = new WeakMap<Message, string>();

function keyOf(method: string, { id }: Member, caller: CollectionCaller): string {
  let client = clientDigests.get(caller.request);
  if (client === undefined) {
    const { capabilities, clientInfo } = clientOf(caller);
    const texts = JSON.stringify([capabilities, clientInfo]);
    client = createHash('sha256').update(texts).digest('base64url');
    clientDigests.set(caller.request, client);
  }
  return `${method} ${id} ${caller.owner} ${client}`;
}

function requestOf(
  method: string,
  page: number,
  cursor: string | undefined,
  caller: CollectionCaller,
): Message {
  const meta = changedObject(Buffer.alloc(0), undefined, metaOf(clientOf(caller)));
  const at = cursor === undefined ? '' : `,"cursor":${JSON.stringify(cursor)}`;
  return messageOf(
    `{"jsonrpc":"2.0","id":"list-${page}","method":"${method}","params":{"_meta":${meta}${at}}}`,
  );
}

/** The response in an answer; `undefined` if the member does not know the method. @throws {GatewayRefusal} */
async function responseIn(answer: UpstreamAnswer | undefined): Promise<Message | undefined> {
  if (!answer) throw new GatewayRefusal('bad_credential');
  const response = readMessage(await responseBytes(answer, maxPageBytes));
  if (response?.envelope.kind !== 'response') throw new GatewayRefusal('upstream_unreadable');
  if (response.envelope.result) return response;
  if (valueAt(response, 'error', 'code') === unknownMethod) return undefined;
  throw new GatewayRefusal('upstream_failed');
}
