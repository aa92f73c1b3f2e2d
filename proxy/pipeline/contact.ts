import { backOffs, randomPauseMs } from '#clock/back-off';
import type { Clock, EpochSeconds } from '#clock/clock';
import { readMessage, stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';
import { isWithin } from '#transport/web-url';
import type { SignInPage } from '#auth/sign-in-service';
import type { PersonSignIn } from './sign-in-page.ts';

/** Why the server cannot be used, and since when. `account`: it asks the person for an account or a key of their own. */
export type Trouble = {
  kind: 'offline' | 'signed_out' | 'account';
  sinceAt: EpochSeconds;
  error: unknown;
};

export type ContactOptions = {
  upstream: Upstream;
  url: string;
  /** The kind of trouble that an error indicates; `undefined` if the server is not the cause. */
  troubleOf: (error: unknown) => Trouble['kind'] | undefined;
  /** How a person signs in, where the connection requires it. */
  signInService?: PersonSignIn;
  presence?: Presence;
  /** Receives the server's messages other than the expected answer. */
  deliver: Deliver;
  /** The server has answered the handshake. */
  onHandshake: (answer: Message) => void;
  /** Trouble began, or its kind changed. */
  onTrouble: (trouble: Trouble) => void;
  /** The trouble has ended. */
  onRecovered: () => void;
  clock: Clock;
  log: Log;
  random: () => number;
};

/** The server has answered the handshake with an error. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly answer: Message;

  constructor(answer: Message) {
    super(stringAt(answer, 'error', 'message') ?? 'the server refused the handshake');
    this.answer = answer;
  }
}

/** The log message for each kind of trouble. */
const troubleWords = {
  offline: 'server unreachable',
  signed_out: 'sign-in required',
  account: 'account or key required',
} as const satisfies Record<Trouble['kind'], string>;

/** The "URL Elicitation Required Error" of MCP 2025-11-25 elicitation, and the error for assistants that cannot show URLs. */
const accountCodes: ReadonlySet<string | undefined> = new Set(['-32042', '-32000']);

/**
 * The error with which a Latchkey server asks the person for an account or a key of their own, on a page of its dashboard; `undefined` for
 * any other answer.
 */
export function accountRefusal(answer: Message, url: string): UpstreamError | undefined {
  if (!accountCodes.has(textAt(answer, 'error', 'code'))) return undefined;
  const message = stringAt(answer, 'error', 'message') ?? '';
  const page = /https?:\/\/\S+\/account\b/.exec(message)?.[0];
  if (page === undefined || !isWithin(page, new URL('/dashboard', url).href)) return undefined;
  return new UpstreamError('account', message);
}

/** Whether the message of an `account` error is about a key rather than an account. The page's address may contain either word. */
export function isAboutKey(message: string): boolean {
  return /\byour (own )?key\b/.test(message);
}

const ping = readMessage(
  Buffer.from('{"jsonrpc":"2.0","id":"latchkey-are-you-there","method":"ping"}'),
);

/** Tries to reach a server once for all waiting requests, and repeats a handshake that the server missed. */
export class Contact {
  readonly #options: ContactOptions;
  readonly #life = new AbortController();
  readonly #events = new EventTarget();
  readonly #retries: KeepTrying;
  #initialize: Message | undefined;
  #initialized: Message | undefined;
  #isHandshakeDone = false;
  #probe: Message | undefined;
  #trouble: Trouble | undefined;
  #attempt: Promise<Message | undefined> | undefined;

  constructor(options: ContactOptions) {
    this.#options = options;
    this.#retries = keepTrying({
      ...options,
      trouble: () => this.#trouble?.kind,
      reach: async () => this.reach(),
      nudged: async (signal) => this.#next('nudge', signal),
      life: this.life,
    });
  }

  /** Aborts when this is closed. */
  get life(): AbortSignal {
    return this.#life.signal;
  }

  trouble(): Trouble | undefined {
    return this.#trouble;
  }

  /** Whether the assistant's handshake has yet to reach the server. */
  needsHandshake(): boolean {
    return this.#initialize !== undefined && !this.#isHandshakeDone;
  }

  /** Takes the assistant's handshake. It is sent again if the server has not received it. */
  begin(initialize: Message): void {
    this.#initialize = initialize;
    this.#initialized = undefined;
    this.#isHandshakeDone = false;
    this.#trouble = undefined;
    this.#attempt = undefined;
  }

  /** Forgets the handshake, because the assistant got an error. */
  end(): void {
    this.#initialize = undefined;
  }

  /** Holds `initialized` until the server has answered the handshake. Returns `false` if no handshake is open. */
  holdBack(initialized: Message): boolean {
    if (!this.needsHandshake()) return false;
    this.#initialized = initialized;
    return true;
  }

  /** Sets a request that can be repeated, to check whether the server can be reached. */
  probeWith(request: Message): void {
    this.#probe = request;
  }

  /** Records trouble, and tries the server in the background until it ends. */
  note(kind: Trouble['kind'], error: unknown): Trouble {
    const { clock, log, presence, onTrouble } = this.#options;
    const before = this.#trouble;
    const now = { kind, sinceAt: before?.sinceAt ?? clock.now(), error };
    this.#trouble = now;
    void this.#retries.begin();
    if (before?.kind === kind) return now;
    const reason = error instanceof Error ? error.message : String(error);
    log.warn(troubleWords[kind], { reason });
    presence?.changed({ state: kind, sinceAt: now.sinceAt, reason });
    onTrouble(now);
    return now;
  }

  /** Tries now, once for all callers. Resolves to the answer if the attempt was the handshake. */
  async reach(): Promise<Message | undefined> {
    if (this.#attempt) return this.#attempt;
    const attempt = this.#try().finally(() => {
      if (this.#attempt === attempt) this.#attempt = undefined;
    });
    this.#attempt = attempt;
    return attempt;
  }

  /** Resolves when the trouble has ended, or `signal` aborts. */
  async back(signal: AbortSignal): Promise<void> {
    if (this.#trouble) await this.#next('back', signal);
  }

  /** Makes the next attempt immediately. */
  nudge(): void {
    this.#events.dispatchEvent(new Event('nudge'));
  }

  /** Tries now, even if no trouble is known. */
  tryNow(): void {
    this.nudge();
    if (this.#trouble) return;
    this.reach().catch((error: unknown) => {
      const kind = this.#options.troubleOf(error);
      if (kind) this.note(kind, error);
    });
  }

  close(): void {
    this.#life.abort();
  }

  async #try(): Promise<Message | undefined> {
    try {
      let answer: Message | undefined;
      if (this.#initialize && !this.#isHandshakeDone)
        answer = await this.#makeHandshake(this.#initialize);
      else if (this.#initialize) await this.#look(ping);
      else if (this.#probe) await this.#look(this.#probe);
      this.#recover();
      return answer;
    } catch (error) {
      if (this.#trouble) this.note(this.#options.troubleOf(error) ?? this.#trouble.kind, error);
      throw error;
    }
  }

  async #makeHandshake(initialize: Message): Promise<Message> {
    const { upstream, deliver, onHandshake } = this.#options;
    const answer = await this.#exchange(initialize);
    if (answer.members.has('error'))
      throw accountRefusal(answer, this.#options.url) ?? new RefusedError(answer);
    if (this.#initialize !== initialize) return answer;
    // Without `initialized`, the server would refuse the next request.
    if (this.#initialized) await upstream.send(this.#initialized, deliver, this.life);
    if (this.#initialize === initialize) this.#isHandshakeDone = true;
    onHandshake(answer);
    return answer;
  }

  /** Any answer will do, unless it asks the person for something. */
  async #look(request: Message): Promise<void> {
    const refusal = accountRefusal(await this.#exchange(request), this.#options.url);
    if (refusal) throw refusal;
  }

  async #exchange(request: Message): Promise<Message> {
    const { signInService } = this.#options;
    const page = () => signInService?.page();
    return firstAnswer(request, { ...this.#options, page, signal: this.life });
  }

  #recover(): void {
    if (!this.#trouble) return;
    const { clock, log, presence, onRecovered } = this.#options;
    log.info('server reached again', { awaySeconds: clock.now() - this.#trouble.sinceAt });
    this.#trouble = undefined;
    this.#retries.succeeded();
    presence?.changed({ state: 'online' });
    this.#events.dispatchEvent(new Event('back'));
    onRecovered();
  }

  /** Resolves at the next event with that name, or when `signal` aborts. */
  async #next(name: 'nudge' | 'back', signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      this.#events.addEventListener(name, () => resolve(), { once: true, signal });
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}

type KeepTryingPorts = Pick<ContactOptions, 'signInService' | 'clock' | 'log' | 'random'> & {
  /** The trouble now, if any. */
  trouble: () => Trouble['kind'] | undefined;
  /** Makes one attempt. Rejects if it fails. */
  reach: () => Promise<unknown>;
  /** Resolves when the next attempt is due immediately, or `signal` aborts. */
  nudged: (signal: AbortSignal) => Promise<void>;
  life: AbortSignal;
};

/** If trouble returns within this time, the pauses continue to grow. */
const stableSeconds = 60;

/** Tries to reach a server, with growing pauses, until the trouble ends. */
function keepTrying(ports: KeepTryingPorts) {
  const { trouble, reach, nudged, signInService, life, clock, log, random } = ports;
  let trying = false;
  let attempts = 0;
  let backAt = 0;

  async function begin(): Promise<void> {
    if (trying) return;
    trying = true;
    if (clock.now() - backAt > stableSeconds) attempts = 0;
    for (;;) {
      const before = trouble();
      if (!before || life.aborted) break;
      const backOff = backOffs[before === 'offline' ? 'offlineServer' : 'signedOutServer'];
      await pause(randomPauseMs(backOff, attempts, random));
      attempts += 1;
      const kind = trouble();
      if (!kind || life.aborted) break;
      // Without a sign-in, no attempt can succeed. Checking for one needs no request.
      if (kind === 'signed_out' && !(await signedIn())) continue;
      await reach().catch((error: unknown) => {
        log.debug('server still unreachable', { reason: String(error) });
      });
    }
    trying = false;
  }

  async function signedIn(): Promise<boolean> {
    return signInService === undefined || signInService.signedIn().catch(() => false);
  }

  async function pause(ms: number): Promise<void> {
    const ended = new AbortController();
    const signal = AbortSignal.any([ended.signal, life]);
    await Promise.race([
      clock.sleep(ms, signal),
      nudged(signal),
      ...(trouble() === 'signed_out' ? [signedInWithPage(signal)] : []),
    ]);
    ended.abort();
  }

  async function signedInWithPage(signal: AbortSignal): Promise<void> {
    await signInService?.shown(signal);
    const page = signInService?.page();
    if (!page || !(await page.done)) await nudged(signal);
  }

  return {
    /** Starts trying, unless it has started. */
    begin,
    /** The server was reached. */
    succeeded: () => void (backAt = clock.now()),
  };
}

type KeepTrying = ReturnType<typeof keepTrying>;

type FirstAnswerPorts = Pick<ContactOptions, 'upstream' | 'deliver' | 'clock'> & {
  /** The page at which a person is signing in; the time that this takes does not count. */
  page: () => SignInPage | undefined;
  signal: AbortSignal;
};

/** How long one attempt may take, without the time that a person needs. */
const attemptMs = 60_000;

/**
 * The answer to `request`, even if the server keeps the stream open after it.
 *
 * @throws {UnavailableError} `stalled` if the server does not answer; otherwise the error of `upstream`
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
    .then(() => answer.reject(silence('the server sent no answer')), answer.reject);
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
 * `offline`: the server has been unreachable since `sinceAt`, and is tried in the background. `stalled`: it accepted
 * the request and sent no answer. `signed_out`: a person has to sign in. `cause` is the error of the last attempt.
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

/** The state of a running proxy's connection to its server, as shown to a person. */
export type ConnectionState =
  | { state: 'online' }
  | { state: Trouble['kind']; sinceAt: EpochSeconds; reason: string };

/** Receives the state of the connection each time it changes. */
export interface Presence {
  changed(state: ConnectionState): void;
}
