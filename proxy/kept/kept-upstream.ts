import type { Clock } from '#clock/clock';
import { answerTo } from '#jsonrpc/answer';
import { stringAt, textAt, type Message } from '#jsonrpc/message';
import { modernVersion } from '#jsonrpc/modern-version';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#upstream/upstream';
import { announcements } from './announcements.ts';
import { contact as contactWith, RefusedError, type Trouble } from './contact.ts';
import type { KeptAnswers } from './kept-answers.ts';
import { KeptError } from './kept-error.ts';
import { idOf } from './id-of.ts';
import { isServerError, keptLists, keptPatienceMs, type Belief } from './kept-lists.ts';
import { listKinds, listMethod, type ListKind } from './list-kinds.ts';
import type { Presence } from './presence.ts';
import { madeMessage } from './made-message.ts';
import { question } from './question.ts';
import { rememberedAnswers } from './remembered-answers.ts';
import { shownPages } from './shown-pages.ts';
import type { SignInDoor, SignInPage } from './sign-in-door.ts';
import { troubled, waitingFor } from './waiting.ts';

export type KeptUpstreamOptions = {
  upstream: Upstream;
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

/** How long the handshake of a server that was never seen may take, until one is made up. */
const patienceMs = 8_000;

const pong = madeMessage({ id: 0, result: {} });

/**
 * A server that is always there: while it cannot be asked, its handshake and its lists are what it
 * answered in the last run, and it is tried until it is back. Where nobody is signed in, a tool lets a
 * person do that. The assistant is told of lists that may have changed.
 */
export function keptUpstream(options: KeptUpstreamOptions): Upstream {
  const { upstream, answers, name, url, troubleOf, explain, door, clock, log } = options;
  const memory = rememberedAnswers(answers);
  const announced = announcements();
  const say: Deliver = async (message) => announced.say(message);
  const pages = shownPages(say);
  const belief: Belief = { told: 'nothing', owed: new Set(), lacking: new Set() };
  let promised: ReadonlySet<ListKind> | undefined;

  const contact = contactWith({
    upstream,
    troubleOf,
    door,
    presence: options.presence,
    deliver: say,
    onMet,
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
  const list = keptLists({ ...options, contact, waiting, memory, announced, belief });

  /** What was promised in the server's name is held against what it says itself. */
  function onMet(answer: Message): void {
    const { initialize } = belief;
    if (initialize) memory.keep(question(initialize, initialize), answer);
    if (!promised) return;
    const before = promised;
    const has = kindsOf(answer);
    const lacking = new Set([...before].filter((kind) => !has.has(kind)));
    const missed = new Set([...has].filter((kind) => !before.has(kind)));
    belief.lacking = lacking;
    if (lacking.size > 0 || missed.size > 0)
      log.warn('server is not what it was', {
        without: [...lacking].join(' '),
        besides: [...missed].join(' '),
      });
    promised = undefined;
  }

  async function shakeHands(request: Message, deliver: Deliver, signal: AbortSignal) {
    Object.assign(belief, { initialize: request, told: 'nothing', lacking: new Set() });
    belief.owed.clear();
    promised = undefined;
    announced.to(deliver, 'session');
    contact.begin(request);
    const key = question(request, request);
    const enough = new AbortController();
    const late = patience(key, AbortSignal.any([enough.signal, signal]));
    const outcome = await Promise.race([
      contact.reach().then(
        (answer) => ({ answer, error: undefined }),
        (error: unknown) => ({ answer: undefined, error }),
      ),
      late.then(() => ({ answer: undefined, error: undefined })),
    ]);
    enough.abort();
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
    const { keptHandshake, madeHandshake } = await import('./stand-in.ts');
    const signedOut = trouble.kind === 'signed_out' && door !== undefined;
    const standIn = last
      ? keptHandshake(last, { tools: signedOut })
      : madeHandshake(request, name, instructions(signedOut));
    promised = kindsOf(standIn);
    await deliver(answerTo(idOf(request), standIn));
  }

  /** Resolves when the handshake has waited long enough. */
  async function patience(key: string, signal: AbortSignal): Promise<void> {
    const shown = door && !door.waits ? door.shown(signal) : new Promise<void>(() => {});
    const long = async () => {
      await clock.sleep(keptPatienceMs, signal);
      const last = signal.aborted ? undefined : await memory.last(key);
      if (!last && !door?.waits) return clock.sleep(patienceMs - keptPatienceMs, signal);
      // Whoever wants requests to wait for a person gets nothing made up meanwhile.
      if (door?.waits && (!last || door.page())) return new Promise<void>(() => {});
    };
    return Promise.race([shown, long()]);
  }

  /** The handshake has taken too long: for a person's sake, or for the server's. */
  function noteLate(): Trouble {
    const sinceAt = clock.now();
    if (door?.page()) {
      const message = 'somebody is about to sign in with the browser';
      return contact.note('signed_out', new KeptError('signed_out', message, { sinceAt }));
    }
    const message = `${url} has not answered yet`;
    return contact.note('offline', new KeptError('stalled', message, { sinceAt }));
  }

  function instructions(signedOut: boolean): string {
    return signedOut
      ? `Nobody is signed in to ${name} yet. Call the tool sign_in to let the person sign in; the server's own tools appear afterwards.`
      : `${name} cannot be reached at the moment. It is tried by itself, and its tools appear once it is there.`;
  }

  async function call(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const trouble = contact.trouble();
    // As nearly every call takes this way, it costs one promise.
    if (!trouble && belief.told !== 'sign_in') return asked(request, deliver, signal);
    const offered = belief.told === 'sign_in' || trouble?.kind === 'signed_out';
    if (door && offered && isSignIn(request)) return signIn(request, door, deliver, signal);
    if (contact.unmet() || trouble?.kind === 'signed_out') {
      if (request.method === 'ping') return deliver(answerTo(idOf(request), pong));
      await waiting.settle(signal);
      if (signal.aborted) return;
    }
    await asked(request, deliver, signal);
    contact.nudge();
  }

  async function asked(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    return upstream.send(request, deliver, signal).catch((error: unknown) => {
      if (signal.aborted || troubleOf(error) !== 'signed_out') throw error;
      throw troubled(contact.note('signed_out', error));
    });
  }

  async function signIn(request: Message, at: SignInDoor, deliver: Deliver, signal: AbortSignal) {
    const { offerSignIn } = await import('./offer-sign-in.ts');
    const path = ['params', 'capabilities', 'elicitation', 'url'];
    const { initialize } = belief;
    const shows = initialize !== undefined && textAt(initialize, ...path) !== undefined;
    const reached = async () => {
      if (contact.trouble() && (await at.signedIn())) await waiting.attempt(signal);
      return contact.trouble()?.kind !== 'signed_out' && !contact.unmet();
    };
    const elicit = async (page: SignInPage, text: string) =>
      pages.show(page, text, deliver, signal);
    const answer = await offerSignIn(request, {
      name,
      door: at,
      elicit: shows && modernVersion(request) === undefined ? elicit : undefined,
      reached,
      explain,
      clock,
      signal,
    });
    if (!signal.aborted) await deliver(answer);
  }

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

  async function send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { kind, method } = message;
    if (kind === 'request') {
      if (method === 'tools/call') return call(message, deliver, signal);
      if (method === 'initialize' && modernVersion(message) === undefined) {
        return shakeHands(message, deliver, signal);
      }
      const listed = listMethod(method);
      if (listed || method === 'server/discover') return list(message, listed, deliver, signal);
      if (method === 'subscriptions/listen') return subscribe(message, deliver, signal);
      return call(message, deliver, signal);
    }
    if (kind === 'response' && pages.take(message)) return;
    if (method === 'notifications/initialized' && contact.holdBack(message)) return;
    if (contact.unmet()) return log.debug('message to an absent server dropped', { what: method });
    return upstream.send(message, deliver, signal);
  }

  return {
    send,
    async listen(deliver, signal) {
      announced.to(deliver, 'session');
      if (contact.unmet()) await contact.back(AbortSignal.any([signal, contact.life]));
      if (!signal.aborted && !contact.life.aborted) await upstream.listen(deliver, signal);
    },
    async close(signal) {
      contact.close();
      await Promise.all([upstream.close(signal), memory.saved()]);
    },
  };
}

function isSignIn(request: Message): boolean {
  return request.method === 'tools/call' && stringAt(request, 'params', 'name') === 'sign_in';
}

function kindsOf(handshake: Message): Set<ListKind> {
  const has = (kind: ListKind) => textAt(handshake, 'result', 'capabilities', kind) !== undefined;
  return new Set(listKinds.filter(has));
}
