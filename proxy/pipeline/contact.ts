import type { Clock, EpochSeconds } from '#clock/clock';
import { readMessage, stringAt, type Message } from '#jsonrpc/message';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import { firstAnswer } from './first-answer.ts';
import { keepTrying } from './keep-trying.ts';
import type { Presence } from './presence.ts';
import type { SignInDoor } from './sign-in-door.ts';

/** Why the server cannot be asked, and since when. */
export type Trouble = {
  kind: 'offline' | 'signed_out';
  sinceAt: EpochSeconds;
  error: unknown;
};

export type ContactOptions = {
  upstream: Upstream;
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  door: SignInDoor | undefined;
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
  unmet(): boolean;
  /** Takes the assistant's handshake, which is made again whenever the server has not had it. */
  begin(initialize: Message): void;
  /** Nothing is made up for the assistant; its next handshake begins anew. */
  end(): void;
  /** Holds `initialized` back until the server has answered the handshake; `false` when it has. */
  holdBack(initialized: Message): boolean;
  /** A request that can be repeated, to see whether the server is there. */
  remember(harmless: Message): void;
  /** From now on the server is tried by itself until the trouble is over. */
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
  const { upstream, troubleOf, door, presence, clock, log, random } = options;
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
    nudged: async (signal) => heard('nudge', signal),
    door,
    life: life.signal,
    clock,
    log,
    random,
  });

  const unmet = () => handshake !== undefined && !met;

  const exchange = async (request: Message) =>
    firstAnswer(request, {
      upstream,
      deliver: options.deliver,
      page: () => door?.page(),
      signal: life.signal,
      clock,
    });

  async function shake(initialize: Message): Promise<Message> {
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
      if (handshake && !met) answer = await shake(handshake);
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
  async function heard(name: 'nudge' | 'back', signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      changes.addEventListener(name, () => resolve(), { once: true, signal });
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  return {
    life: life.signal,
    trouble: () => trouble,
    unmet,
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
      if (!unmet()) return false;
      initialized = message;
      return true;
    },
    remember(message) {
      harmless = message;
    },
    note,
    reach,
    back: async (signal) => (trouble ? heard('back', signal) : undefined),
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
