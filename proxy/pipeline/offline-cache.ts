import type { Clock } from '#clock/clock';
import { listKinds, listMethod } from './list-methods.ts';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import { modernVersion, type Message, answerTo, stringAt, textAt } from 'latchkey-mcp/raw-message';
import { type CachedAnswers, question, rememberedAnswers } from './cached-answers.ts';
import { contact as contactWith, type Contact, type Presence, type Trouble } from './contact.ts';
import { idOf, madeMessage } from './messages.ts';
import type { ToolSubject } from './offline-answers.ts';
import {
  offlineHandshake,
  assistantNotifier,
  offlineLists,
  type AssistantView,
} from './offline-requests.ts';
import type { Step } from './step.ts';
import type { SignInPage } from '#auth/sign-in-service';
import { elicitedPages, type PersonSignIn, type ElicitedPages } from './sign-in-page.ts';
import { waitingFor, troubled, type Waiting } from './waiting.ts';

type OfflineCacheOptions = {
  answers: CachedAnswers;
  /** The server's name in the configuration, and its URL. */
  name: string;
  url: string;
  /** The trouble that an error means; `undefined` if the server is not the cause. */
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  /** A failure in words, with its remedy. */
  explain: (error: unknown) => string;
  /** How a person signs in, where the connection requires it. */
  signInService?: PersonSignIn;
  presence?: Presence;
  clock: Clock;
  log: Log;
  random?: () => number;
};

/** The step, and what other programs of this user may request of it. */
export type OfflineCache = Step & {
  /** A person may have signed in with another process. */
  signedInElsewhere: () => Promise<void>;

  /** Tries the server immediately. */
  tryNow: () => void;
};

/**
 * Answers in place of a server that cannot be used: with its handshake and lists of the last run. Meanwhile the server is
 * tried until it can be used again, and then the assistant is notified that lists may have changed. If a person has to sign in,
 * the list of tools contains one that starts the sign-in.
 */
export function offlineCache(options: OfflineCacheOptions): OfflineCache {
  const { signInService } = options;
  let contact: Contact | undefined;
  return {
    name: 'offline cache',
    on(next) {
      const cache = caching(options, next);
      ({ contact } = cache);
      return cache.upstream;
    },
    async signedInElsewhere() {
      await signInService?.lookAgain();
      contact?.nudge();
    },
    tryNow: () => contact?.tryNow(),
  };
}

function caching(
  options: OfflineCacheOptions,
  upstream: Upstream,
): { contact: Contact; upstream: Upstream } {
  const { answers, troubleOf, signInService, clock, log } = options;
  const memory = rememberedAnswers(answers);
  const notifier = assistantNotifier();
  const notify: Deliver = async (message) => notifier.deliver(message);
  const pages = elicitedPages(notify);
  const assistantView: AssistantView = {
    sentTools: 'none',
    fromCache: new Set(),
    absent: new Set(),
  };

  const contact = contactWith({
    upstream,
    troubleOf,
    signInService,
    presence: options.presence,
    deliver: notify,
    onHandshake(answer) {
      const { initialize } = assistantView;
      if (initialize) memory.keep(question(initialize, initialize), answer);
      handshake.compare(answer);
    },
    onTrouble({ kind }) {
      if (kind === 'signed_out' && signInService && assistantView.sentTools === 'server')
        void notifier.changed(['tools']);
    },
    onRecovered() {
      const kinds = [...assistantView.fromCache].filter((kind) => !assistantView.absent.has(kind));
      assistantView.fromCache.clear();
      void notifier.changed(kinds);
    },
    clock,
    log,
    random: options.random ?? Math.random,
  });

  const waiting = waitingFor({ contact, signInService, clock });
  const parts = { ...options, upstream, contact, waiting, memory, notifier, assistantView, pages };
  const handshake = offlineHandshake(parts);
  const list = offlineLists(parts);
  const call = offlineCalls(parts);

  /** Waits until the server can be used, and then first notifies the assistant of all changes. */
  async function subscribe(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    notifier.to(deliver, 'stateless');
    let isBehind = contact.trouble() !== undefined;
    await contact.back(signal);
    if (signal.aborted) return;
    const take: Deliver = async (message) => {
      await deliver(message);
      if (!isBehind || message.kind === 'response') return;
      isBehind = false;
      await notifier.changed(listKinds);
    };
    const subscription = notifier.subscribed(idOf(request), deliver);
    try {
      await upstream.send(request, take, signal);
    } finally {
      subscription.closed();
    }
  }

  function send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { kind, method } = message;
    if (kind === 'request') {
      if (method === 'tools/call') return call(message, deliver, signal);
      if (method === 'initialize' && modernVersion(message) === undefined) {
        return handshake.respond(message, deliver, signal);
      }
      const listed = listMethod(method);
      if (listed || method === 'server/discover') return list(message, listed, deliver, signal);
      if (method === 'subscriptions/listen') return subscribe(message, deliver, signal);
      return call(message, deliver, signal);
    }
    if (kind === 'response' && pages.take(message)) return Promise.resolve();
    if (method === 'notifications/initialized' && contact.holdBack(message))
      return Promise.resolve();
    if (contact.needsHandshake()) {
      log.debug('message dropped, as the server is unreachable', { what: method });
      return Promise.resolve();
    }
    return upstream.send(message, deliver, signal);
  }

  async function listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    notifier.to(deliver, 'session');
    if (contact.needsHandshake()) await contact.back(AbortSignal.any([signal, contact.life]));
    if (!signal.aborted && !contact.life.aborted) await upstream.listen(deliver, signal);
  }

  async function close(signal: AbortSignal): Promise<void> {
    contact.close();
    await Promise.all([upstream.close(signal), memory.saved()]);
  }

  return { contact, upstream: { send, listen, close } };
}

