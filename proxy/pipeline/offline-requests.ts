import type { Deliver } from '#transport/upstream';
import { answerTo, modernVersion, textAt, type Message } from 'latchkey-mcp/raw-message';
import { question, type RememberedAnswers } from './cached-answers.ts';
import {
  accountRefusal,
  RefusedError,
  type Contact,
  type ContactOptions,
  type Trouble,
  UnavailableError,
} from './contact.ts';
import { listKinds, type ListKind, type ListMethod } from './list-methods.ts';
import { idOf, madeMessage } from './messages.ts';
import type { OwnTool, PersonSignIn } from './sign-in-page.ts';
import { troubled, type Waiting } from './waiting.ts';

/** The tool with which a person can end the trouble; `undefined` if no tool can. */
export function ownToolFor(
  trouble: Trouble | undefined,
  signInService: PersonSignIn | undefined,
): OwnTool | undefined {
  if (trouble?.kind === 'account') return 'connect_account';
  return trouble?.kind === 'signed_out' && signInService ? 'sign_in' : undefined;
}

/** The assistant's handshake, and what the assistant has been sent since. */
export type AssistantView = {
  initialize?: Message;
  /** The tools that the assistant was last sent: the server's, or a list with one of our own. */
  sentTools: 'none' | 'server' | OwnTool;
  /** The kinds of lists that it got from the cache. */
  fromCache: Set<ListKind>;
  /** The kinds that the substitute handshake promised, but the server does not have. */
  absent: ReadonlySet<ListKind>;
};

/** The parts that answer an assistant while its server cannot be used. */
export type OfflineParts = Pick<
  ContactOptions,
  'upstream' | 'url' | 'troubleOf' | 'signInService' | 'clock' | 'log'
> & {
  contact: Contact;
  waiting: Waiting;
  memory: RememberedAnswers;
  notifier: AssistantNotifier;
  assistantView: AssistantView;
  /** The server's name in the configuration. */
  name: string;
};

/** How long a server may take before its cached answer is used. */
const cachedAfterMs = 2_000;

/** The error code of servers whose own upstream is down. */
const serverError = '-32000';

/**
 * Answers requests for lists and `server/discover` (without a `ListMethod`). The server is tried first. If it is unreachable, fails
 * or takes too long, its last answer is used, and the assistant is notified if the list turns out to have changed.
 */
export class OfflineLists {
  readonly #parts: OfflineParts;

  constructor(parts: OfflineParts) {
    this.#parts = parts;
  }

