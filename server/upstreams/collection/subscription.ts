import { setTimeout as delay } from 'node:timers/promises';

import { discardAnswer } from '#gateway/answers';
import { Inbox, messagesOf } from '#gateway/adapter-messages';
import { backOffs, pauseMs } from '#model/back-off';
import type { UpstreamRequest } from '#gateway/upstream';
import { memberIn, withMembers } from 'latchkey-mcp/json-edit';
import { type Message, messageOf, objectAt, stringAt, valueAt } from 'latchkey-mcp/message';
import {
  acknowledged,
  acknowledgement,
  type Changes,
  changesIn,
  filterOf,
  subscriptionEnd,
} from 'latchkey-mcp/subscriptions';
import { clientTextsOf, legacyTasks, taskStatus } from 'latchkey-mcp/translation';
import { allows, type ToolRights } from '#model/tool-rights';
import {
  admittedToMember,
  callMember,
  type CollectionCaller,
  type CollectionPorts,
  type Member,
} from './member-calls.ts';
import type { MemberLists } from './member-lists.ts';
import { listChanged, type MergedLists, type MergedMethod } from './merged-lists.ts';
import { namesOf, type ShownNames } from './shown-names.ts';

/** The lists that a change of each kind is about. */
const listsOf: Readonly<Record<string, readonly MergedMethod[]>> = {
  tools: ['tools/list'],
  prompts: ['prompts/list'],
  resources: ['resources/list', 'resources/templates/list'],
};

export interface SubscriptionPorts {
  readonly ports: CollectionPorts;
  readonly lists: MemberLists;
  readonly merged: MergedLists;
}

/**
 * The messages of a subscription to a collection: those of the members, under the caller's own id. A change of a list is announced only if
 * the merged list differs from what it was. A request with a log level also gets log messages, and a legacy caller the news of its tasks.
 * When the stream of a member ends, it is opened again after growing pauses.
 *
 * MCP 2026-07-28 basic/patterns/subscriptions
 */
export async function* subscription(
  message: Message,
  request: Pick<UpstreamRequest, 'headers' | 'signal'>,
  caller: CollectionCaller,
  parts: SubscriptionPorts,
): AsyncGenerator<Message> {
  const { id = 'null' } = message.envelope;
  const wanted = changesIn(objectAt(message, 'params', 'notifications'));
  const names = await namesFor(wanted.uris, caller, parts);
  const owned = await readable(wanted.uris, names, { caller, ports: parts.ports });
  const honoured = { lists: wanted.lists, uris: owned };
  const ending = new AbortController();
  const end = () => ending.abort();
  request.signal.addEventListener('abort', end, { once: true });
  if (request.signal.aborted) end();
  const inbox = new Inbox();
  ending.signal.addEventListener('abort', () => inbox.end(), { once: true });
  const isLogged = clientTextsOf(message).logLevel !== undefined;
  const hearsTasks = valueAt(message, 'params', '_meta', legacyTasks) === true;
  const told = new ToldChanges(wanted, id, caller, { ...parts, inbox });
  const followed = new Map<string, AbortController>();
  const followAll = (current: CollectionCaller) => {
    const { members } = current.upstream;
    for (const [memberId, gone] of followed) {
      if (members.some((member) => member.id === memberId)) continue;
      gone.abort();
      followed.delete(memberId);
    }
    for (const member of members.filter((one) => !followed.has(one.id))) {
      const gone = new AbortController();
      followed.set(member.id, gone);
      const uris = owned.filter((uri) => names.ownerOf(uri)?.id === member.id);
      if (wanted.lists.length + uris.length === 0 && !isLogged && !hearsTasks) continue;
      const signal = AbortSignal.any([ending.signal, gone.signal]);
      const of = { member, changes: { lists: wanted.lists, uris }, names, hearsTasks };
      const asked = { headers: request.headers, signal };
      void follow(of, message, asked, { caller, parts, inbox, told });
    }
  };
  try {
    // The lists are noted before the subscription is acknowledged, but a slow member must not delay that for long.
    const noted = told.begin().then(() => true);
    const late = pause(longestNoteMs, ending.signal).then(() => false);
    let isNoted = await Promise.race([noted, late]);
    yield acknowledged(honoured, id);
    followAll(caller);
    void watchMembers(caller, parts.ports, ending.signal, (current) => {
      followAll(current);
      void told.configured(current, { isToTell: !isNoted });
      isNoted = true;
    });
    for (let next = await inbox.next(); next; next = await inbox.next()) yield next;
    yield subscriptionEnd(id);
  } finally {
    request.signal.removeEventListener('abort', end);
    ending.abort();
  }
}