/**
 * A server as shown to the assistant and its model: without query and fragment, which may contain a key. The name of an
 * unnamed server is its URL.
 */
export function redactedServer({ name, url }: ToolSubject): ToolSubject {
  const { origin, pathname } = new URL(url);
  const redacted = origin + pathname;
  return { name: name === url ? redacted : name, url: redacted };
}

type OfflineCallsOptions = {
  upstream: Upstream;
  contact: Contact;
  waiting: Waiting;
  assistantView: AssistantView;
  pages: ElicitedPages;
  name: string;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  explain: (error: unknown) => string;
  signInService?: PersonSignIn;
  clock: Clock;
};

const pong = madeMessage({ id: 0, result: {} });

/**
 * Requests that only the server can answer. They wait briefly for a server that is being tried, and otherwise fail with
 * the time since when it has been unreachable. Calls of `sign_in` are answered here while sign-in is required.
 */
export function offlineCalls(options: OfflineCallsOptions): Upstream['send'] {
  const {
    upstream,
    contact,
    waiting,
    assistantView,
    pages,
    name,
    troubleOf,
    explain,
    signInService,
    clock,
  } = options;

  function call(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    // Nearly every call takes this branch, so it costs a single promise.
    return !contact.trouble() && assistantView.sentTools !== 'sign_in'
      ? forward(request, deliver, signal)
      : callInTrouble(request, deliver, signal);
  }

  async function callInTrouble(request: Message, deliver: Deliver, signal: AbortSignal) {
    const trouble = contact.trouble();
    const offered = assistantView.sentTools === 'sign_in' || trouble?.kind === 'signed_out';
    if (signInService && offered && isSignIn(request))
      return signIn(request, signInService, deliver, signal);
    if (contact.needsHandshake() || trouble?.kind === 'signed_out') {
      if (request.method === 'ping') return deliver(answerTo(idOf(request), pong));
      await waiting.settle(signal);
      if (signal.aborted) return;
    }
    await forward(request, deliver, signal);
    contact.nudge();
  }

  function forward(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    return upstream.send(request, deliver, signal).catch((error: unknown) => {
      if (signal.aborted || troubleOf(error) !== 'signed_out') throw error;
      throw troubled(contact.note('signed_out', error));
    });
  }

  async function signIn(
    request: Message,
    service: PersonSignIn,
    deliver: Deliver,
    signal: AbortSignal,
  ) {
    const { offerSignIn } = await import('./offline-answers.ts');
    const path = ['params', 'capabilities', 'elicitation', 'url'];
    const { initialize } = assistantView;
    const shows = initialize !== undefined && textAt(initialize, ...path) !== undefined;
    const reached = async () => {
      if (contact.trouble() && (await service.signedIn())) await waiting.attempt(signal);
      return contact.trouble()?.kind !== 'signed_out' && !contact.needsHandshake();
    };
    const elicit = async (page: SignInPage, text: string) =>
      pages.show(page, text, deliver, signal);
    const answer = await offerSignIn(request, {
      name,
      signInService: service,
      elicit: shows && modernVersion(request) === undefined ? elicit : undefined,
      reached,
      explain,
      clock,
      signal,
    });
    if (!signal.aborted) await deliver(answer);
  }

  return call;
}

function isSignIn(request: Message): boolean {
  return request.method === 'tools/call' && stringAt(request, 'params', 'name') === 'sign_in';
}
