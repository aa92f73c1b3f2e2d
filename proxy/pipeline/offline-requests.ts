import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import { answerTo, modernVersion, textAt, type Message } from 'latchkey-mcp/raw-message';
import { question, type RememberedAnswers } from './cached-answers.ts';
import { RefusedError, type Contact, type Trouble, UnavailableError } from './contact.ts';
import { listKinds, type ListKind, type ListMethod } from './list-methods.ts';
import { idOf, madeMessage } from './messages.ts';
import type { PersonSignIn } from './sign-in-page.ts';
import { troubled, type Waiting } from './waiting.ts';

/** What the assistant has been sent so far. */
export type AssistantView = {
  initialize?: Message;
  /** The tools that it was last sent: the server's, or only the one to sign in. */
  sentTools: 'none' | 'server' | 'sign_in';
  /** The kinds of lists that it got from the cache. */
  fromCache: Set<ListKind>;
  /** The kinds that the substitute handshake promised, but the server does not have. */
  absent: ReadonlySet<ListKind>;
};

type OfflineListsOptions = {
  upstream: Upstream;
  contact: Contact;
  waiting: Waiting;
  memory: RememberedAnswers;
  notifier: AssistantNotifier;
  assistantView: AssistantView;
  name: string;
  url: string;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  signInService?: PersonSignIn;
  clock: Clock;
};

/** How long a server may take before its cached answer is used. */
export const cachedAfterMs = 2_000;

/** The error code of servers whose own upstream is down. */
const serverError = '-32000';

type AnswerList = (
  request: Message,
  method: ListMethod | undefined,
  deliver: Deliver,
  signal: AbortSignal,
) => Promise<void>;

/**
 * Answers lists and `server/discover` (then without a `method`). The server is tried first. If it is unreachable, fails or takes
 * too long, its last answer is used, and the assistant is notified if that turns out to have changed.
 */
export function offlineLists(options: OfflineListsOptions): AnswerList {
  const { upstream, contact, waiting, memory, notifier, assistantView } = options;
  const { name, url, troubleOf, signInService, clock } = options;

  /** Sends the request to the server, and uses its last answer if it fails or takes too long. */
  async function forward(
    request: Message,
    method: ListMethod | undefined,
    key: string,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    const ended = new AbortController();
    let delivered: Message | undefined;
    let substituted: Promise<boolean> | undefined;
    const take: Deliver = async (message) => {
      if (message.kind !== 'response') return deliver(message);
      memory.keep(key, message);
      if (delivered)
        return method && differs(delivered, message) ? notifier.changed([method.kind]) : undefined;
      if (isServerError(message) && (await memory.last(key))) {
        contact.note('offline', new RefusedError(message));
        substituted = deliverCached(request, method, key, deliver);
        return;
      }
      delivered = message;
      if (request.method === 'tools/list') assistantView.sentTools = 'server';
      await deliver(message);
    };
    const sent = upstream.send(request, take, AbortSignal.any([signal, contact.life]));
    const slow = (async () => {
      await clock.sleep(cachedAfterMs, ended.signal);
      const last = ended.signal.aborted || delivered ? undefined : await memory.last(key);
      if (!last || delivered || ended.signal.aborted) return new Promise<never>(() => {});
      delivered = last;
      const { cachedList } = await import('./offline-answers.ts');
      await deliver(answerTo(idOf(request), cachedList(last)));
    })();
    sent.catch(() => undefined);
    try {
      await Promise.race([sent, slow]);
      await substituted;
    } catch (error) {
      if (delivered || signal.aborted) return;
      const kind = troubleOf(error);
      if (!kind || (kind === 'offline' && !(await memory.last(key)))) throw error;
      if (request.method === 'tools/list') assistantView.sentTools = 'none';
      const trouble = contact.note(kind, error);
      if (await deliverCached(request, method, key, deliver)) return;
      throw troubled(trouble);
    } finally {
      ended.abort();
    }
  }

  /** Answers from the cache. Returns whether there was an answer. */
  async function deliverCached(
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
      assistantView.sentTools = offers ? 'sign_in' : 'server';
    assistantView.fromCache.add(method.kind);
    await deliver(answerTo(idOf(request), offers ? withSignIn(base, { name, url }) : base));
    return true;
  }

  async function deliverEmpty(request: Message, method: ListMethod, deliver: Deliver) {
    const { emptyList } = await import('./offline-answers.ts');
    await deliver(answerTo(idOf(request), emptyList(request, method)));
  }

  return async function list(
    request: Message,
    method: ListMethod | undefined,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    if (modernVersion(request) !== undefined) notifier.to(deliver, 'stateless');
    contact.probeWith(request);
    const key = question(request, assistantView.initialize);
    if (method && assistantView.absent.has(method.kind))
      return deliverEmpty(request, method, deliver);
    if (contact.trouble() && !(await waiting.recovered(signal))) {
      if (await deliverCached(request, method, key, deliver)) return;
      await waiting.settle(signal);
      if (signal.aborted) return;
    }
    await forward(request, method, key, deliver, signal);
  };
}

/** Whether the answer is the error of a server whose own upstream is down. */
export function isServerError(answer: Message): boolean {
  return textAt(answer, 'error', 'code') === serverError;
}

function differs(one: Message, other: Message): boolean {
  return textAt(one, 'result') !== textAt(other, 'result');
}

/** Sends notifications to the assistant. */
export interface AssistantNotifier {
  /** Sets where notifications go. In the modern era (`stateless`), changes go to the subscriptions instead. */
  to(deliver: Deliver, era: 'session' | 'stateless'): void;

  deliver(message: Message): Promise<void>;

  /** Notifies the assistant that lists of these kinds have changed. */
  changed(kinds: Iterable<ListKind>): Promise<void>;