interface Following {
  readonly caller: CollectionCaller;
  readonly parts: SubscriptionPorts;
  readonly inbox: Inbox;
  readonly told: ToldChanges;
}

interface Followed {
  readonly member: Member;
  readonly changes: Changes;
  readonly names: ShownNames;
  /** Whether the caller is of the legacy era and knows tasks. Other callers would not understand notifications about tasks. */
  readonly hearsTasks: boolean;
}

/** Follows the stream of one member until the subscription ends. Never rejects. */
async function follow(
  { member, changes, names, hearsTasks }: Followed,
  message: Message,
  request: { readonly headers: UpstreamRequest['headers']; readonly signal: AbortSignal },
  { caller, parts, inbox, told }: Following,
): Promise<void> {
  const { signal } = request;
  // A member must not report updates of another member's resource, to which the caller may have subscribed.
  const isTheirs = (news: Message) => {
    const uri = stringAt(news, 'params', 'uri');
    return uri === undefined || (names.ownerOf(uri)?.id ?? member.id) === member.id;
  };
  let failures = 0;
  while (!signal.aborted) {
    try {
      // A member refuses the whole request if the caller may no longer read one of the URIs.
      const uris = await readable(changes.uris, names, { caller, ports: parts.ports });
      const asked = withFilter(message, { lists: changes.lists, uris });
      const answer = await callMember(member, asked, request, { caller, ports: parts.ports });
      if (answer?.mediaType !== 'text/event-stream') await (answer && discardAnswer(answer));
      else {
        for await (const news of messagesOf(answer)) {
          const { kind, method = '' } = news.envelope;
          if (kind === 'response') break;
          if (method === acknowledgement) {
            // The list may have changed while the stream was closed.
            if (failures > 0) for (const list of changes.lists) void told.changed(list, member);
            failures = 0;
            continue;
          }
          const list = /^notifications\/(\w+)\/list_changed$/.exec(method)?.[1];
          if (list !== undefined) void told.changed(list, member);
          else if (kind === 'notification' && isTheirs(news) && (hearsTasks || !isOfTask(method)))
            inbox.push(news, undefined, { isLog: method === 'notifications/message' });
        }
      }
    } catch {
      // The member is away.
    }
    failures += 1;
    await pause(pauseMs(backOffs.upstreamStream, failures, Math.random), signal);
  }
}

const configurationMs = 3000;
const longestNoteMs = 1000;

/**
 * Calls `changed` when an administrator has changed the members or the names of the collection, or new names were noted, until the
 * signal aborts. Never rejects.
 */
async function watchMembers(
  caller: CollectionCaller,
  { admit }: Pick<CollectionPorts, 'admit'>,
  signal: AbortSignal,
  changed: (current: CollectionCaller) => void,
): Promise<void> {
  let { upstream } = caller;
  while (!signal.aborted) {
    await pause(configurationMs, signal);
    try {
      const current = await asItIsNow(caller, admit);
      if (current.upstream === upstream) continue;
      upstream = current.upstream;
      changed(current);
    } catch {
      // Whether the caller may go on listening is checked elsewhere.
    }
  }
}

/**
 * The names that tell which member owns each URI. A session of the legacy era subscribes with the collection as it was when the session
 * began to listen, and URIs of templates that no one has listed are known only after the lists were read.
 */
async function namesFor(
  uris: readonly string[],
  caller: CollectionCaller,
  { ports, merged }: SubscriptionPorts,
): Promise<ShownNames> {
  if (uris.length === 0) return namesOf(caller.upstream);
  const current = await asItIsNow(caller, ports.admit);
  let names = namesOf(current.upstream);
  for (const method of listsOf['resources'] ?? []) {
    if (uris.every((uri) => names.ownerOf(uri) !== undefined)) break;
    names = await merged.names(method, current);
  }
  return names;
}

/**
 * The URIs that some member has and that the caller may read there. The result does not reveal which of the others exist.
 *
 * @throws {GatewayRefusal} `unavailable`
 */
