import type { Clock, EpochSeconds } from '#model/clock';
import { hashSecret } from '#secrets/secrets';
import {
  insertAttempt,
  clearAttempts,
  type Attempt,
  type EarlierFailures,
  type Failures,
} from '#db/failed-attempts';
import { insertKnownBrowser, listPeopleOfBrowser } from '#db/sessions';
import type { Db } from '#db/transaction';
import { attemptLifeSeconds, knownBrowserLifeSeconds } from '#model/lifetimes';
import { emailKey } from '#model/email';
import { networkOf, widerLengths } from '#model/networks';
import { randomToken } from './sessions.ts';

const quarterHour = 15 * 60;

const codePrefix = 'code:';

/** After `free` failures, each guess must wait 2, 4, 8, … seconds after the previous one, at most `mostSeconds`. */
interface Limit {
  readonly free: number;
  readonly mostSeconds: number;
}

interface SubjectLimits {
  /** Applies to one network, or to one browser that signed in before; an IPv6 network of 56 bits has twice as many free failures, one of 48 bits four times. */
  readonly place: Limit;
  /** Applies to all networks together. Each contributes at most the free failures of a place. */
  readonly everywhere: Limit;
}

/** Guesses from all networks together are limited, to one a minute, only after failures from ten networks. */
const passwordLimits: SubjectLimits = {
  place: { free: 10, mostSeconds: quarterHour },
  everywhere: { free: 100, mostSeconds: 60 },
};

/**
 * A guesser of codes already has the password, and one code in 333,333 is right, so only a few hundred guesses a day
 * are allowed.
 */
const codeLimits: SubjectLimits = {
  place: { free: 5, mostSeconds: quarterHour },
  everywhere: { free: 20, mostSeconds: quarterHour },
};

/** Applies to one network that tries many accounts within a quarter of an hour; wider IPv6 networks have multiples of it, as above. */
const networkLimit: Limit = { free: 30, mostSeconds: quarterHour };

/**
 * Throttles guesses of passwords and codes without locking out the real owner:
 *
 * - Failures are counted by account and place, for a day. A place is a network, or a browser that the person signed
 *   in with before. Whatever one network does, the right password works from every other place.
 * - A network is also limited over all accounts together, which does not affect known browsers.
 * - An IPv6 network is limited again as part of the 56-bit and 48-bit networks around it, since a guesser may have all of
 *   one. Each network contributes at most its own free failures there, so one neighbour alone cannot lock it out.
 * - Guesses from many networks at one account are limited together. That takes ten networks, as each contributes at most
 *   its free failures, so one network can neither cause nor prolong it. From then on, an unknown browser on a new network
 *   may have to wait together with the guessers; known browsers, passkeys and single sign-on do not.
 *
 * OWASP Authentication Cheat Sheet, "Login Throttling"; NIST SP 800-63B-4 §3.2.2
 *
 * @returns `waitSeconds`: the seconds until the guess may be checked. If 0, it may be checked now, and is stored as a
 * failure until `succeeded` is called.
 */
export async function beginGuess(
  attempt: Attempt,
  { db, now }: { db: Db; now: EpochSeconds },
): Promise<{ waitSeconds: number; succeeded: () => Promise<void> }> {
  const { subject, place } = attempt;
  const limits = subject.startsWith(codePrefix) ? codeLimits : passwordLimits;
  const since = { subject: now - attemptLifeSeconds, place: now - quarterHour };
  const around = placesAround(place);
  const waitSeconds = await insertAttempt(db, { ...attempt, around, at: now }, since, (earlier) =>
    longestWait(place, earlier, { limits, now }),
  );
  return {
    waitSeconds,
    // Clears only this place and account: attackers who sign in to their own account must not reset the count of their network.
    succeeded: () => clearAttempts(db, subject, place),
  };
}

/**
 * The subject under which failures of an account are counted, whether or not it exists. Hashed, because people type
 * passwords into the address field, and because the text can have any length.
 */
export function accountSubject(email: string): string {
  return `account:${hashSecret(emailKey(email))}`;
}

/** The subject under which wrong second factors of a person are counted. */
export function codeSubject(userId: string): string {
  return codePrefix + userId;
}

