import type { Clock, EpochSeconds } from '#clock/clock';
import { OAuthRefusal } from './oauth-refusal.ts';

const maxFailures = 20;
const windowSeconds = 300;
const maxSubjects = 10_000;

/** Whom a failed attempt is laid to: the address it came from, and the client it claimed to be. */
export interface Attempt {
  readonly address: string;
  readonly clientId: string | undefined;
}

/**
 * Slows down whoever guesses client secrets: after twenty failures within five minutes an address is
 * not listened to; a client whose secret was guessed at as often is told so, but its own right secret
 * still counts from elsewhere. Kept in memory: with 178 random bits to guess this spares work, it does
 * not keep the secret.
 *
 * RFC 6749 §2.3.1, RFC 6585 §4
 */
export class FailedAttempts {
  readonly #failures = new Map<string, EpochSeconds[]>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Does what may fail, and notes when it does.
   *
   * @throws {OAuthRefusal} `slow_down`, and what `act` throws
   */
  async guard<Answer>({ address, clientId }: Attempt, act: () => Promise<Answer>): Promise<Answer> {
    const from = `address ${address}`;
    const at = clientId === undefined ? undefined : `client ${clientId.slice(0, 200)}`;
    this.#check(from);
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof OAuthRefusal) || error.code !== 'invalid_client') throw error;
      if (at !== undefined) this.#check(at, error);
      this.#note(from);
      if (at !== undefined) this.#note(at);
      throw error;
    }
  }

  #check(subject: string, cause?: OAuthRefusal): void {
    const recent = this.#recent(subject);
    const oldest = recent[0];
    if (recent.length < maxFailures || oldest === undefined) return;
    const retryAfterSeconds = Math.max(1, oldest + windowSeconds - this.#clock.now());
    throw new OAuthRefusal('slow_down', 'too many failed attempts, try again later', {
      retryAfterSeconds,
      cause,
    });
  }

  #recent(subject: string): EpochSeconds[] {
    const since = this.#clock.now() - windowSeconds;
    return (this.#failures.get(subject) ?? []).filter((at) => at > since);
  }

  #note(subject: string): void {
    const recent = [...this.#recent(subject), this.#clock.now()].slice(-maxFailures);
    // Taken out first, so that the one that failed longest ago is the first to be forgotten.
    this.#failures.delete(subject);
    if (this.#failures.size >= maxSubjects) {
      this.#failures.delete(this.#failures.keys().next().value ?? '');
    }
    this.#failures.set(subject, recent);
  }
}