  async respond(
    request: Message,
    method: ListMethod | undefined,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    const { contact, waiting, notifier, assistantView } = this.#parts;
    if (modernVersion(request) !== undefined) notifier.to(deliver, 'stateless');
    contact.probeWith(request);
    const list: ListRequest = {
      request,
      method,
      key: question(request, assistantView.initialize),
      deliver,
      signal,
    };
    if (method && assistantView.absent.has(method.kind)) return deliverEmpty(list, method);
    if (contact.trouble() && !(await waiting.recovered(signal))) {
      if (await this.#deliverCached(list)) return;
      await waiting.settle(signal);
      if (signal.aborted) return;
    }
    await this.#forward(list);
  }

  /** Sends the request to the server. If the server fails or takes too long, answers from the cache. */
  async #forward(list: ListRequest): Promise<void> {
    const { upstream, contact, memory, notifier, assistantView, url } = this.#parts;
    const { request, method, key, deliver, signal } = list;
    const ended = new AbortController();
    let delivered: Message | undefined;
    let substituted: Promise<boolean> | undefined;
    let refusal: Error | undefined;
    const take: Deliver = async (message) => {
      if (message.kind !== 'response') return deliver(message);
      memory.keep(key, message);
      refusal = accountRefusal(message, url);
      if (refusal && delivered) contact.note('account', refusal);
      if (refusal) return;
      if (delivered)
        return method && differs(delivered, message) ? notifier.changed([method.kind]) : undefined;
      if (isServerError(message) && (await memory.last(key))) {
        contact.note('offline', new RefusedError(message));
        substituted = this.#deliverCached(list);
        return;
      }
      delivered = message;
      if (request.method === 'tools/list') assistantView.sentTools = 'server';
      await deliver(message);
    };
    const sent = upstream.send(request, take, AbortSignal.any([signal, contact.life]));
    const slow = (async () => {
      await this.#parts.clock.sleep(cachedAfterMs, ended.signal);
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
      if (refusal) throw refusal;
    } catch (error) {
      if (!delivered && !signal.aborted) await this.#substituteFailed(list, error);
    } finally {
      ended.abort();
    }
  }

  /**
   * Answers from the cache after the server failed with `error`.
   *
   * @throws `error`, or {@link UnavailableError} if there is no cached answer
   */
  async #substituteFailed(list: ListRequest, error: unknown): Promise<void> {
    const { contact, memory, assistantView, troubleOf } = this.#parts;
    const kind = troubleOf(error);
    if (!kind || (kind === 'offline' && !(await memory.last(list.key)))) throw error;
    if (list.request.method === 'tools/list') assistantView.sentTools = 'none';
    const trouble = contact.note(kind, error);
    if (!(await this.#deliverCached(list))) throw troubled(trouble);
  }

  /** Answers from the cache. Returns whether there was an answer. */
  async #deliverCached({ request, method, key, deliver }: ListRequest): Promise<boolean> {
    const { contact, memory, assistantView, name, url, signInService } = this.#parts;
    const last = await memory.last(key);
    const { emptyList, cachedHandshake, cachedList, withOwnTool } =
      await import('./offline-answers.ts');
    const own = ownToolFor(contact.trouble(), signInService);
    if (!method) {
      const tools = signInService !== undefined || own !== undefined;
      if (last) await deliver(answerTo(idOf(request), cachedHandshake(last, { tools })));
      return last !== undefined;
    }
    if (!last && own === undefined) return false;
    const base = last ? cachedList(last) : emptyList(request, method);
    const isFirst = textAt(request, 'params', 'cursor') === undefined;
    const isTools = isFirst && request.method === 'tools/list';
    if (isTools) assistantView.sentTools = own ?? 'server';
    assistantView.fromCache.add(method.kind);
    const list = isTools && own !== undefined ? withOwnTool(base, own, { name, url }) : base;
    await deliver(answerTo(idOf(request), list));
    return true;
  }
}

/** A request for a list or `server/discover`, and the key of its cached answer. */
type ListRequest = {
  request: Message;
  method: ListMethod | undefined;
  key: string;
  deliver: Deliver;
  signal: AbortSignal;
};

async function deliverEmpty({ request, deliver }: ListRequest, method: ListMethod): Promise<void> {
  const { emptyList } = await import('./offline-answers.ts');
  await deliver(answerTo(idOf(request), emptyList(request, method)));
}

/** Whether the answer is the error of a server whose own upstream is down. */
function isServerError(answer: Message): boolean {
  return textAt(answer, 'error', 'code') === serverError;
}

function differs(one: Message, other: Message): boolean {
  return textAt(one, 'result') !== textAt(other, 'result');
}

/** Sends notifications to the assistant. */
export class AssistantNotifier {
  readonly #subscriptions = new Map<string, Deliver>();
  #era: 'session' | 'stateless' = 'session';
  #target: Deliver = () => Promise.resolve();

  /** Sets where notifications go. In the modern era (`stateless`), changes go to the subscriptions instead. */
  to(deliver: Deliver, era: 'session' | 'stateless'): void {
    this.#target = deliver;
    this.#era = era;
  }

  async deliver(message: Message): Promise<void> {
    return this.#target(message);
  }

