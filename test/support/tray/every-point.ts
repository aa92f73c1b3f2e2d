import type { ProxyProcess } from '../proxy-process.ts';
import type { KillBench, Told, Victim } from './kill-bench.ts';

export type EveryPoint = {
  victim: Victim;
  /** Starts the proxy, if that is the victim. */
  start: () => ProxyProcess;
  work: () => Promise<Told>;
  /** Checks what is left, and prepares the next time. `told` is `undefined` when the app died. */
  after: (told: Told | undefined, point: string) => Promise<void>;
};

/** More kills than any work has writes. */
const most = 60;

/**
 * Does `work` again and again, and kills the victim each time just before the first write at which it has not been killed yet,
 * until the work completes. Writes are told apart by name and not by number, which varies: a restarted keychain does not know
 * earlier sessions, and then the app writes a secret a second time. Returns the writes before which it killed, in order.
 */
export async function everyPoint(
  bench: KillBench,
  { victim, start, work, after }: EveryPoint,
): Promise<string[]> {
  const points: string[] = [];
  while (points.length < most) {
    await using proxy = victim === 'proxy' ? start() : undefined;
    await proxy?.handshake();
    const app = bench.app();
    const pid = { app: 0, keyring: bench.keyringPid(), proxy: proxy?.pid ?? 0 }[victim];
    app.killAt({ not: points }, pid);
    const working = work();
    // A request that the app never answers is no failure.
    working.catch(() => undefined);
    const told = await Promise.race([working, app.ended.then(() => undefined)]);
    const { passed, killed } = app.points();
    app.killNobody();
    if (!killed) {
      if (!told) throw new Error(`the app ended by itself: ${app.stderr()}`);
      if (!told.ok) throw new Error(`it was refused: ${JSON.stringify(told)}`);
      return points;
    }
    const point = passed.at(-1) ?? '';
    points.push(point);
    await bench.recover(victim);
    await after(told, point);
  }
  throw new Error(`it never came through: ${points.join(', ')}`);
}
