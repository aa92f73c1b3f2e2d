import type { Clock, EpochSeconds } from '#clock/clock';
import { tunnel, type Hello, type Tunnel, type TunnelEnd, type TunnelPorts } from './tunnel.ts';
import { TunnelError } from './tunnel-error.ts';
import type { Dial } from './tunnel-socket.ts';

/** How the tunnel stands, for whoever looks. */
export type TunnelState =
  | { state: 'connecting' }
  | { state: 'connected' }
  | { state: 'waiting'; error: TunnelError; seconds: number }
  | { state: 'lost'; reason: string };

export type KeepTunnelPorts = Omit<TunnelPorts, 'hello'> & {
  dial: Dial;
  clock: Clock;
  random: () => number;
  /** What this machine's network looks like; another text when it has changed. */
  network: () => string;
  hello: () => Hello;
  tell: (state: TunnelState) => void;
};

export interface KeptTunnel {
  /** What we are has changed: says so in every tunnel. */
  hello(): void;

  /**
   * Dials anew beside the tunnel that there is, and lets that one go once the new one serves; where there is none, ends
   * the pause before the next, and says `undefined`. `left` resolves when the last call in the one before has ended.
   *
   * @throws {TunnelError} the tunnel that there was stays
   */
  renew(): Promise<{ left: Promise<void> } | undefined>;

  /** Takes nothing new, lets what is under way finish for up to `graceMs`, and is over then. */
  drain(graceMs: number): Promise<void>;

  /** How many tunnels there are, and calls in them. */
  readonly tunnels: number;
  readonly calls: number;
}

type Standing = {
  made: Tunnel;
  sinceAt: EpochSeconds;
  /** Resolves when another serves in its place. */
  replaced: PromiseWithResolvers<'replaced'>;
};

const firstPauseMs = 500;
const longestPauseMs = 30_000;
/** One that stood for so long was good. */
const steadySeconds = 10;
const lookMs = 2_000;
const goingAway = 1001;
const keyRevoked = 4401;

/**
 * Holds a tunnel to the server, and dials again whenever there is none: soon at first, then with growing pauses,
 * and at once when the network has changed. `docs/tunnel.md`, "Being alive"
 */
export function keepTunnel(ports: KeepTunnelPorts): KeptTunnel {
  const { dial, clock, random, network, tell } = ports;
  const stopping = new AbortController();
  const { signal } = stopping;
  const open = new Set<Tunnel>();
  let standing: Standing | undefined;
  let attempt = 0;
  let isHurried = false;

  /** Resolves after `ms`, or as soon as the network is another one or there is reason to hurry. */
  async function pause(ms: number): Promise<void> {
    const before = network();
    for (let left = ms; left > 0 && !signal.aborted; left -= lookMs) {
      await clock.sleep(Math.min(left, lookMs), signal);
      if (network() === before && !isHurried) continue;
      attempt = 0;
      return;
    }
  }

  async function wait(error: TunnelError): Promise<void> {
    const whole = Math.min(firstPauseMs * 2 ** attempt, longestPauseMs);
    const ms = Math.max(whole / 2 + (random() * whole) / 2, error.retryAfterSeconds * 1_000);
    attempt += 1;
    tell({ state: 'waiting', error, seconds: Math.ceil(ms / 1_000) });
    await pause(Math.min(ms, longestPauseMs));
  }

  async function dialled(): Promise<Standing> {
    isHurried = false;
    const made = tunnel({ ...ports, hello: ports.hello() });
    const socket = await dial(made.hears, signal);
    open.add(made);
    void made.over.then(() => open.delete(made));
    made.begin(socket);
    return { made, sinceAt: clock.now(), replaced: Promise.withResolvers() };
  }

  /** One tunnel, until another is wanted. */
  async function once(): Promise<void> {
    if (!standing) {
      tell({ state: 'connecting' });
      const mine = await dialled();
      // A renewal may have been quicker.
      if (standing) void letGo(mine.made);
      standing ??= mine;
      tell({ state: 'connected' });
    }
    const now = standing;
    const { made, sinceAt, replaced } = now;
    const drained = made.drained.then(() => 'drained' as const);
    const end = await Promise.race([made.over, drained, replaced.promise]);
    if (end === 'replaced') return;
    if (standing === now) standing = undefined;
    const stood = clock.now() - sinceAt;
    if (stood >= steadySeconds) attempt = 0;
    if (signal.aborted) return;
    // Of one that the server drains, what is under way goes on beside the next.
    const goesAway = end === 'drained' || end.code === goingAway;
    if (goesAway && stood > 0) return;
    const { code, reason } = end === 'drained' ? { code: goingAway, reason: '' } : end;
    tell({ state: 'lost', reason });
    throw lossOf({ code, reason });
  }

  async function keep(): Promise<void> {
    while (!signal.aborted) {
      try {
        await once();
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof TunnelError)) throw error;
        await wait(error);
      }
    }
  }

  async function letGo(made: Tunnel): Promise<void> {
    await Promise.race([made.leave(), made.over]);
    made.end(1000, 'another took its place');
  }

  const keeping = keep();
  const calls = () => [...open].reduce((sum, { calls: more }) => sum + more, 0);

  return {
    hello() {
      for (const each of open) each.hello(ports.hello());
    },
    async renew() {
      const before = standing;
      isHurried = true;
      if (!before) return undefined;
      const next = await dialled();
      const end = await Promise.race([next.made.greeted, next.made.over]);
      if (end) throw lossOf(end);
      // The one before may have ended meanwhile, and yet another stand in its place.
      const replaced = standing ?? before;
      standing = next;
      isHurried = true;
      replaced.replaced.resolve('replaced');
      return { left: letGo(replaced.made) };
    },
    async drain(graceMs) {
      const passed = new AbortController();
      await Promise.race([
        Promise.all([...open].map(async (each) => each.leave())),
        clock.sleep(graceMs, passed.signal),
      ]);
      passed.abort();
      stopping.abort();
      for (const each of open) each.end(1000, 'the agent stops');
      await keeping;
    },
    get tunnels() {
      return open.size;
    },
    get calls() {
      return calls();
    },
  };
}

function lossOf({ code, reason }: TunnelEnd): TunnelError {
  if (code === keyRevoked)
    return new TunnelError('refused', 'the key was revoked', {
      remedy: 'put another in its place: latchkey agent login, or the key file',
    });
  const why = reason || (code === goingAway ? 'the server is stopping' : `closed with ${code}`);
  return new TunnelError('unreachable', `the tunnel ended: ${why}`);
}
