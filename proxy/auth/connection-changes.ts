import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '#clock/clock';

export type ChangesPorts<View> = {
  /** How everything is now. */
  view: () => Promise<View>;
  /** Resolves at the next news, or when the signal aborts. */
  news: (signal: AbortSignal) => Promise<void>;
  /** Files and folders whose change is news, too. */
  places: readonly string[];
  clock: Clock;
};

const lookMs = 1_000;
/** So many looks without news, then everything is read again: a keychain tells nobody. */
const mostLooks = 15;
/** A proxy with many calls is news all the time. */
const restMs = 250;

/** What there is, then again whenever it is different, until `signal` aborts. */
export async function* connectionChanges<View>(
  { view, news, places, clock }: ChangesPorts<View>,
  signal: AbortSignal,
): AsyncGenerator<View, void> {
  let last = '';
  while (!signal.aborted) {
    const enough = new AbortController();
    const until = AbortSignal.any([signal, enough.signal]);
    // What happens while everything is read is news for the next time.
    const before = await fingerprint(places);
    const heard = news(until);
    const now = await view();
    const text = JSON.stringify(now);
    if (text !== last) {
      last = text;
      yield now;
    }
    await Promise.race([heard, changed(before, until)]);
    enough.abort();
    await clock.sleep(restMs, signal);
  }

  async function changed(before: string, until: AbortSignal): Promise<void> {
    for (let looks = 0; looks < mostLooks && !until.aborted; looks += 1) {
      await clock.sleep(lookMs, until);
      if (!until.aborted && (await fingerprint(places)) !== before) return;
    }
  }
}

/** When each of the places was last written to, and everything in those that are folders. */
async function fingerprint(places: readonly string[]): Promise<string> {
  const times = places.map(async (place) => {
    const names = await readdir(place).catch((): string[] => []);
    const paths = [place, ...names.map((name) => join(place, name))];
    const stats = paths.map(async (path) => stat(path).then(inWords, () => ''));
    return (await Promise.all(stats)).join();
  });
  return (await Promise.all(times)).join(';');
}

const inWords = ({ mtimeMs, size, ino }: { mtimeMs: number; size: number; ino: number }) =>
  `${mtimeMs} ${size} ${ino}`;
