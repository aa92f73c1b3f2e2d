/*
 * Tells listening callers that their lists changed because their rights changed, through rules, groups, selections or reviews, of
 * which the upstream knows nothing. `open-answers.ts` looks up the rights of every open stream's caller twice a second.
 */
import { type PrimitiveList, primitiveLists, type ToolRights } from '#model/tool-rights';
import type { EndSignal } from '#model/ending';
import { type Edit, memberEdits, membersIn, replaced } from 'latchkey-mcp/json-edit';
import { isError, objectAt } from 'latchkey-mcp/message';
import { messageEvent, type SseEvent } from 'latchkey-mcp/sse';
import {
  acknowledged,
  acknowledgement,
  type Changes,
  changesIn,
  filterMembers,
} from 'latchkey-mcp/subscriptions';
import { subscriptionId } from 'latchkey-mcp/translation';
import { wholeBody } from './answers.ts';
import type { Filter } from './filters.ts';
import type { UpstreamAnswer } from './upstream.ts';

/** The names that lists have in capabilities and notifications. */
const names = { tool: 'tools', prompt: 'prompts', resource: 'resources' } as const satisfies Record<
  PrimitiveList,
  string
>;

/** The state of each list that was last announced to a caller, as digests. */
export type ToldLists = Record<PrimitiveList, string>;

/** The current state of a caller's lists. */
export function toldLists(rights: ToolRights): ToldLists {
  return {
    tool: rights.listState('tool'),
    prompt: rights.listState('prompt'),
    resource: rights.listState('resource'),
  };
}

/** The lists whose changes a server announces in `initialize` or `server/discover`. */
export type ChangingLists = readonly PrimitiveList[];

/**
 * Announces `listChanged` for all lists if the caller's rights can change, because a client listens only to announced changes. All
 * other bytes stay the same. Adds nothing without `isHeard`, which tells that the caller can listen to the gateway. `announced` is
 * called with the lists whose changes the answer announces.
 *
 * MCP 2025-11-25 lifecycle; MCP 2026-07-28 server/discover
 */
export function announcedChanges(
  rights: ToolRights,
  {
    isHeard,
    announced,
  }: {
    readonly isHeard: boolean;
    readonly announced?: ((lists: ChangingLists) => void) | undefined;
  },
): Filter {
  const isAdded = isHeard && rights.dependsOnCaller;
  return (message) => {
    const { bytes, scan } = message;
    const result = scan.outcome === 'message' ? scan.envelope.result : undefined;
    const capabilities = result && membersIn(bytes, result).get('capabilities');
    if (!capabilities) return message;
    const lists: PrimitiveList[] = [];
    const edits: Edit[] = [];
    for (const [name, span] of membersIn(bytes, capabilities)) {
      const list = primitiveLists.find((one) => names[one] === name);
      if (!list || bytes[span.start] !== openBrace) continue;
      const isAnnounced = textAt(bytes, membersIn(bytes, span).get('listChanged')) === 'true';
      if (!isAnnounced && isAdded) edits.push(...memberEdits(bytes, span, { listChanged: 'true' }));
      if (isAnnounced || isAdded) lists.push(list);
    }
    announced?.(lists);
    return edits.length > 0 ? message.changed(replaced(bytes, edits)) : message;
  };
}

const openBrace = 0x7b;

function textAt(bytes: Buffer, span: { start: number; end: number } | undefined) {
  return span && bytes.toString('latin1', span.start, span.end);
}

/** The list changes that one stream announces. At most one notification for each list waits to be sent. */
export class ListChanges {
  readonly #told: ToldLists;
  readonly #meta: string | undefined;
  readonly #waiting = new Set<PrimitiveList>();
  #lists: ChangingLists;
  #rights: ToolRights;
  #wake: (() => void) | undefined;
  #isHeld = false;
  #isStarted = false;

  /**
   * `lists` are the lists whose changes the caller subscribed to. `told` are the states that were last announced; the streams of one
   * session share them. `subscription` is the id of the request that a stream of the modern era answers, as JSON text.
   */
  constructor(
    rights: ToolRights,
    {
      lists,
      told,
      subscription,
    }: {
      readonly lists: ChangingLists;
      readonly told: ToldLists;
      readonly subscription?: string | undefined;
    },
  ) {
    this.#rights = rights;
    this.#lists = lists;
    this.#told = told;
    this.#meta = subscription && `{${JSON.stringify(subscriptionId)}:${subscription}}`;
  }

  /** Whether the stream stays open although the upstream's has ended. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  hold(isHeld = true): void {
    this.#isHeld = isHeld;
  }

  /** Begins to announce changes of these lists, starting with the changes since the last announcement. */
  start(lists = this.#lists): void {
    this.#lists = lists;
    this.#isStarted = true;
    this.#compare();
  }

