import type { Clock, EpochSeconds } from '#clock/clock';
import { readMessage, stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import type { SignInService, SignInPage } from './sign-in-page.ts';

/** Why the server cannot be asked, and since when. */
export type Trouble = {
  kind: 'offline' | 'signed_out';
  sinceAt: EpochSeconds;
  error: unknown;
};

type ContactOptions = {
  upstream: Upstream;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  signInService: SignInService | undefined;
  presence: Presence | undefined;
  /** Takes what the server says besides the answer that was wanted. */
  deliver: Deliver;
  /** The server's answer to the handshake has come. */
  onMet: (answer: Message) => void;
  /** There is trouble, or another kind of it. */
  onTrouble: (trouble: Trouble) => void;
  /** The trouble is over. */
  onBack: () => void;
  clock: Clock;
  log: Log;
  random: () => number;
};

/** The server has answered the handshake with an error. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly answer: Message;

  constructor(answer: Message) {
    super(stringAt(answer, 'error', 'message') ?? 'the server refused');
    this.answer = answer;
  }
}

const ping = readMessage(
  Buffer.from('{"jsonrpc":"2.0","id":"latchkey-are-you-there","method":"ping"}'),
);

/** Keeps trying to reach a server, on behalf of all who wait, and makes the handshake it has missed. */
export interface Contact {
  readonly life: AbortSignal;
  trouble(): Trouble | undefined;
  /** Whether the assistant's handshake has yet to reach the server. */
  needsHandshake(): boolean;
  /** Takes the assistant's handshake, which is made again whenever the server has not had it. */
  begin(initialize: Message): void;
  /** Nothing is made up for the assistant; its next handshake is a new one. */
  end(): void;
  /** Holds `initialized` back until the server has answered the handshake; `false` when it has. */
  holdBack(initialized: Message): boolean;
  /** A request that can be repeated, to see whether the server is there. */
  remember(harmless: Message): void;
  /** From now on the server is tried in the background until it can be asked. */
  note(kind: Trouble['kind'], error: unknown): Trouble;
  /** Tries now, once for all who ask. The answer to the handshake, when it was that. */
  reach(): Promise<Message | undefined>;
  /** Resolves when a trouble is over. */
  back(signal: AbortSignal): Promise<void>;
  /** The next attempt need not wait. */
  nudge(): void;
  /** Tries now, also where there is no trouble that is known. */
  tryNow(): void;
  close(): void;
}

export function contact(options: ContactOptions): Contact {
  const { upstream, troubleOf, signInService, presence, clock, log, random } = options;
  const life = new AbortController();
  const changes = new EventTarget();
  let handshake: Message | undefined;
  let initialized: Message | undefined;
  let met = false;
  let harmless: Message | undefined;
  let trouble: Trouble | undefined;
  let reaching: Promise<Message | undefined> | undefined;

  const trying = keepTrying({
    trouble: () => trouble?.kind,
    reach,
    nudged: async (signal) => nextEvent('nudge', signal),
    signInService,
    life: life.signal,
    clock,
    log,
    random,
  });

  const needsHandshake = () => handshake !== undefined && !met;

  const exchange = async (request: Message) =>
    firstAnswer(request, {
      upstream,
      deliver: options.deliver,
      page: () => signInService?.page(),
      signal: life.signal,
      clock,
    });

  async function makeHandshake(initialize: Message): Promise<Message> {
    const answer = await exchange(initialize);
    if (answer.members.has('error')) throw new RefusedError(answer);
    if (handshake !== initialize) return answer;
    // A server that has not heard of it would not take the next request.
    if (initialized) await upstream.send(initialized, options.deliver, life.signal);
    if (handshake === initialize) met = true;
    options.onMet(answer);
    return answer;
  }

  async function attempt(): Promise<Message | undefined> {
    try {
      let answer: Message | undefined;
      if (handshake && !met) answer = await makeHandshake(handshake);
      else if (handshake) await exchange(ping);
      else if (harmless) await exchange(harmless);
      over();
      return answer;
    } catch (error) {
      if (trouble) note(troubleOf(error) ?? trouble.kind, error);
      throw error;
    }
  }

  function over(): void {
    if (!trouble) return;
    log.info('server is there', { awaySeconds: clock.now() - trouble.sinceAt });
    trouble = undefined;
    trying.succeeded();
    presence?.changed({ state: 'online' });
    changes.dispatchEvent(new Event('back'));
    options.onBack();
  }

  function note(kind: Trouble['kind'], error: unknown): Trouble {
    const before = trouble;
    const now = { kind, sinceAt: before?.sinceAt ?? clock.now(), error };
    trouble = now;
    void trying.begin();
    if (before?.kind === kind) return now;
    const reason = error instanceof Error ? error.message : String(error);
    log.warn(kind === 'offline' ? 'server is not there' : 'nobody is signed in', { reason });
    presence?.changed({ state: kind, sinceAt: now.sinceAt, reason });
    options.onTrouble(now);
    return now;
  }

  async function reach(): Promise<Message | undefined> {
    if (reaching) return reaching;
    const mine = attempt().finally(() => {
      if (reaching === mine) reaching = undefined;
    });
    reaching = mine;
    return mine;
  }

  /** Resolves at the next event of that name, and when `signal` aborts. */
  async function nextEvent(name: 'nudge' | 'back', signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      changes.addEventListener(name, () => resolve(), { once: true, signal });
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  return {
    life: life.signal,
    trouble: () => trouble,
    needsHandshake,
    begin(initialize) {
      handshake = initialize;
      initialized = undefined;
      met = false;
      trouble = undefined;
      reaching = undefined;
    },
    end() {
      handshake = undefined;
    },
    holdBack(message) {
      if (!needsHandshake()) return false;
      initialized = message;
      return true;
    },
    remember(message) {
      harmless = message;
    },
    note,
    reach,
    back: async (signal) => (trouble ? nextEvent('back', signal) : undefined),
    nudge: () => void changes.dispatchEvent(new Event('nudge')),
    tryNow() {
      changes.dispatchEvent(new Event('nudge'));
      if (trouble) return;
      reach().catch((error: unknown) => {
        const kind = troubleOf(error);
        if (kind) note(kind, error);
      });
    },
    close: () => life.abort(),
  };
}

type KeepTryingPorts = {
  /** What stands between us and the server now. */
  trouble: () => 'offline' | 'signed_out' | undefined;
  /** One attempt; rejects when it failed. */
  reach: () => Promise<unknown>;
  /** Resolves when the next attempt need not wait, and when `signal` aborts. */
  nudged: (signal: AbortSignal) => Promise<void>;
  signInService: SignInService | undefined;
  life: AbortSignal;
  clock: Clock;
  log: Log;
  random: () => number;
};

const offline = { firstMs: 1_000, longestMs: 30_000 };
const signedOut = { firstMs: 2_000, longestMs: 30_000 };

/** A server that was back for less is waited for as long as if it had been away all the time. */
const steadySeconds = 60;

/** Attempts at a server that is away, ever more rarely, until the trouble is over. */
interface KeepTrying {
  /** Begins, unless it is under way. */
  begin(): Promise<void>;
  /** The server is back. */
  succeeded(): void;
}

function keepTrying(ports: KeepTryingPorts): KeepTrying {
  const { trouble, reach, nudged, signInService, life, clock, log, random } = ports;
  let trying = false;
  let attempts = 0;
  let backAt = 0;

  async function begin(): Promise<void> {
    if (trying) return;
    trying = true;
    if (clock.now() - backAt > steadySeconds) attempts = 0;
    for (;;) {
      const before = trouble();
      if (!before || life.aborted) break;
      await pause(backOffMs(attempts, before === 'offline' ? offline : signedOut, random));
      attempts += 1;
      const kind = trouble();
      if (!kind || life.aborted) break;
      // Without a person there is nothing to be tried; whether one has come is asked at no server.
      if (kind === 'signed_out' && !(await signedIn())) continue;
      await reach().catch((error: unknown) => {
        log.debug('server is not there yet', { reason: String(error) });
      });
    }
    trying = false;
  }

  async function signedIn(): Promise<boolean> {
    return signInService === undefined || signInService.signedIn().catch(() => false);
  }

  async function pause(ms: number): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([enough.signal, life]);
    await Promise.race([
      clock.sleep(ms, signal),
      nudged(signal),
      ...(trouble() === 'signed_out' ? [signedInWithPage(signal)] : []),
    ]);
    enough.abort();
  }

  async function signedInWithPage(signal: AbortSignal): Promise<void> {
    await signInService?.shown(signal);
    const page = signInService?.page();
    if (!page || !(await page.done)) await nudged(signal);
  }

  return { begin, succeeded: () => void (backAt = clock.now()) };
}

type BackOff = { firstMs: number; longestMs: number };

/**
 * How long to wait before attempt `attempt` (from 0): twice as long each time, and somewhere in the
 * upper half of it, so that many proxies do not come back to a server in the same instant.
 */
export function backOffMs(
  attempt: number,
  { firstMs, longestMs }: BackOff,
  random: () => number,
): number {
  const whole = Math.min(firstMs * 2 ** attempt, longestMs);
  return Math.round(whole / 2 + (random() * whole) / 2);
}

type FirstAnswerPorts = {
  upstream: Upstream;
  /** Takes what the server says besides. */
  deliver: Deliver;
  /** The page that a person is about to sign in at, for whom there is no hurry. */
  page: () => SignInPage | undefined;
  signal: AbortSignal;
  clock: Clock;
};

/** How long one attempt may take, a person's part aside. */
const attemptMs = 60_000;

/**
 * The answer to `request`, whether or not the server goes on talking behind it.
 *
 * @throws {UnavailableError} `stalled` when the server says nothing, or what the upstream rejects with
 */
async function firstAnswer(
  request: Message,
  { upstream, deliver, page, signal: life, clock }: FirstAnswerPorts,
): Promise<Message> {
  const silence = (message: string) =>
    new UnavailableError('stalled', message, { sinceAt: clock.now() });
  const answer = Promise.withResolvers<Message>();
  const answered = new AbortController();
  const stalled = new AbortController();
  const signal = AbortSignal.any([life, stalled.signal]);
  const take: Deliver = async (message) =>
    message.kind === 'response' ? answer.resolve(message) : deliver(message);
  upstream
    .send(request, take, signal)
    .then(() => answer.reject(silence('the server said nothing')), answer.reject);
  void (async () => {
    do await clock.sleep(attemptMs, answered.signal);
    while (page() && !answered.signal.aborted);
    if (answered.signal.aborted) return;
    stalled.abort();
    answer.reject(silence(`no answer within ${attemptMs / 1000} s`));
  })();
  return answer.promise.finally(() => answered.abort());
}

/**
 * `offline`: the server has not been reached since `sinceAt`, and is tried in the background. `stalled`:
 * it took the request and says nothing. `signed_out`: a person has to sign in. `cause` is what the last
 * attempt met.
 */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  readonly code: 'offline' | 'stalled' | 'signed_out';
  readonly sinceAt: EpochSeconds;

  constructor(
    code: UnavailableError['code'],
    message: string,
    { sinceAt, ...options }: ErrorOptions & { sinceAt: EpochSeconds },
  ) {
    super(message, options);
    this.code = code;
    this.sinceAt = sinceAt;
  }
}

/** The state of a running proxy's connection to its server, to be shown to a person. */
export type Standing =
  | { state: 'online' }
  | { state: 'offline' | 'signed_out'; sinceAt: EpochSeconds; reason: string };

/** Hears how a running proxy stands, each time that changes. */
export interface Presence {
  changed(standing: Standing): void;
}