async function readable(
  uris: readonly string[],
  names: ShownNames,
  { caller, ports }: Pick<Following, 'caller'> & { readonly ports: CollectionPorts },
): Promise<readonly string[]> {
  const rights = new Map<string, ToolRights | undefined>();
  const found: string[] = [];
  for (const uri of uris) {
    const owner = names.ownerOf(uri);
    if (!owner) continue;
    if (!rights.has(owner.id)) {
      rights.set(owner.id, (await admittedToMember(owner, caller, ports))?.rights);
    }
    const verdict = rights.get(owner.id)?.verdict('resource', uri);
    if (verdict !== undefined && allows(verdict)) found.push(uri);
  }
  return found;
}

/** The caller with the collection as an administrator has configured it now. @throws {GatewayRefusal} */
async function asItIsNow(
  caller: CollectionCaller,
  admit: CollectionPorts['admit'],
): Promise<CollectionCaller> {
  const { organization, name: server } = caller.target;
  const admission = await admit(caller.admission.proved, { organization, server });
  const { target } = admission.endpoint;
  const { upstream } = target;
  return upstream.kind === 'collection' ? { ...caller, admission, target, upstream } : caller;
}

/** Waits, at most until the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal }).catch(() => undefined);
}

/** Whether notifications of a method are about tasks of the legacy era; those about requests do not come on this stream. */
function isOfTask(method: string): boolean {
  return method === taskStatus || method === 'notifications/progress';
}

/** The request for a member's stream: the caller's bytes, with another filter and without the `_meta` that only a collection understands. */
function withFilter({ body, envelope }: Message, changes: Changes): Message {
  const params = memberIn(body, envelope.root, 'params');
  const _meta = withMembers(body, envelope.meta, { [legacyTasks]: undefined });
  const notifications = JSON.stringify(filterOf(changes));
  const changed = withMembers(body, params, { notifications, _meta });
  return messageOf(withMembers(body, envelope.root, { params: changed }));
}

/** Announces to a caller the lists that have changed since the last announcement. */
class ToldChanges {
  readonly #wanted: Changes;
  readonly #id: string;
  readonly #parts: SubscriptionPorts & { readonly inbox: Inbox };
  readonly #digests = new Map<MergedMethod, string>();
  #caller: CollectionCaller;
  /** Changes are compared one after the other. */
  #comparing: Promise<void> = Promise.resolve();

  constructor(
    wanted: Changes,
    id: string,
    caller: CollectionCaller,
    parts: SubscriptionPorts & { readonly inbox: Inbox },
  ) {
    this.#wanted = wanted;
    this.#id = id;
    this.#caller = caller;
    this.#parts = parts;
  }

  /** Notes the current lists. */
  begin(): Promise<void> {
    return this.#afterOthers(async () => {
      for (const list of this.#wanted.lists) await this.#differs(list);
    });
  }

  /** A member says that a list of its own changed, or may have changed. */
  changed(list: string, member: Member): Promise<void> {
    if (!this.#wanted.lists.includes(list)) return Promise.resolve();
    return this.#afterOthers(async () => {
      for (const method of listsOf[list] ?? []) {
        this.#parts.lists.forget(method, member, this.#caller);
      }
      await this.#compare(list);
    });
  }

  /**
   * The configuration of the collection has changed.
   *
   * @param isToTell whether to announce the lists even if they equal the noted ones, because they were noted too late
   */
  configured(
    caller: CollectionCaller,
    { isToTell }: { readonly isToTell: boolean },
  ): Promise<void> {
    return this.#afterOthers(async () => {
      this.#caller = caller;
      for (const list of this.#wanted.lists) {
        const differs = await this.#differs(list);
        if (differs || isToTell) this.#tell(list);
      }
    });
  }

  async #compare(list: string): Promise<void> {
    if (await this.#differs(list)) this.#tell(list);
  }

  #tell(list: string): void {
    this.#parts.inbox.push(listChanged(list, this.#id), list);
  }

  async #differs(list: string): Promise<boolean> {
    let differs = false;
    for (const method of listsOf[list] ?? []) {
      const { digest } = await this.#parts.merged.read(method, this.#caller);
      differs ||= this.#digests.get(method) !== digest;
      this.#digests.set(method, digest);
    }
    return differs;
  }

  #afterOthers(act: () => Promise<void>): Promise<void> {
    // A list that cannot be read now is compared when its member is back.
    this.#comparing = this.#comparing.then(act).catch(() => undefined);
    return this.#comparing;
  }
}