  /** Adds a `subscriptions/listen`, whose id is the JSON text `id`, until `closed` is called. */
  subscribed(id: string, deliver: Deliver): { closed: () => void };
}

export function assistantNotifier(): AssistantNotifier {
  let era: 'session' | 'stateless' = 'session';
  let target: Deliver = () => Promise.resolve();
  const subscriptions = new Map<string, Deliver>();
  const notify = async (message: Message) => target(message);
  return {
    to(deliver, current) {
      target = deliver;
      era = current;
    },
    deliver: notify,
    async changed(kinds) {
      for (const kind of kinds) {
        const method = `notifications/${kind}/list_changed`;
        if (era === 'session') await notify(madeMessage({ method }));
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

type OfflineHandshakeOptions = {
  contact: Contact;
  memory: RememberedAnswers;
  notifier: AssistantNotifier;
  assistantView: AssistantView;
  name: string;
  url: string;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  signInService?: PersonSignIn;
  clock: Clock;
  log: Log;
};

/** The handshake with a server that may be unreachable. */
interface OfflineHandshake {
  /** Answers `initialize`: with the server's answer, that of the last run, or a substitute of ours. */
  respond(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void>;

  /** Compares the server's answer with the substitute that the assistant got. */
  compare(answer: Message): void;
}

/** How long the first handshake with a server may take before a substitute is sent. */
const substituteAfterMs = 8_000;

export function offlineHandshake(options: OfflineHandshakeOptions): OfflineHandshake {
  const {
    contact,
    memory,
    notifier,
    assistantView,
    name,
    url,
    troubleOf,
    signInService,
    clock,
    log,
  } = options;
  let promised: ReadonlySet<ListKind> | undefined;

  function compare(answer: Message): void {
    if (!promised) return;
    const before = promised;
    const has = kindsOf(answer);
    const absent = new Set([...before].filter((kind) => !has.has(kind)));
    const additional = new Set([...has].filter((kind) => !before.has(kind)));
    assistantView.absent = absent;
    if (absent.size > 0 || additional.size > 0)
      log.warn('server has other capabilities than in the last run', {
        absent: [...absent].join(' '),
        additional: [...additional].join(' '),
      });
    promised = undefined;
  }

  async function respond(request: Message, deliver: Deliver, signal: AbortSignal) {
    Object.assign(assistantView, { initialize: request, sentTools: 'none', absent: new Set() });
    assistantView.fromCache.clear();
    promised = undefined;
    notifier.to(deliver, 'session');
    contact.begin(request);
    const key = question(request, request);
    const ended = new AbortController();
    const timeout = tooLate(key, AbortSignal.any([ended.signal, signal]));
    const outcome = await Promise.race([
      contact.reach().then(
        (received) => ({ answer: received, error: undefined }),
        (error: unknown) => ({ answer: undefined, error }),
      ),
      timeout.then(() => ({ answer: undefined, error: undefined })),
    ]);
    ended.abort();
    if (signal.aborted) return;
    if (outcome.answer) return deliver(answerTo(idOf(request), outcome.answer));

    const { error } = outcome;
    const last = await memory.last(key);
    if (error instanceof RefusedError && !(last && isServerError(error.answer))) {
      contact.end();
      return deliver(answerTo(idOf(request), error.answer));
    }
    const kind = error instanceof RefusedError ? 'offline' : troubleOf(error);
    if (error !== undefined && kind === undefined) {
      contact.end();
      throw error;
    }
    const trouble = kind ? contact.note(kind, error) : noteLate();
    const offlineAnswers = await import('./offline-answers.ts');
    const signedOut = trouble.kind === 'signed_out' && signInService !== undefined;
    const substitute = last
      ? offlineAnswers.cachedHandshake(last, { tools: signedOut })
      : offlineAnswers.madeHandshake(request, name, instructions(signedOut));
    promised = kindsOf(substitute);
    await deliver(answerTo(idOf(request), substitute));
  }

  /** Resolves when the assistant should not wait any longer for the handshake. */
  async function tooLate(key: string, signal: AbortSignal): Promise<void> {
    const shown =
      signInService && !signInService.waits
        ? signInService.shown(signal)
        : new Promise<void>(() => {});
    const long = async () => {
      await clock.sleep(cachedAfterMs, signal);
      const last = signal.aborted ? undefined : await memory.last(key);
      if (!last && !signInService?.waits)
        return clock.sleep(substituteAfterMs - cachedAfterMs, signal);
      // With `--sign-in always`, requests wait for the person, so no substitute is sent.
      if (signInService?.waits && (!last || signInService.page()))
        return new Promise<void>(() => {});
    };
    return Promise.race([shown, long()]);
  }

  /** Records why the handshake takes too long: a person is signing in, or the server is slow. */
  function noteLate(): Trouble {
    const sinceAt = clock.now();
    if (signInService?.page()) {
      const message = 'the sign-in in the browser is not finished';
      return contact.note('signed_out', new UnavailableError('signed_out', message, { sinceAt }));
    }
    const message = `${url} has not responded yet`;
    return contact.note('offline', new UnavailableError('stalled', message, { sinceAt }));
  }

  function instructions(signedOut: boolean): string {
    return signedOut
      ? `The user is not signed in to ${name} yet. Call the tool sign_in so that they can sign in; the server's own tools appear afterwards.`
      : `${name} cannot be reached at the moment. The connection is retried automatically, and the tools appear when it succeeds.`;
  }

  return { respond, compare };
}

function kindsOf(handshake: Message): Set<ListKind> {
  const has = (kind: ListKind) => textAt(handshake, 'result', 'capabilities', kind) !== undefined;
  return new Set(listKinds.filter(has));
}
