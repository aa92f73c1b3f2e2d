import type { Clock } from '#clock/clock';
import { modernVersion, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import { type CachedAnswers, question, rememberedAnswers } from './cached-answers.ts';
import { contact as contactWith, type Contact, type Presence, type Trouble } from './contact.ts';
import { idOf } from './messages.ts';
import { offlineCalls } from './offline-calls.ts';
import { offlineHandshake } from './offline-handshake.ts';
import {
  announcements,
  offlineLists,
  type AssistantView,
  listKinds,
  listMethod,
} from './offline-lists.ts';
import { elicitedPages, type SignInService } from './sign-in-page.ts';
import type { ToolSubject } from './sign-in-tool.ts';
import type { Step } from './step.ts';
import { waitingFor } from './waiting.ts';

type OfflineCacheOptions = {
  answers: CachedAnswers;
  /** What the person calls the server, and where it is. */
  name: string;
  url: string;
  /** What an error says about the server; `undefined` when it is about something else. */
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  /** A failure in words, with its remedy. */
  explain: (error: unknown) => string;
  /** How a person signs in, where the connection requires it. */
  signInService?: SignInService;
  presence?: Presence;
  clock: Clock;
  log: Log;
  random?: () => number;
};

/** The step, and what other programs of this user may ask of it. */
export type OfflineCache = Step & {
  /** A person may have signed in with another process. */
  signedInElsewhere: () => Promise<void>;

  /** Tries the server now rather than later. */
  tryNow: () => void;
};

/**
 * Answers for a server that cannot be asked: its handshake and its lists are what it answered in the last run, and it is
 * tried until it is back. Where sign-in is required, a tool lets the person do that. The assistant is notified of lists that
 * may have changed.
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
  const announced = announcements();
  const say: Deliver = async (message) => announced.say(message);
  const pages = elicitedPages(say);
  const assistantView: AssistantView = { told: 'nothing', owed: new Set(), lacking: new Set() };

  const contact = contactWith({
    upstream,
    troubleOf,
    signInService,
    presence: options.presence,
    deliver: say,
    onMet(answer) {
      const { initialize } = assistantView;
      if (initialize) memory.keep(question(initialize, initialize), answer);
      handshake.met(answer);
    },
    onTrouble({ kind }) {
      if (kind === 'signed_out' && signInService && assistantView.told === 'tools')
        void announced.changed(['tools']);
    },
    onBack() {
      const kinds = [...assistantView.owed].filter((kind) => !assistantView.lacking.has(kind));
      assistantView.owed.clear();
      void announced.changed(kinds);
    },
    clock,
    log,
    random: options.random ?? Math.random,
  });

  const waiting = waitingFor({ contact, signInService, clock });
  const parts = { ...options, upstream, contact, waiting, memory, announced, assistantView, pages };
  const handshake = offlineHandshake(parts);
  const list = offlineLists(parts);
  const call = offlineCalls(parts);

  /** A subscription that meets an absent server waits for it, and hears first what has changed. */
  async function subscribe(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    announced.to(deliver, 'stateless');
    let untold = contact.trouble() !== undefined;
    await contact.back(signal);
    if (signal.aborted) return;
    const take: Deliver = async (message) => {
      await deliver(message);
      if (!untold || message.kind === 'response') return;
      untold = false;
      await announced.changed(listKinds);
    };
    const open = announced.subscribed(idOf(request), deliver);
    try {
      await upstream.send(request, take, signal);
    } finally {
      open.closed();
    }
  }

  function send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { kind, method } = message;
    if (kind === 'request') {
      if (method === 'tools/call') return call(message, deliver, signal);
      if (method === 'initialize' && modernVersion(message) === undefined) {
        return handshake.shake(message, deliver, signal);
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
      log.debug('message to an absent server dropped', { what: method });
      return Promise.resolve();
    }
    return upstream.send(message, deliver, signal);
  }

  async function listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    announced.to(deliver, 'session');
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
 * A server as it is shown to the assistant and its model: without query and fragment, which may hold a key. A server
 * without a name is called by its address.
 */
export function redactedServer({ name, url }: ToolSubject): ToolSubject {
  const { origin, pathname } = new URL(url);
  const told = origin + pathname;
  return { name: name === url ? told : name, url: told };
}
