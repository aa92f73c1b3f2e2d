/*
 * A collection is an MCP server in this process, of the modern era. It offers the tools, prompts and resources of its members, which it
 * calls through the gateway on behalf of the same caller. Between calls it keeps only lists.
 */
import assert from 'node:assert/strict';
import { emptyAnswer, jsonOf, streamOf } from '#gateway/adapter-messages';
import type { Admission } from '#gateway/admission';
import { discardAnswer } from '#gateway/answers';
import { type Subject, unknownSubject } from '#gateway/authorization';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { listOfKind } from '#gateway/tool-list';
import {
  messageIn,
  type Upstream,
  type UpstreamAnswer,
  UpstreamError,
  type UpstreamRequest,
} from '#gateway/upstream';
import { type Awaitable, whenReady } from '#model/awaitable';
import type { Target } from '#model/endpoints';
import type { Span } from 'latchkey-mcp/json';
import { memberIn, replaced, stringAt } from 'latchkey-mcp/json-edit';
import { errorTo, type Message, messageOf, stringAt as textAt } from 'latchkey-mcp/message';
import { rootsChanged } from 'latchkey-mcp/translation';
import { introduction } from './introduction.ts';
import {
  callMember,
  type CollectionCaller,
  type CollectionPorts,
  hasTask,
  type Member,
} from './member-calls.ts';
import { MemberLists } from './member-lists.ts';
import { isMergedList, MergedLists } from './merged-lists.ts';
import { namesOf, type ShownEntry, type ShownNames } from './shown-names.ts';
import { subscription } from './subscription.ts';

export class Collections {
  readonly #ports: CollectionPorts;
  readonly #lists: MemberLists;
  readonly #merged: MergedLists;
  #gateway: Pick<CollectionPorts, 'answer' | 'admit'> | undefined;

  constructor(ports: Omit<CollectionPorts, 'answer' | 'admit'>) {
    const gateway = () => {
      assert(this.#gateway, 'no caller comes before the gateway is open');
      return this.#gateway;
    };
    this.#ports = {
      ...ports,
      answer: (request) => gateway().answer(request),
      admit: (proved, at) => gateway().admit(proved, at),
    };
    this.#lists = new MemberLists(this.#ports);
    this.#merged = new MergedLists(this.#ports, this.#lists);
  }

  /** Members are called through this gateway from now on. */
  open(gateway: Pick<CollectionPorts, 'answer' | 'admit'>): void {
    this.#gateway = gateway;
  }

  /** The collection of a target, for one caller. Without an admission, every request fails. */
  upstreamOf(
    target: Target,
    owner: string,
    admission: Admission | undefined,
    isForPage = false,
  ): Upstream {
    const { upstream } = target;
    if (upstream.kind !== 'collection' || !admission) {
      const error = new UpstreamError('not_served', 'a collection answers callers only');
      return { send: () => Promise.reject(error) };
    }
    const caller = { owner, admission, target, upstream, isForPage };
    return {
      send: (request) => {
        const message = messageIn(request);
        if (!message) return Promise.resolve(emptyAnswer(405));
        return this.#answer(message, request, { ...caller, request: message });
      },
    };
  }

  /** The collection of a target, for a page that a person looks at. */
  ofPerson(target: Target, owner: string, userId: string): Upstream {
    const { organization, name: server } = target;
    const proved = { type: 'person', userId } as const;
    return {
      send: async (request) => {
        const admission = await this.#ports.admit(proved, { organization, server });
        return this.upstreamOf(target, owner, admission, true).send(request);
      },
    };
  }

