import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import type { Child } from './child.ts';
import { childSession, type ChildSession } from './child-session.ts';
import { LocalServerError } from './local-server.ts';

export type RunningChildrenOptions = {
  /** Starts one more child. @throws {LocalServerError} */
  start: () => Promise<Child>;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
  /** A session that nobody used for so long ends. */
  sessionIdleSeconds?: number;
  /** The same for the child behind requests without a session. */
  childIdleSeconds?: number;
  maxSessions?: number;
  maxSessionsPerCaller?: number;
};

/** All children that run, also those that nobody can find any more. */
export interface RunningChildren {
  /**
   * Starts one more for `caller`; one that `asksBack` has a session.
   *
   * @throws {LocalServerError} `busy`, `unreachable`
   */
  open(caller: string, asksBack: boolean): Promise<ChildSession>;

  /** Ends those of one caller, or all that run. */
  end(caller?: string): Promise<void>;

  /** The same, and no more are started. */
  close(): Promise<void>;
}

/** Children within bounds, in all and a caller: the longest idle makes room, and who is idle for long ends. */
export function runningChildren(options: RunningChildrenOptions): RunningChildren {
  const { start, clock, log, maxMessageBytes } = options;
  const { sessionIdleSeconds = 1_800, childIdleSeconds = 300 } = options;
  const { maxSessions = 256, maxSessionsPerCaller = 32 } = options;
  const running = new Set<ChildSession>();
  let starting = 0;
  let closed = false;

  async function open(caller: string, asksBack: boolean): Promise<ChildSession> {
    if (closed) throw new LocalServerError('unreachable', 'the server is being closed');
    makeRoom(caller);
    starting += 1;
    const child = await start().finally(() => (starting -= 1));
    const session = childSession(child, { caller, asksBack, maxMessageBytes, clock, log });
    running.add(session);
    void session.ended.then(() => running.delete(session));
    void endWhenIdle(session, asksBack ? sessionIdleSeconds : childIdleSeconds);
    if (closed) await session.end();
    return session;
  }

  /** @throws {LocalServerError} `busy` */
  function makeRoom(caller: string): void {
    const own = [...running].filter((session) => session.caller === caller);
    if (own.length >= maxSessionsPerCaller) {
      const idle = own.filter(({ isBusy }) => !isBusy);
      const [oldest] = idle.sort((a, b) => a.usedAt() - b.usedAt());
      if (!oldest) throw new LocalServerError('busy', 'the caller has as many sessions as it may');
      void oldest.end();
    }
    if (running.size + starting >= maxSessions)
      throw new LocalServerError('busy', `there are ${maxSessions} sessions already`);
  }

  async function endWhenIdle(session: ChildSession, idleSeconds: number): Promise<void> {
    const over = new AbortController();
    void session.ended.then(() => over.abort());
    while (!over.signal.aborted) {
      const left = session.usedAt() + idleSeconds - clock.now();
      if (left <= 0) return session.end();
      await clock.sleep(left * 1_000, over.signal);
    }
  }

  async function end(caller?: string): Promise<void> {
    const ending = [...running].filter((session) => session.caller === (caller ?? session.caller));
    await Promise.all(ending.map(async (session) => session.end()));
  }

  return {
    open,
    end,
    async close() {
      closed = true;
      await end();
    },
  };
}