  /** Compares the lists that the caller sees with these rights to the states that were last announced. */
  look(rights: ToolRights): void {
    if (rights === this.#rights) return;
    this.#rights = rights;
    this.#compare();
  }

  /** The next event to send; `undefined` if there is none now. */
  take(): SseEvent | undefined {
    const [list] = this.#waiting;
    if (!list) return undefined;
    this.#waiting.delete(list);
    const params = this.#meta && `,"params":{"_meta":${this.#meta}}`;
    const data = Buffer.from(
      `{"jsonrpc":"2.0","method":"notifications/${names[list]}/list_changed"${params ?? ''}}`,
    );
    return { raw: messageEvent(data), data };
  }

  /** Calls `wake` once, when there is an event to send. */
  whenNews(wake: () => void): void {
    if (this.#waiting.size > 0) wake();
    else this.#wake = wake;
  }

  #compare(): void {
    if (!this.#isStarted) return;
    for (const list of this.#lists) {
      const state = this.#rights.listState(list);
      if (this.#told[list] === state) continue;
      this.#told[list] = state;
      this.#waiting.add(list);
    }
    if (this.#waiting.size === 0) return;
    this.#wake?.();
    this.#wake = undefined;
  }
}

/**
 * The events of an upstream's stream, with the events of `changes` between them, until the upstream's stream ends. If `changes` are
 * held, it goes on until `signal` aborts.
 */
export async function* withChanges(
  events: AsyncGenerator<SseEvent>,
  changes: ListChanges,
  signal: EndSignal,
): AsyncGenerator<SseEvent> {
  let settled:
    | { readonly next: IteratorResult<SseEvent> }
    | { readonly error: unknown }
    | undefined;
  let news = Promise.withResolvers<void>();
  const wake = () => news.resolve();
  const pull = () => {
    events
      .next()
      .then(
        (next) => (settled = { next }),
        (error: unknown) => (settled = { error }),
      )
      .finally(wake);
  };
  let isOver = false;
  signal.addEventListener('abort', wake);
  pull();
  try {
    for (;;) {
      news = Promise.withResolvers();
      const own = changes.take();
      if (own) yield own;
      else if (settled) {
        if ('error' in settled) throw settled.error;
        const { next } = settled;
        settled = undefined;
        isOver = next.done === true;
        if (!next.done) {
          yield next.value;
          pull();
        }
      } else if (isOver && (!changes.isHeld || signal.aborted)) return;
      else {
        changes.whenNews(wake);
        await news.promise;
      }
    }
  } finally {
    signal.removeEventListener('abort', wake);
    // Not awaited, because `events` may wait for the upstream until the call ends.
    void events.return(undefined).catch(() => undefined);
  }
}

/** The lists that a `subscriptions/listen` asks for. */
export function wantedLists(params: object): ChangingLists {
  const { lists } = changesIn(Object(Object(params)['notifications']));
  return primitiveLists.filter((list) => lists.includes(names[list]));
}

/**
 * Follows the subscription of a modern caller: `changes` announces the lists that the upstream accepted or, with `isOwn`, all lists that
 * the caller wants, which are then added to the acknowledgement. If the upstream accepted nothing, the stream is held open for them.
 *
 * MCP 2026-07-28 basic/patterns/subscriptions
 */
export function acknowledgedChanges(
  changes: ListChanges,
  { wanted, isOwn }: { readonly wanted: ChangingLists; readonly isOwn: boolean },
): Filter {
  return (message) => {
    const { bytes, scan } = message;
    if (scan.outcome === 'refused') return message;
    const { kind, method } = scan.envelope;
    if (kind === 'response' && changes.isHeld) {
      // The upstream has nothing more to send, but the stream stays open.
      if (!isError(bytes)) return undefined;
      changes.hold(false);
    }
    if (method !== acknowledgement) return message;
    const accepted = objectAt({ body: bytes, envelope: scan.envelope }, 'params', 'notifications');
    const honoured = changesIn(accepted);
    const isHonoured = (list: PrimitiveList) => honoured.lists.includes(names[list]);
    changes.start(wanted.filter((list) => isOwn || isHonoured(list)));
    const added = isOwn ? wanted.filter((list) => !isHonoured(list)) : [];
    if (added.length === 0) return message;
    if (isNothing(honoured)) changes.hold();
    const members = added.map((list) => [filterMembers[names[list]] ?? '', true] as const);
    const notifications = JSON.stringify({ ...accepted, ...Object.fromEntries(members) });
    const edits = memberEdits(bytes, scan.envelope.params, { notifications });
    return message.changed(replaced(bytes, edits));
  };
}

function isNothing({ lists, uris }: Changes): boolean {
  return lists.length + uris.length === 0;
}

const methodNotFound = -32601;
const maxErrorBytes = 64 * 1024;

/**
 * The answer to a `subscriptions/listen`, or, if the upstream does not know that method, an acknowledgement of nothing, to which
 * `acknowledgedChanges` adds lists. `id` is the id of the request, as JSON text.
 */
export async function listenAnswer(answer: UpstreamAnswer, id: string): Promise<UpstreamAnswer> {
  const { status, mediaType, body } = answer;
  const mayRefuse = status === 200 || status === 400 || status === 404;
  if (!mayRefuse || mediaType !== 'application/json') return answer;
  const read = await wholeBody(body, maxErrorBytes);
  const { error } = isError(read) ? Object(JSON.parse(read.toString('utf8'))) : {};
  if (Object(error)['code'] !== methodNotFound) return { ...answer, body: read };
  return ownStream(answer, messageEvent(acknowledged({ lists: [], uris: [] }, id).body));
}

/** A stream of the gateway's own in place of an answer whose body has been read. It ends immediately unless it is held. */
export function ownStream(
  answer: UpstreamAnswer,
  body: Uint8Array = new Uint8Array(),
): UpstreamAnswer {
  return { ...answer, status: 200, mediaType: 'text/event-stream', body };
}
