import type { Clock } from '#clock/clock';
import { modernVersion, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import { type KeptAnswers, question, rememberedAnswers } from './cached-answers.ts';
import { contact as contactWith, type Contact, type Presence, type Trouble } from './contact.ts';
import { idOf } from './messages.ts';
import { keptCalls } from './offline-calls.ts';
import { keptHandshake } from './offline-handshake.ts';
import { announcements, keptLists, type Belief, listKinds, listMethod } from './offline-lists.ts';
import { shownPages, type SignInDoor } from './sign-in-page.ts';
import type { ToolSubject } from './sign-in-tool.ts';
import type { Step } from './step.ts';
import { waitingFor } from './waiting.ts';

type OfflineCacheOptions = {
  answers: KeptAnswers;
  /** What the person calls the server, and where it is. */
  name: string;
  url: string;
  /** What an error says about the server; `undefined` when it is about something else. */
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  /** A failure in words, with its remedy. */
  explain: (error: unknown) => string;
  /** Where a person can sign in; none where nobody has to. */
  door?: SignInDoor;
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
 * tried until it is back. Where nobody is signed in, a tool lets a person do that. The assistant is notified of lists that
 * may have changed.
 */
export function offlineCache(options: OfflineCacheOptions): OfflineCache {
  const { door } = options;
  let contact: Contact | undefined;
  return {
    name: 'offline cache',
    on(next) {
      const cache = caching(options, next);
      ({ contact } = cache);
      return cache.upstream;
    },
    async signedInElsewhere() {
      await door?.lookAgain();
      contact?.nudge();
    },
    tryNow: () => contact?.tryNow(),
  };
}

function caching(
  options: OfflineCacheOptions,
  upstream: Upstream,
): { contact: Contact; upstream: Upstream } {
  const { answers, troubleOf, door, clock, log } = options;
  const memory = rememberedAnswers(answers);
  const announced = announcements();
  const say: Deliver = async (message) => announced.say(message);
  const pages = shownPages(say);
  const belief: Belief = { told: 'nothing', owed: new Set(), lacking: new Set() };

  const contact = contactWith({
    upstream,
    troubleOf,
    door,
    presence: options.presence,
    deliver: say,
    onMet(answer) {
      const { initialize } = belief;
      if (initialize) memory.keep(question(initialize, initialize), answer);
      handshake.met(answer);
    },
    onTrouble({ kind }) {
      if (kind === 'signed_out' && door && belief.told === 'tools')
        void announced.changed(['tools']);
    },
    onBack() {
      const kinds = [...belief.owed].filter((kind) => !belief.lacking.has(kind));
      belief.owed.clear();
      void announced.changed(kinds);
    },
    clock,
    log,
    random: options.random ?? Math.random,
  });

  const waiting = waitingFor({ contact, door, clock });
  const parts = { ...options, upstream, contact, waiting, memory, announced, belief, pages };
  const handshake = keptHandshake(parts);
  const list = keptLists(parts);
  const call = keptCalls(parts);

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
    if (contact.unmet()) {
      log.debug('message to an absent server dropped', { what: method });
      return Promise.resolve();
    }
    return upstream.send(message, deliver, signal);
  }

  async function listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    announced.to(deliver, 'session');
    if (contact.unmet()) await contact.back(AbortSignal.any([signal, contact.life]));
    if (!signal.aborted && !contact.life.aborted) await upstream.listen(deliver, signal);
  }

  async function close(signal: AbortSignal): Promise<void> {
    contact.close();
    await Promise.all([upstream.close(signal), memory.saved()]);
  }

  return { contact, upstream: { send, listen, close } };
}

/**
 * A server as the assistant, and whoever runs its model, is told of it: without what stands behind the path,
 * which may be a key. One without a name is called by its address.
 */
export function toldSubject({ name, url }: ToolSubject): ToolSubject {
  const { origin, pathname } = new URL(url);
  const told = origin + pathname;
  return { name: name === url ? told : name, url: told };
}
