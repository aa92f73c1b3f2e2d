import type { Clock, EpochSeconds } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import { knownBrowserLifeSeconds, type KnownBrowserStore } from './known-browser-store.ts';
import { networkOf } from './network-of.ts';
import { randomToken } from './start-session.ts';

const networkPrefix = 'network:';

/**
 * What guesses at a person's account are counted under: the browser, if that person signed in with it before, and
 * else the network. A cookie that is invalid or belongs to another person does not make a browser known.
 * OWASP, "Slow Down Online Guessing Attacks with Device Cookies"
 */
export async function placeOf(
  userId: string | undefined,
  { address, deviceToken }: { address: string; deviceToken: string | undefined },
  { knownBrowsers, now }: { knownBrowsers: Pick<KnownBrowserStore, 'people'>; now: EpochSeconds },
): Promise<string> {
  const network = networkPrefix + networkOf(address);
  if (deviceToken === undefined || userId === undefined) return network;
  const tokenHash = hashSecret(deviceToken);
  const people = await knownBrowsers.people(tokenHash, now - knownBrowserLifeSeconds);
  return people.includes(userId) ? `browser:${tokenHash}` : network;
}

export function isNetwork(place: string): boolean {
  return place.startsWith(networkPrefix);
}

/** Notes that somebody signed in with this browser; the token of its cookie, a new one unless we gave it this one. */
export async function rememberBrowser(
  userId: string,
  deviceToken: string | undefined,
  { knownBrowsers, clock }: { knownBrowsers: KnownBrowserStore; clock: Clock },
): Promise<string> {
  const now = clock.now();
  const since = now - knownBrowserLifeSeconds;
  const isOurs =
    deviceToken !== undefined &&
    (await knownBrowsers.people(hashSecret(deviceToken), since)).length > 0;
  const token = isOurs ? deviceToken : randomToken();
  await knownBrowsers.remember(hashSecret(token), userId, now);
  return token;
}
