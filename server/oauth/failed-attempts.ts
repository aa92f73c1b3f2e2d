import { type Awaitable, whenFailed } from '#model/awaitable';
import type { Clock, EpochSeconds } from '#model/clock';
import { LimitedMap } from '#model/limited-map';
import { OAuthError } from './oauth-error.ts';

const maxFailures = 20;
const windowSeconds = 300;
const maxSubjects = 10_000;

/** What a failed attempt is counted against: its network address and the client that it claimed to be. */
export interface Attempt {
  readonly address: string;
  readonly clientId: string | undefined;
}

/**
 * Throttles guesses of client secrets. After twenty failures within five minutes, an address is refused. After twenty
 * wrong secrets for one client, that client is refused too, except from other addresses with the right secret. Counts
 * are kept in memory and told to other nodes: secrets have 178 random bits, so throttling saves work and is not needed for their protection.
 *
 * RFC 6749 §2.3.1, RFC 6585 §4
 */
export class FailedAttempts {
  readonly #failures = new LimitedMap<string, EpochSeconds[]>(maxSubjects);
  readonly #clock: Clock;
  readonly #tell: (subject: string) => void;

  /** `tell` tells the other nodes of a failed attempt, where there are any. */
  constructor(clock: Clock, tell: (subject: string) => void = () => {}) {
    this.#clock = clock;
    this.#tell = tell;
  }

  /** Counts an attempt that failed at another node. */
  heard(subject: string): void {
    this.#count(subject);
  }

  /**
   * Runs `act` and counts a failure.
   *
   * @throws {OAuthError} `slow_down`, and what `act` throws
   */
  guard<Answer>({ address, clientId }: Attempt, act: () => Awaitable<Answer>): Awaitable<Answer> {
    const from = `address ${address}`;
    const at = clientId === undefined ? undefined : `client ${clientId.slice(0, 200)}`;
    this.#check(from);
    return whenFailed(act, (error) => {
      if (!(error instanceof OAuthError) || error.code !== 'invalid_client') throw error;
      if (at !== undefined) this.#check(at, error);
      this.#note(from);
      if (at !== undefined) this.#note(at);
      throw error;
    });
  }

  #check(subject: string, cause?: OAuthError): void {
    const recent = this.#recent(subject);
    const oldest = recent[0];
    if (recent.length < maxFailures || oldest === undefined) return;
    const retryAfterSeconds = Math.max(1, oldest + windowSeconds - this.#clock.now());
    throw new OAuthError('slow_down', 'too many failed attempts; try again later', {
      retryAfterSeconds,
      cause,
    });
  }

  #recent(subject: string): EpochSeconds[] {
    const since = this.#clock.now() - windowSeconds;
    return (this.#failures.get(subject) ?? []).filter((at) => at > since);
  }

  #note(subject: string): void {
    this.#count(subject);
    this.#tell(subject);
  }

  #count(subject: string): void {
    const recent = [...this.#recent(subject), this.#clock.now()].slice(-maxFailures);
    this.#failures.set(subject, recent);
  }
}
