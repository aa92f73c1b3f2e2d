import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import { backOffMs } from './back-off.ts';
import type { SignInDoor } from './sign-in-door.ts';

export type KeepTryingPorts = {
  /** What stands between us and the server now. */
  trouble: () => 'offline' | 'signed_out' | undefined;
  /** One attempt; rejects when it failed. */
  reach: () => Promise<unknown>;
  /** Resolves when the next attempt need not wait, and when `signal` aborts. */
  nudged: (signal: AbortSignal) => Promise<void>;
  door: SignInDoor | undefined;
  life: AbortSignal;
  clock: Clock;
  log: Log;
  random: () => number;
};

const offline = { firstMs: 1_000, longestMs: 30_000 };
const signedOut = { firstMs: 2_000, longestMs: 30_000 };

/** A server that was back for less is waited for as long as if it had been away all the time. */
const steadySeconds = 60;

/** Attempts at a server that is away, ever more rarely, until the trouble is over. */
export interface KeepTrying {
  /** Begins, unless it is under way. */
  begin(): Promise<void>;
  /** The server is back. */
  succeeded(): void;
}

export function keepTrying(ports: KeepTryingPorts): KeepTrying {
  const { trouble, reach, nudged, door, life, clock, log, random } = ports;
  let trying = false;
  let attempts = 0;
  let backAt = 0;

  async function begin(): Promise<void> {
    if (trying) return;
    trying = true;
    if (clock.now() - backAt > steadySeconds) attempts = 0;
    for (;;) {
      const before = trouble();
      if (!before || life.aborted) break;
      await pause(backOffMs(attempts, before === 'offline' ? offline : signedOut, random));
      attempts += 1;
      const kind = trouble();
      if (!kind || life.aborted) break;
      // Without a person there is nothing to be tried; whether one has come is asked at no server.
      if (kind === 'signed_out' && !(await signedIn())) continue;
      await reach().catch((error: unknown) => {
        log.debug('server is not there yet', { reason: String(error) });
      });
    }
    trying = false;
  }

  async function signedIn(): Promise<boolean> {
    return door === undefined || door.signedIn().catch(() => false);
  }

  async function pause(ms: number): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([enough.signal, life]);
    await Promise.race([
      clock.sleep(ms, signal),
      nudged(signal),
      ...(trouble() === 'signed_out' ? [signedInWithPage(signal)] : []),
    ]);
    enough.abort();
  }

  async function signedInWithPage(signal: AbortSignal): Promise<void> {
    await door?.shown(signal);
    const page = door?.page();
    if (!page || !(await page.done)) await nudged(signal);
  }

  return { begin, succeeded: () => void (backAt = clock.now()) };
}
