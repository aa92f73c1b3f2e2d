import type { Clock } from '#clock/clock';
import { answerTo, modernVersion, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Deliver, Upstream } from '#transport/upstream';
import { question, type RememberedAnswers } from './cached-answers.ts';
import { RefusedError, type Contact, type Trouble } from './contact.ts';
import { idOf, madeMessage } from './messages.ts';
import type { SignInService } from './sign-in-page.ts';
import { troubled, type Waiting } from './waiting.ts';

/** What the assistant was made to believe. */
export type AssistantView = {
  initialize?: Message;
  /** What it was last told the tools are. */
  told: 'nothing' | 'tools' | 'sign_in';
  /** Lists whose contents it has from us. */
  owed: Set<ListKind>;
  /** Lists that were promised, of a server that turned out to have none. */
  lacking: ReadonlySet<ListKind>;
};

type OfflineListsOptions = {
  upstream: Upstream;
  contact: Contact;
  waiting: Waiting;
  memory: RememberedAnswers;
  announced: Announcements;
  assistantView: AssistantView;
  name: string;
  url: string;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  signInService?: SignInService;
  clock: Clock;
};

/** How long a server may think before what it said last time is taken. */
export const cachedAfterMs = 2_000;

/** What servers answer with when they are there, but what is behind them is not. */
const serverError = '-32000';

type AnswerList = (
  request: Message,
  method: ListMethod | undefined,
  deliver: Deliver,
  signal: AbortSignal,
) => Promise<void>;

/**
 * Answers what is kept from run to run but for the handshake: lists, and `server/discover` (without a
 * `method`). The server is asked first; while it is away, and when it fails or takes too long, the last
 * answer is given, and the assistant told when that has changed.
 */
export function offlineLists(options: OfflineListsOptions): AnswerList {
  const { upstream, contact, waiting, memory, announced, assistantView } = options;
  const { name, url, troubleOf, signInService, clock } = options;

  /** Asks the server; what it said last time stands in for it when it fails, or takes too long. */
  async function listAsked(
    request: Message,
    method: ListMethod | undefined,
    key: string,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    const enough = new AbortController();
    let given: Message | undefined;
    let instead: Promise<boolean> | undefined;
    const take: Deliver = async (message) => {
      if (message.kind !== 'response') return deliver(message);
      memory.keep(key, message);
      if (given)
        return method && differs(given, message) ? announced.changed([method.kind]) : undefined;
      if (isServerError(message) && (await memory.last(key))) {
        contact.note('offline', new RefusedError(message));
        instead = deliverKept(request, method, key, deliver);
        return;
      }
      given = message;
      if (request.method === 'tools/list') assistantView.told = 'tools';
      await deliver(message);
    };
    const sent = upstream.send(request, take, AbortSignal.any([signal, contact.life]));
    const slow = (async () => {
      await clock.sleep(cachedAfterMs, enough.signal);
      const last = enough.signal.aborted || given ? undefined : await memory.last(key);
      if (!last || given || enough.signal.aborted) return new Promise<never>(() => {});
      given = last;
      const { cachedList } = await import('./offline-answers.ts');
      await deliver(answerTo(idOf(request), cachedList(last)));
    })();
    sent.catch(() => undefined);
    try {
      await Promise.race([sent, slow]);
      await instead;
    } catch (error) {
      if (given || signal.aborted) return;
      const kind = troubleOf(error);
      if (!kind || (kind === 'offline' && !(await memory.last(key)))) throw error;
      if (request.method === 'tools/list') assistantView.told = 'nothing';
      const trouble = contact.note(kind, error);
      if (await deliverKept(request, method, key, deliver)) return;
      throw troubled(trouble);
    } finally {
      enough.abort();
    }
  }

  /** Whether anything could be said in the server's place. */
  async function deliverKept(
    request: Message,
    method: ListMethod | undefined,
    key: string,
    deliver: Deliver,
  ): Promise<boolean> {
    const last = await memory.last(key);
    const { emptyList, cachedHandshake, cachedList, withSignIn } =
      await import('./offline-answers.ts');
    if (!method) {
      if (last)
        await deliver(answerTo(idOf(request), cachedHandshake(last, { tools: !!signInService })));
      return last !== undefined;
    }
    const signedOut = contact.trouble()?.kind === 'signed_out' && signInService !== undefined;
    if (!last && !signedOut) return false;
    const base = last ? cachedList(last) : emptyList(request, method);
    const isFirst = textAt(request, 'params', 'cursor') === undefined;
    const offers = signedOut && isFirst && request.method === 'tools/list';
    if (request.method === 'tools/list' && isFirst)
      assistantView.told = offers ? 'sign_in' : 'tools';
    assistantView.owed.add(method.kind);
    await deliver(answerTo(idOf(request), offers ? withSignIn(base, { name, url }) : base));
    return true;
  }

  async function deliverStandIn(request: Message, method: ListMethod, deliver: Deliver) {
    const { emptyList } = await import('./offline-answers.ts');
    await deliver(answerTo(idOf(request), emptyList(request, method)));
  }

  return async function list(
    request: Message,
    method: ListMethod | undefined,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    if (modernVersion(request) !== undefined) announced.to(deliver, 'stateless');
    contact.remember(request);
    const key = question(request, assistantView.initialize);
    if (method && assistantView.lacking.has(method.kind))
      return deliverStandIn(request, method, deliver);
    if (contact.trouble() && !(await waiting.recovered(signal))) {
      if (await deliverKept(request, method, key, deliver)) return;
      await waiting.settle(signal);
      if (signal.aborted) return;
    }
    await listAsked(request, method, key, deliver, signal);
  };
}