  /**
   * A call of a known name reaches its member in the turn of the event loop in which it arrived, so both admissions share one look at the
   * database (`Gateway.together`).
   */
  async #answer(
    message: Message,
    request: UpstreamRequest,
    caller: CollectionCaller,
  ): Promise<UpstreamAnswer> {
    const { kind, method = '', id = 'null' } = message.envelope;
    // Callers of the modern era cancel by closing the stream; other notifications have no counterpart.
    if (kind === 'notification' && method === rootsChanged)
      await this.#tellAll(message, request, caller);
    if (kind !== 'request') return emptyAnswer();
    if (method === 'server/discover') return jsonOf(await introduction(id, caller, this.#lists));
    if (isMergedList(method)) {
      const cursor = textAt(message, 'params', 'cursor');
      return jsonOf(await this.#merged.page(method, caller, id, cursor));
    }
    if (method === 'subscriptions/listen') {
      const parts = { ports: this.#ports, lists: this.#lists, merged: this.#merged };
      return streamOf(subscription(message, request, caller, parts));
    }
    const routing = this.#route(message, caller);
    const routed = routing instanceof Promise ? await routing : routing;
    if (!routed) return jsonOf(errorTo(id, -32_601, 'Method not found'), 404);
    const ports = this.#ports;
    const answer = await callMember(routed.member, routed.message, request, { caller, ports });
    if (answer) return answer;
    if (!routed.subject) throw notTheirs();
    // The refusal must not differ from that of a name that no member has: not in its words, the name or the time.
    for await (const _ of this.#namesRead(routed.subject, caller));
    throw unknownSubject(routed.subject);
  }

  /** Passes a notification on to all members. A member that is away does not get it, as when it is called alone. */
  async #tellAll(
    message: Message,
    request: UpstreamRequest,
    caller: CollectionCaller,
  ): Promise<void> {
    const ports = this.#ports;
    const told = caller.upstream.members.map(async (member) => {
      const answer = await callMember(member, message, request, { caller, ports });
      if (answer) await discardAnswer(answer);
    });
    await Promise.allSettled(told);
  }

  /**
   * The member that a request is for, and the request under the member's own name; `undefined` for a method that no member gets.
   *
   * @throws {GatewayRefusal} `unknown_tool`, `unknown_prompt`, `unknown_resource`, `not_theirs`, `bad_params`
   */
  #route(message: Message, caller: CollectionCaller): Awaitable<Routed | undefined> {
    const { body, envelope } = message;
    const { method = '', name = '', uri = '', taskId, params } = envelope;
    const names = namesOf(caller.upstream);
    switch (method) {
      case 'tools/call':
      case 'prompts/get': {
        const kind = method === 'tools/call' ? 'tool' : 'prompt';
        const subject = { kind, name } as const;
        const span = () => params && memberIn(body, params, 'name');
        return whenReady(this.#found(subject, caller), (entry) =>
          underOwnName(entry, { message, subject, span }),
        );
      }
      case 'resources/read': {
        const subject = { kind: 'resource', name: uri } as const;
        const owner = names.ownerOf(uri);
        if (owner) return { member: owner, message, subject };
        return whenReady(this.#found(subject, caller), ({ member }) => ({
          member,
          message,
          subject,
        }));
      }
      case 'completion/complete': {
        const ref = params && memberIn(body, params, 'ref');
        const isPrompt = stringAt(body, ref && memberIn(body, ref, 'type')) === 'ref/prompt';
        const span = ref && memberIn(body, ref, isPrompt ? 'name' : 'uri');
        const wanted = stringAt(body, span) ?? '';
        const subject = { kind: isPrompt ? 'prompt' : 'template', name: wanted } as const;
        const owner = isPrompt ? undefined : names.ownerOf(wanted);
        const entry = names.find(subject.kind, wanted);
        if (!entry && owner) return { member: owner, message, subject };
        return whenReady(entry ?? this.#found(subject, caller), (found) =>
          underOwnName(found, { message, subject, span: () => span }),
        );
      }
    }
    if (!method.startsWith('tasks/') || taskId === undefined) return undefined;
    return this.#toKeeper(taskId, message, caller);
  }

  /** The member that gave the caller a task. @throws {GatewayRefusal} `not_theirs` */
  async #toKeeper(taskId: string, message: Message, caller: CollectionCaller): Promise<Routed> {
    for (const member of caller.upstream.members) {
      if (await hasTask(member, taskId, caller, this.#ports)) return { member, message };
    }
    throw notTheirs();
  }

  /** Finds the entry of a name. If the name is unknown, lists are read first, because the member may not have listed it yet. */
  #found(subject: Subject, caller: CollectionCaller): Awaitable<ShownEntry> {
    const known = namesOf(caller.upstream).find(subject.kind, subject.name);
    return known ?? this.#foundInLists(subject, caller);
  }

  async #foundInLists(subject: Subject, caller: CollectionCaller): Promise<ShownEntry> {
    const { kind, name } = subject;
    for await (const names of this.#namesRead(subject, caller)) {
      const found = names.find(kind, name);
      if (found) return found;
      const owner = kind === 'resource' ? names.ownerOf(name) : undefined;
      if (owner) return { member: owner, name };
    }
    throw unknownSubject(subject);
  }

  /** Reads each list that may contain a subject, and yields the names after it. Lists that were read just now are not read again. */
  async *#namesRead({ kind }: Subject, caller: CollectionCaller): AsyncGenerator<ShownNames> {
    const lists = kind === 'resource' ? (['resource', 'template'] as const) : ([kind] as const);
    for (const list of lists) {
      const names = await this.#merged.names(listOfKind[list], caller).catch(() => undefined);
      if (names) yield names;
    }
  }
}

/** A request for a member. */
interface Routed {
  readonly member: Member;
  readonly message: Message;
  /** The subject of the request, under the name that the caller uses; absent for a task. */
  readonly subject?: Subject;
}

/** The request with the member's own name, where `span` finds the shown name. All other bytes stay the same. */
function underOwnName(
  { member, name }: ShownEntry,
  {
    message,
    subject,
    span,
  }: Omit<Required<Routed>, 'member'> & { readonly span: () => Span | undefined },
): Routed {
  const shown = subject.name === name ? undefined : span();
  if (!shown) return { member, message, subject };
  const edits = [{ span: shown, text: JSON.stringify(name) }];
  return { member, message: messageOf(replaced(message.body, edits)), subject };
}

function notTheirs(): GatewayRefusal {
  return new GatewayRefusal('not_theirs', { detail: 'task' });
}
