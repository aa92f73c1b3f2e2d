import { type Awaitable, whenFailed } from '#model/awaitable';
import type { Clock } from '#model/clock';
import { SlidingWindow } from '#model/sliding-window';
import { OAuthError } from './oauth-error.ts';

const maxFailures = 20;
const window = { seconds: 300, maxNames: 10_000 };

/** The subjects that a failed attempt is counted against: its network address and the client that it claimed to be. */
export interface Attempt {
  readonly address: string;
  readonly clientId: string | undefined;
}

/**
 * Throttles guesses of client secrets. After twenty failures within five minutes, an address is refused. After twenty
 * wrong secrets for one client, that client is refused too, except from other addresses with the right secret. Counts
 * are kept in memory and sent to other nodes. Throttling only saves work: secrets have 178 random bits, so they cannot be guessed.
 *
 * RFC 6749 §2.3.1, RFC 6585 §4
 */
export class FailedAttempts {
  readonly #failures: SlidingWindow;
  readonly #tell: (subject: string) => void;

  /** `tell` reports a failed attempt to the other nodes, if there are any. */
  constructor(clock: Clock, tell: (subject: string) => void = () => {}) {
    this.#failures = new SlidingWindow(clock, window);
    this.#tell = tell;
  }

  /** Counts an attempt that failed at another node. */
  noteFailure(subject: string): void {
    this.#failures.count(subject, maxFailures);
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
    const retryAfterSeconds = this.#failures.secondsUntilFree(subject, maxFailures);
    if (retryAfterSeconds === 0) return;
    throw new OAuthError('slow_down', 'too many failed attempts; try again later', {
      retryAfterSeconds,
      cause,
    });
  }

  #note(subject: string): void {
    this.#failures.count(subject, maxFailures);
    this.#tell(subject);
  }
}
