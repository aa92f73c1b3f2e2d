import type { EpochSeconds } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import {
  attemptLifeSeconds,
  type Attempt,
  type AttemptStore,
  type EarlierFailures,
  type Failures,
} from './attempt-store.ts';
import { emailKey } from './email.ts';
import { isNetwork } from './known-browser.ts';

const quarterHour = 15 * 60;

const codePrefix = 'code:';

/** From `free` failures on each guess waits 2, 4, 8, … at most `mostSeconds` after the last one. */
interface Limit {
  readonly free: number;
  readonly mostSeconds: number;
}

interface SubjectLimits {
  /** For one network, or one browser that signed in before. */
  readonly place: Limit;
  /** For all networks together, of which none counts for more than its free failures. */
  readonly everywhere: Limit;
}

/** Ten networks have to fail before they all share what is left: a look a minute. */
const passwordLimits: SubjectLimits = {
  place: { free: 10, mostSeconds: quarterHour },
  everywhere: { free: 100, mostSeconds: 60 },
};

/** Whoever guesses codes has the password already, and one code in 333,333 is right: a few hundred guesses a day. */
const codeLimits: SubjectLimits = {
  place: { free: 5, mostSeconds: quarterHour },
  everywhere: { free: 20, mostSeconds: quarterHour },
};

/** For one network that goes through many accounts, within a quarter of an hour. */
const networkLimit: Limit = { free: 30, mostSeconds: quarterHour };

/**
 * Slows down whoever guesses passwords or codes, so that nobody keeps anybody else out:
 *
 * - Failures are counted by account and place, for a day. A place is a network, or a browser that the person signed in
 *   with before. Whatever one network does, the right password works from every other place.
 * - A network is also held back over all accounts together, which does not concern known browsers.
 * - Guesses from many networks at one account are held back together. It takes ten networks to get there, as each adds
 *   its free failures at most, so one network can neither cause that nor make it last. From then on an unknown browser
 *   on a new network may have to wait in line with the guessers; known browsers, passkeys and single sign-on do not.
 *
 * OWASP Authentication Cheat Sheet, "Login Throttling"; NIST SP 800-63B-4 §3.2.2
 *
 * @returns how many seconds to wait before this guess may be looked at; 0 when it may be now, and then it counts as
 * failed until `succeeded` is called
 */
export async function beginGuess(
  attempt: Attempt,
  { attempts, now }: { attempts: AttemptStore; now: EpochSeconds },
): Promise<{ waitSeconds: number; succeeded: () => Promise<void> }> {
  const { subject, place } = attempt;
  const limits = subject.startsWith(codePrefix) ? codeLimits : passwordLimits;
  const since = { subject: now - attemptLifeSeconds, place: now - quarterHour };
  const waitSeconds = await attempts.begin({ ...attempt, at: now }, since, (earlier) =>
    longestWait(place, earlier, { limits, now }),
  );
  return {
    waitSeconds,
    // From this place and at this account only: whoever has an account must not wash a network clean by signing in.
    succeeded: () => attempts.clear(subject, place),
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

function longestWait(
  place: string,
  { atSubject, fromPlace }: EarlierFailures,
  { limits, now }: { limits: SubjectLimits; now: EpochSeconds },
): number {
  const here = waitOf(atSubject.get(place), limits.place, now);
  if (!isNetwork(place)) return here;
  const networks = [...atSubject].filter(([other]) => isNetwork(other));
  const everywhere = {
    count: sum(networks.map(([, { count }]) => Math.min(count, limits.place.free))),
    lastAt: Math.max(0, ...networks.map(([, { lastAt }]) => lastAt)),
  };
  return Math.max(
    here,
    waitOf(fromPlace, networkLimit, now),
    waitOf(everywhere, limits.everywhere, now),
  );
}

function waitOf(failures: Failures | undefined, { free, mostSeconds }: Limit, now: EpochSeconds) {
  if (!failures || failures.count < free) return 0;
  const wait = Math.min(mostSeconds, 2 ** Math.min(failures.count - free + 1, 20));
  return Math.max(0, failures.lastAt + wait - now);
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
