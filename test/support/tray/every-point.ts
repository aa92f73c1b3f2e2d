import type { ProxyProcess } from '../proxy-process.ts';
import type { KillBench, Told, Victim } from './kill-bench.ts';

export type EveryPoint = {
  victim: Victim;
  /** Starts the proxy that is the victim, where one is. */
  start: () => ProxyProcess;
  work: () => Promise<Told>;
  /** Looks at what is left, and makes all ready for the next time. `told` is nothing when the app died. */
  after: (told: Told | undefined, point: string) => Promise<void>;
};

/** No work writes as often as that. */
const most = 60;

/**
 * Does `work` again and again, and kills the victim each time just before the first write at which it has not been killed yet,
 * until the work is through. Writes are told apart by their names and not by their number, which varies: a keychain that was
 * restarted knows no session from before, and then the app writes a secret a second time. Where it killed, in order.
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
    // What the app never answers is nobody's failure.
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