function longestWait(
  place: string,
  { atSubject, nearby }: EarlierFailures,
  { limits, now }: { limits: SubjectLimits; now: EpochSeconds },
): number {
  if (!isNetwork(place)) return secondsToWait(atSubject.get(place), limits.place, now);
  const here = networkWaits(place, atSubject, limits.place, now);
  const anySubject = networkWaits(place, nearby, networkLimit, now);
  const together = widened(here.widest, () => 'everywhere', limits.place.free).get('everywhere');
  return Math.max(
    ...here.waits,
    ...anySubject.waits,
    secondsToWait(together, limits.everywhere, now),
  );
}

/** The waits of a network and of the wider networks around it, and the failures of all the widest networks. */
function networkWaits(
  place: string,
  failures: ReadonlyMap<string, Failures>,
  limit: Limit,
  now: EpochSeconds,
): { waits: number[]; widest: ReadonlyMap<string, Failures> } {
  let widest: ReadonlyMap<string, Failures> = new Map(
    [...failures].filter(([other]) => isNetwork(other)),
  );
  const waits = [secondsToWait(widest.get(place), limit, now)];
  for (const [at, length] of widerLengths.entries()) {
    const free = limit.free * 2 ** at;
    widest = widened(widest, (network) => wider(network, length), free);
    const isWider = wider(place, length) !== place;
    const failed = isWider ? widest.get(wider(place, length)) : undefined;
    waits.push(secondsToWait(failed, { ...limit, free: 2 * free }, now));
  }
  return { waits, widest };
}

/** The failures of wider networks. Each network contributes at most `most`. */
function widened(
  failures: ReadonlyMap<string, Failures>,
  around: (network: string) => string,
  most: number,
): ReadonlyMap<string, Failures> {
  const sums = new Map<string, Failures>();
  for (const [network, { count, lastAt }] of failures) {
    const before = sums.get(around(network)) ?? { count: 0, lastAt: 0 };
    sums.set(around(network), {
      count: before.count + Math.min(count, most),
      lastAt: Math.max(before.lastAt, lastAt),
    });
  }
  return sums;
}

function secondsToWait(
  failures: Failures | undefined,
  { free, mostSeconds }: Limit,
  now: EpochSeconds,
) {
  if (!failures || failures.count < free) return 0;
  const wait = Math.min(mostSeconds, 2 ** Math.min(failures.count - free + 1, 20));
  return Math.max(0, failures.lastAt + wait - now);
}

const networkPrefix = 'network:';

/**
 * The place of a guess at a person's account: the browser, if that person signed in with it before, otherwise the
 * network. A cookie that is invalid or belongs to another person does not make a browser known. OWASP, "Slow Down
 * Online Guessing Attacks with Device Cookies"
 */
export async function placeOf(
  userId: string | undefined,
  { address, deviceToken }: { address: string; deviceToken: string | undefined },
  { db, now }: { db: Db; now: EpochSeconds },
): Promise<string> {
  const network = networkPrefix + networkOf(address);
  if (deviceToken === undefined || userId === undefined) return network;
  const tokenHash = hashSecret(deviceToken);
  const people = await listPeopleOfBrowser(db, tokenHash, now - knownBrowserLifeSeconds);
  return people.includes(userId) ? `browser:${tokenHash}` : network;
}

export function isNetwork(place: string): boolean {
  return place.startsWith(networkPrefix);
}

/**
 * Records a successful sign-in with this browser. Returns the token for its cookie: the presented one if this server
 * issued it, otherwise a new one.
 */
export async function rememberBrowser(
  userId: string,
  deviceToken: string | undefined,
  { db, clock }: { db: Db; clock: Clock },
): Promise<string> {
  const now = clock.now();
  const since = now - knownBrowserLifeSeconds;
  const isOurs =
    deviceToken !== undefined &&
    (await listPeopleOfBrowser(db, hashSecret(deviceToken), since)).length > 0;
  const token = isOurs ? deviceToken : randomToken();
  await insertKnownBrowser(db, hashSecret(token), userId, now);
  return token;
}

/** The place of the wider network around a place; an IPv4 network is returned as it is. */
function wider(place: string, length: number): string {
  return place.includes(':', networkPrefix.length)
    ? place.slice(0, networkPrefix.length + length)
    : place;
}

/** The prefix of all places in the 48-bit network around a place; `undefined` for a browser or an IPv4 network. */
function placesAround(place: string): string | undefined {
  const widest = wider(place, widerLengths.at(-1) ?? 0);
  return isNetwork(place) && widest !== place ? `${widest}:` : undefined;
}