/** Whether that is the error of a server behind which something is down. */
export function isServerError(answer: Message): boolean {
  return textAt(answer, 'error', 'code') === serverError;
}

function differs(one: Message, other: Message): boolean {
  return textAt(one, 'result') !== textAt(other, 'result');
}

/** What is said to the assistant unasked. */
export interface Announcements {
  /** From now on `deliver` takes it; an assistant of the stateless era has its subscriptions instead. */
  to(deliver: Deliver, era: 'session' | 'stateless'): void;

  say(message: Message): Promise<void>;

  changed(kinds: Iterable<ListKind>): Promise<void>;

  /** `id` is the JSON text of the id of a `subscriptions/listen` that is open until `closed` is called. */
  subscribed(id: string, deliver: Deliver): { closed: () => void };
}

export function announcements(): Announcements {
  let era: 'session' | 'stateless' = 'session';
  let take: Deliver = () => Promise.resolve();
  const subscriptions = new Map<string, Deliver>();
  const say = async (message: Message) => take(message);
  return {
    to(deliver, spoken) {
      take = deliver;
      era = spoken;
    },
    say,
    async changed(kinds) {
      for (const kind of kinds) {
        const method = `notifications/${kind}/list_changed`;
        if (era === 'session') await say(madeMessage({ method }));
        // MCP 2026-07-28 subscriptions
        else
          for (const [id, deliver] of subscriptions) {
            const _meta = { 'io.modelcontextprotocol/subscriptionId': JSON.parse(id) as unknown };
            await deliver(madeMessage({ method, params: { _meta } }));
          }
      }
    },
    subscribed(id, deliver) {
      subscriptions.set(id, deliver);
      return { closed: () => void subscriptions.delete(id) };
    },
  };
}

/** The kinds of lists whose changes a server can announce. */
export const listKinds = ['tools', 'resources', 'prompts'] as const;
export type ListKind = (typeof listKinds)[number];

/** A method that asks for a list: whose change it sees, and the member that the list stands in. */
export type ListMethod = { kind: ListKind; member: string };

const methods = new Map<string, ListMethod>([
  ['tools/list', { kind: 'tools', member: 'tools' }],
  ['resources/list', { kind: 'resources', member: 'resources' }],
  ['resources/templates/list', { kind: 'resources', member: 'resourceTemplates' }],
  ['prompts/list', { kind: 'prompts', member: 'prompts' }],
]);

export function listMethod(method: string | undefined): ListMethod | undefined {
  return method === undefined ? undefined : methods.get(method);
}
