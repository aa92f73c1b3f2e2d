import type { Clock } from '#clock/clock';
import { tunnel, type Hello, type Tunnel, type TunnelPorts } from './tunnel.ts';
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

  /** Takes nothing new, lets what is under way finish for up to `graceMs`, and is over then. */
  drain(graceMs: number): Promise<void>;

  /** How many tunnels there are, and calls in them. */
  readonly tunnels: number;
  readonly calls: number;
}

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
  let attempt = 0;

  /** Resolves after `ms`, or as soon as the network is another one. */
  async function pause(ms: number): Promise<void> {
    const before = network();
    for (let left = ms; left > 0 && !signal.aborted; left -= lookMs) {
      await clock.sleep(Math.min(left, lookMs), signal);
      if (network() === before) continue;
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

  /** One tunnel, until another is wanted. */
  async function once(): Promise<void> {
    const made = tunnel({ ...ports, hello: ports.hello() });
    const socket = await dial(made.hears, signal);
    const sinceAt = clock.now();
    open.add(made);
    made.begin(socket);
    tell({ state: 'connected' });
    const over = made.over.then((end) => {
      open.delete(made);
      return end;
    });
    const end = await Promise.race([over, made.drained.then(() => undefined)]);
    const stood = clock.now() - sinceAt;
    if (stood >= steadySeconds) attempt = 0;
    if (signal.aborted) return;
    // Of one that the server drains, what is under way goes on beside the next.
    const goesAway = end === undefined || end.code === goingAway;
    if (goesAway && stood > 0) return;
    const reason = end?.reason || (end ? `closed with ${end.code}` : 'the server is stopping');
    if (end?.code === keyRevoked)
      throw new TunnelError('refused', 'the key was revoked', {
        remedy: 'put another in its place: latchkey agent login, or the key file',
      });
    tell({ state: 'lost', reason });
    throw new TunnelError('unreachable', `the tunnel ended: ${reason}`);
  }

  async function keep(): Promise<void> {
    while (!signal.aborted) {
      tell({ state: 'connecting' });
      try {
        await once();
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof TunnelError)) throw error;
        await wait(error);
      }
    }
  }

  const keeping = keep();
  const calls = () => [...open].reduce((sum, { calls: more }) => sum + more, 0);

  return {
    hello() {
      for (const each of open) each.hello(ports.hello());
    },
    async drain(graceMs) {
      for (const each of open) each.hello({ ...ports.hello(), servers: [] });
      const passed = new AbortController();
      await Promise.race([
        Promise.all([...open].map(async (each) => each.idle())),
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