  /** Notifies the assistant that lists of these kinds have changed. MCP 2026-07-28 subscriptions */
  async changed(kinds: Iterable<ListKind>): Promise<void> {
    for (const kind of kinds) {
      const method = `notifications/${kind}/list_changed`;
      if (this.#era === 'session') await this.deliver(madeMessage({ method }));
      else
        for (const [id, deliver] of this.#subscriptions) {
          const _meta = { 'io.modelcontextprotocol/subscriptionId': JSON.parse(id) as unknown };
          await deliver(madeMessage({ method, params: { _meta } }));
        }
    }
  }

  /** Adds a `subscriptions/listen`, whose id is the JSON text `id`, until `closed` is called. */
  subscribed(id: string, deliver: Deliver): { closed: () => void } {
    this.#subscriptions.set(id, deliver);
    return { closed: () => void this.#subscriptions.delete(id) };
  }
}

/** How long the first handshake with a server may take before a substitute is sent. */
const substituteAfterMs = 8_000;

/** The handshake with a server that may be unreachable. */
export class OfflineHandshake {
  readonly #parts: OfflineParts;
  /** The kinds of lists that a substitute promised, until the server answers. */
  #promised: ReadonlySet<ListKind> | undefined;

  constructor(parts: OfflineParts) {
    this.#parts = parts;
  }

  /** Compares the server's answer with the substitute that the assistant got. */
  compare(answer: Message): void {
    const promised = this.#promised;
    if (!promised) return;
    const has = kindsOf(answer);
    const absent = new Set([...promised].filter((kind) => !has.has(kind)));
    const additional = new Set([...has].filter((kind) => !promised.has(kind)));
    this.#parts.assistantView.absent = absent;
    if (absent.size > 0 || additional.size > 0)
      this.#parts.log.warn('server has other capabilities than in the last run', {
        absent: [...absent].join(' '),
        additional: [...additional].join(' '),
      });
    this.#promised = undefined;
  }

  /** Answers `initialize` with the server's answer, its answer from the last run, or a handshake that the proxy makes up. */
  async respond(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { contact, memory, notifier, assistantView, troubleOf } = this.#parts;
    Object.assign(assistantView, { initialize: request, sentTools: 'none', absent: new Set() });
    assistantView.fromCache.clear();
    this.#promised = undefined;
    notifier.to(deliver, 'session');
    contact.begin(request);
    const key = question(request, request);
    const { answer, error } = await this.#serverAnswer(key, signal);
    if (signal.aborted) return;
    if (answer) return deliver(answerTo(idOf(request), answer));

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
    const trouble = kind ? contact.note(kind, error) : this.#noteLate();
    const substitute = await this.#substitute(request, last, trouble);
    this.#promised = kindsOf(substitute);
    await deliver(answerTo(idOf(request), substitute));
  }

  /** The server's answer or error; neither if it takes too long. */
  async #serverAnswer(
    key: string,
    signal: AbortSignal,
  ): Promise<{ answer?: Message | undefined; error?: unknown }> {
    const ended = new AbortController();
    const timeout = this.#tooLate(key, AbortSignal.any([ended.signal, signal]));
    const outcome = await Promise.race([
      this.#parts.contact.reach().then(
        (answer) => ({ answer }),
        (error: unknown) => ({ error }),
      ),
      timeout.then(() => ({})),
    ]);
    ended.abort();
    return outcome;
  }

  /** Resolves when the assistant should not wait any longer for the handshake. */
  async #tooLate(key: string, signal: AbortSignal): Promise<void> {
    const { memory, signInService, clock } = this.#parts;
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
  #noteLate(): Trouble {
    const { contact, url, signInService, clock } = this.#parts;
    const sinceAt = clock.now();
    if (signInService?.page()) {
      const message = 'the sign-in in the browser is not finished';
      return contact.note('signed_out', new UnavailableError('signed_out', message, { sinceAt }));
    }
    const message = `${url} has not responded yet`;
    return contact.note('offline', new UnavailableError('stalled', message, { sinceAt }));
  }

  async #substitute(request: Message, last: Message | undefined, trouble: Trouble) {
    const { name, signInService } = this.#parts;
    const { cachedHandshake, instructionsFor, madeHandshake } =
      await import('./offline-answers.ts');
    const own = ownToolFor(trouble, signInService);
    if (last) return cachedHandshake(last, { tools: own !== undefined });
    return madeHandshake(request, name, instructionsFor(own, name));
  }
}

function kindsOf(handshake: Message): Set<ListKind> {
  const has = (kind: ListKind) => textAt(handshake, 'result', 'capabilities', kind) !== undefined;
  return new Set(listKinds.filter(has));
}
