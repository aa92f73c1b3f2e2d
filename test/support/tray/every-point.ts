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
 * Does `work` again and again, and kills the victim one write later each time, until the work is through.
 * Where it killed, in order.
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
    app.killAt(points.length + 1, pid);
    const working = work();
    // What the app never answers is nobody's failure.
    working.catch(() => undefined);
    const told = await Promise.race([working, app.ended.then(() => undefined)]);
    const { passed, killed } = app.points();
    app.killAt(0);
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
