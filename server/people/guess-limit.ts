import type { EpochSeconds } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import type { AttemptStore } from './attempt-store.ts';
import { emailKey } from './email.ts';
import { networkOf } from './network-of.ts';

const windowSeconds = 15 * 60;

const codePrefix = 'code:';

interface Limit {
  /** Failures within the window that cost nothing. */
  readonly free: number;
  readonly mostSeconds: number;
  readonly windowSeconds: number;
}

/** From here on each guess at one account waits 2, 4, 8, … at most 60 seconds after the last. */
const accountLimit: Limit = { free: 10, mostSeconds: 60, windowSeconds };

/** An address that goes through many accounts waits longer, as nobody else is locked out by that. */
const addressLimit: Limit = { free: 30, mostSeconds: windowSeconds, windowSeconds };

/** Only who has the password gets to guess codes, of which one in 333,333 is right: a hundred a day at most. */
const codeLimit: Limit = { free: 5, mostSeconds: windowSeconds, windowSeconds: 24 * 60 * 60 };

/**
 * Slows down who guesses passwords or codes, per account from anywhere and per address at any account. Nobody is
 * ever locked out: the right password from elsewhere works after at most a minute, a passkey at once.
 * OWASP Authentication Cheat Sheet, "Login Throttling"
 *
 * @returns how many seconds to wait before this attempt may be looked at; 0 when it may be at once, and
 * then it counts as failed until `succeeded` is called
 */
export async function beginGuess(
  { subject, address }: { subject: string; address: string },
  { attempts, now }: { attempts: AttemptStore; now: EpochSeconds },
): Promise<{ waitSeconds: number; succeeded: () => Promise<void> }> {
  const place = `address:${networkOf(address)}`;
  const begin = async (what: string, limit: Limit) =>
    waitOf(await attempts.begin(what, now, now - limit.windowSeconds), limit, now);
  const own = subject.startsWith(codePrefix) ? codeLimit : accountLimit;
  const waitSeconds = Math.max(await begin(subject, own), await begin(place, addressLimit));
  if (waitSeconds > 0) {
    await attempts.forgive(subject, now);
    await attempts.forgive(place, now);
  }
  return {
    waitSeconds,
    succeeded: async () => {
      await attempts.clear(subject);
      // Only this one: whoever has an account of their own must not wash their address clean with it.
      await attempts.forgive(place, now);
    },
  };
}

/**
 * What failures of one account are counted under, whether or not anybody has it: the SHA-256 of what was typed, as
 * a password that somebody types in the place of an address must not lie in a table, nor a book.
 */
export function accountSubject(email: string): string {
  return `account:${hashSecret(emailKey(email))}`;
}

/** What wrong second factors of a person are counted under. */
export function codeSubject(userId: string): string {
  return codePrefix + userId;
}

function waitOf(
  { count, lastAt }: { count: number; lastAt: EpochSeconds },
  { free, mostSeconds }: Limit,
  now: EpochSeconds,
): number {
  if (count < free) return 0;
  const wait = Math.min(mostSeconds, 2 ** Math.min(count - free + 1, 20));
  return Math.max(0, lastAt + wait - now);
}
