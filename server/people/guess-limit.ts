import type { EpochSeconds } from '#clock/clock';
import type { AttemptStore } from './attempt-store.ts';
import { emailKey } from './email.ts';
import { networkOf } from './network-of.ts';

const windowSeconds = 15 * 60;

/** Nobody has a longer address, and whoever types one must not fill the table with it. */
const mostKept = 320;

interface Limit {
  /** Failures within 15 minutes that cost nothing. */
  readonly free: number;
  readonly mostSeconds: number;
}

/** From here on each guess at one account waits 2, 4, 8, … at most 60 seconds after the last. */
const accountLimit: Limit = { free: 10, mostSeconds: 60 };

/** An address that goes through many accounts waits longer, as nobody else is locked out by that. */
const addressLimit: Limit = { free: 30, mostSeconds: windowSeconds };

/**
 * Slows down who guesses passwords, per account from anywhere and per address at any account. Nobody is
 * ever locked out: the right password from elsewhere works after at most a minute, a passkey at once.
 * OWASP Authentication Cheat Sheet, "Login Throttling"
 *
 * @returns how many seconds to wait before this attempt may be looked at; 0 when it may be at once, and
 * then it counts as failed until `succeeded` is called
 */
export async function beginGuess(
  { email, address }: { email: string; address: string },
  { attempts, now }: { attempts: AttemptStore; now: EpochSeconds },
): Promise<{ waitSeconds: number; succeeded: () => Promise<void> }> {
  const account = accountSubject(email);
  const place = `address:${networkOf(address)}`;
  const since = now - windowSeconds;
  const waitSeconds = Math.max(
    waitOf(await attempts.begin(account, now, since), accountLimit, now),
    waitOf(await attempts.begin(place, now, since), addressLimit, now),
  );
  if (waitSeconds > 0) {
    await attempts.forgive(account, now);
    await attempts.forgive(place, now);
  }
  return {
    waitSeconds,
    succeeded: async () => {
      await attempts.clear(account);
      // Only this one: whoever has an account of their own must not wash their address clean with it.
      await attempts.forgive(place, now);
    },
  };
}

/** What failures of one account are counted under, whether or not anybody has it. */
export function accountSubject(email: string): string {
  return `account:${emailKey(email).slice(0, mostKept)}`;
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
