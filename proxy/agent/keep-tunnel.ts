import { backOffs, randomPauseMs } from '#clock/back-off';
import { isDeepStrictEqual } from 'node:util';
import type { Clock, EpochSeconds } from '#clock/clock';
import { closeCode, type Bound, type Hello } from 'latchkey-mcp/tunnel-frames';
import type { AgentStatus } from './agent-status.ts';
import {
  TunnelError,
  type Dial,
  tunnel,
  type Tunnel,
  type TunnelEnd,
  type TunnelPorts,
} from './tunnel.ts';

/** The state of the tunnel. */
export type TunnelState =
  | { state: 'connecting' }
  | { state: 'connected' }
  | { state: 'waiting'; error: TunnelError; seconds: number }
  | { state: 'lost'; reason: string };

export type KeepTunnelPorts = Omit<TunnelPorts, 'hello'> & {
  dial: Dial;
  clock: Clock;
  random: () => number;
  /** A description of the host's network, which differs after the network has changed. */
  network: () => string;
  hello: () => Hello;
  onState: (state: TunnelState) => void;
};

export interface KeptTunnel {
  /** Sends a changed greeting in every tunnel. */
  hello(): void;

  /**
   * Opens another tunnel, and closes those with the previous key when it serves. If there is no tunnel, ends the pause before the
   * next attempt and returns `undefined`. `drained` resolves when the last call in the others has ended.
   *
   * @throws {TunnelError} the others stay open
   */
  renew(): Promise<{ drained: Promise<void> } | undefined>;

  /** Accepts no more calls, waits up to `graceMs` for open calls, and closes every tunnel. */
  drain(graceMs: number): Promise<void>;

  /** The number of tunnels, and of the calls in them. */
  readonly tunnels: number;
  readonly calls: number;
}

type Connected = {
  tunnel: Tunnel;
  sinceAt: EpochSeconds;
  /** Resolves when another tunnel serves instead of it. */
  replaced: PromiseWithResolvers<'replaced'>;
  /** What the server announced in it last. */
  bound: Bound | undefined;
};

/** A tunnel that lasted this long was stable. */
const stableSeconds = 10;
const checkMs = 2_000;

/**
 * Keeps a tunnel to the server, and a second one to another node of it while it has several. Reconnects with growing pauses,
 * and immediately when the network has changed. `docs/tunnel.md`, "Staying connected" and "Several nodes"
 */
export function keepTunnel(ports: KeepTunnelPorts): KeptTunnel {
  const { dial, clock, random, network, onState } = ports;
  const stopping = new AbortController();
  const { signal } = stopping;
  const open = new Set<Tunnel>();
  let current: Connected | undefined;
  /** Leads to another node than `current`, and takes its place when that ends. */
  let second: Connected | undefined;
  let changed = Promise.withResolvers<void>();
  let forwarded: Bound | undefined;
  let attempt = 0;
  let isRenewing = false;
  let renewals = 0;
  /** Whether `connected` was reported since there was no tunnel. */
  let isReported = false;

  /** Resolves after `ms`, or earlier if the network changes or a renewal is requested. */
  async function pause(ms: number): Promise<void> {
    const before = network();
    for (let left = ms; left > 0 && !signal.aborted; left -= checkMs) {
      await clock.sleep(Math.min(left, checkMs), signal);
      if (network() === before && !isRenewing) continue;
      attempt = 0;
      return;
    }
  }

  async function wait(error: TunnelError): Promise<void> {
    const growingMs = randomPauseMs(backOffs.tunnel, attempt, random);
    const ms = Math.max(growingMs, error.retryAfterSeconds * 1_000);
    attempt += 1;
    onState({ state: 'waiting', error, seconds: Math.ceil(ms / 1_000) });
    await pause(Math.min(ms, backOffs.tunnel.longestMs));
  }

  async function connect(): Promise<Connected> {
    const bound = (now: Bound) => {
      const isFirst = connected.bound === undefined;
      connected.bound = now;
      noteChange();
      forward(now, isFirst && (!current || current === connected));
    };
    const made = tunnel({ ...ports, bound, hello: ports.hello() });
    const connected: Connected = {
      tunnel: made,
      sinceAt: clock.now(),
      replaced: Promise.withResolvers(),
      bound: undefined,
    };
    const socket = await dial(made.events, signal);
    connected.sinceAt = clock.now();
    open.add(made);
    void made.ended.then(() => open.delete(made));
    made.begin(socket);
    return connected;
  }

  /** Every tunnel announces the same servers, each in its own time; what is no news is not reported twice. */
  function forward({ organization, agent, servers }: Bound, isNews: boolean): void {
    const now = { organization, agent, servers };
    if (!isNews && isDeepStrictEqual(now, forwarded)) return;
    forwarded = now;
    ports.bound(now);
  }

  function noteChange(): void {
    changed.resolve();
    changed = Promise.withResolvers();
  }

  /** Connects if there is no tunnel, and waits until another is needed. */
  async function once(): Promise<void> {
    if (!current) {
      isReported = isRenewing = false;
      onState({ state: 'connecting' });
      const connected = await connect();
      // A renewal, or a second tunnel, may have been faster.
      if (current) void release(connected.tunnel);
      current ??= connected;
      noteChange();
    }
    if (!isReported) onState({ state: 'connected' });
    isReported = true;
    const observed = current;
    const { tunnel: connected, sinceAt, replaced } = observed;
    const drained = connected.drained.then(() => 'drained' as const);
    const end = await Promise.race([connected.ended, drained, replaced.promise]);
    if (end === 'replaced') return;
    if (current === observed) {
      current = second;
      second = undefined;
      noteChange();
    }
    if (current) return;
    isReported = false;
    const seconds = clock.now() - sinceAt;
    if (seconds >= stableSeconds) attempt = 0;
    if (signal.aborted) return;
    // Calls in a tunnel that the server drains continue while the next one opens.
    const goesAway = end === 'drained' || end.code === closeCode.goingAway;
    if (goesAway && seconds > 0) return;
    const { code, reason } = end === 'drained' ? { code: closeCode.goingAway, reason: '' } : end;
    onState({ state: 'lost', reason });
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

  /** Whether there is a node that no tunnel leads to, though a second one should. */
  function lacksSecond(): boolean {
    const { node, nodes = [] } = current?.bound ?? {};
    return second === undefined && node !== undefined && nodes.some((other) => other !== node);
  }

  /** Keeps a tunnel to another node. Failures are not reported, since the first tunnel serves. */
  async function keepSecond(): Promise<void> {
    let tries = 0;
    let lastNodes = '';
    while (!signal.aborted) {
      const nodes = knownNodes();
      if (nodes !== lastNodes) tries = 0;
      lastNodes = nodes;
      if (!lacksSecond()) {
        await changed.promise;
        continue;
      }
      const ms = randomPauseMs(backOffs.secondTunnel, tries, random);
      if (!(await pauseAtNodes(nodes, ms))) continue;
      tries = (await openSecond()) ? 0 : tries + 1;
    }
  }

  function knownNodes(): string {
    return current?.bound?.nodes?.join() ?? '';
  }

  /** Waits. `false` as soon as the nodes are others, or no second tunnel is needed. */
  async function pauseAtNodes(nodes: string, ms: number): Promise<boolean> {
    const cancelled = new AbortController();
    const slept = clock.sleep(ms, AbortSignal.any([signal, cancelled.signal])).then(() => true);
    while (!signal.aborted && lacksSecond() && knownNodes() === nodes) {
      if (await Promise.race([slept, changed.promise.then(() => false)])) return !signal.aborted;
    }
    cancelled.abort();
    return false;
  }

  /** `false` if the connection failed, or leads to the node that already has a tunnel. */
  async function openSecond(): Promise<boolean> {
    const renewalsBefore = renewals;
    try {
      const next = await connect();
      const end = await Promise.race([next.tunnel.greeted, next.tunnel.ended]);
      const isUsable = !end && renewals === renewalsBefore && !signal.aborted;
      if (isUsable && !current) {
        // The first tunnel ended in the meantime. Ends the pause before it is dialled again.
        current = next;
        isRenewing = true;
        return true;
      }
      const node = next.bound?.node;
      if (!isUsable || !lacksSecond() || node === undefined || node === current?.bound?.node) {
        void release(next.tunnel);
        return false;
      }
      second = next;
      const { ended, drained } = next.tunnel;
      void Promise.race([ended, drained]).then(() => {
        if (second === next) second = undefined;
        noteChange();
      });
      return true;
    } catch (error) {
      if (!(error instanceof TunnelError)) throw error;
      if (!signal.aborted) ports.log.debug('no second tunnel', { reason: error.message });
      return false;
    }
  }

  async function release(replaced: Tunnel): Promise<void> {
    await Promise.race([replaced.leave(), replaced.ended]);
    replaced.end(1000, 'replaced by another tunnel');
  }

  const keeping = Promise.all([keep(), keepSecond()]);
  const calls = () => [...open].reduce((sum, { calls: more }) => sum + more, 0);

  return {
    hello() {
      for (const each of open) each.hello(ports.hello());
    },
    async renew() {
      const before = current;
      isRenewing = true;
      if (!before) return undefined;
      isRenewing = false;
      const next = await connect();
      const end = await Promise.race([next.tunnel.greeted, next.tunnel.ended]);
      if (end) throw lossOf(end);
      // In the meantime, the first tunnel may have ended and been replaced.
      const old = current ?? before;
      current = next;
      isRenewing = true;
      renewals += 1;
      old.replaced.resolve('replaced');
      const withOldKey = [old, second].flatMap((one) => one?.tunnel ?? []);
      second = undefined;
      noteChange();
      return {
        drained: Promise.all(withOldKey.map(async (each) => release(each))).then(() => undefined),
      };
    },
    async drain(graceMs) {
      const passed = new AbortController();
      await Promise.race([
        Promise.all([...open].map(async (each) => each.leave())),
        clock.sleep(graceMs, passed.signal),
      ]);
      passed.abort();
      stopping.abort();
      noteChange();
      for (const each of open) each.end(1000, 'the agent is stopping');
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
  if (code === closeCode.revoked)
    return new TunnelError('refused', 'the key was revoked', {
      remedy: 'replace the key with latchkey agent login, or in the key file',
    });
  const why =
    reason ||
    (code === closeCode.goingAway ? 'the server is stopping' : `closed with code ${code}`);
  return new TunnelError('unreachable', `the tunnel ended: ${why}`);
}

/** The agent's key, and whether it has changed. */
export interface KeyInUse {
  /** The current key, for a connection. @throws {TunnelError} */
  read: () => Promise<string>;

  /** Whether the key differs from that of the last connection. @throws {TunnelError} */
  hasChanged: () => Promise<boolean>;
}

export function keyInUse(readKeySecret: () => Promise<string>): KeyInUse {
  let usedSecret: string | undefined;
  return {
    async read() {
      usedSecret = await readKeySecret();
      return usedSecret;
    },
    hasChanged: async () => (await readKeySecret()) !== usedSecret,
  };
}

export type FollowKeyPorts = {
  key: KeyInUse;
  /** Whether to check the key regularly. A keychain may prompt the user, so it is checked on request only. */
  watches: boolean;
  /** Returns `undefined` if there was no tunnel to replace. @throws {TunnelError} */
  renew: KeptTunnel['renew'];
  status: AgentStatus;
  clock: Clock;
};

/**
 * Replaces the tunnel when the key has changed, so that the old key can be revoked without losing calls. The returned
 * function checks the key immediately.
 */
export function followKey(ports: FollowKeyPorts, signal: AbortSignal): () => void {
  const { key, watches, renew, status, clock } = ports;
  let isChecking = false;
  /** Whether the tunnel still has to be replaced. */
  let isPending = false;
  let lastProblem = '';
  let reported = '';

  async function check(isRequested: boolean): Promise<void> {
    if (isChecking) return;
    isChecking = true;
    try {
      if (isPending || (await key.hasChanged())) await replace();
      lastProblem = reported = '';
    } catch (error) {
      if (!(error instanceof TunnelError)) throw error;
      if (signal.aborted) return;
      // A key that was refused is not tried again until it changes.
      isPending = error.code === 'unreachable' || error.code === 'busy';
      const { message: problem, remedy } = error;
      // The key file may be incomplete while it is being written: that is reported if it persists.
      const isCertain = isRequested || lastProblem === problem || error.code !== 'unreadable';
      lastProblem = problem;
      if (isCertain && reported !== problem) status({ event: 'key_not_replaced', problem, remedy });
      if (isCertain) reported = problem;
    } finally {
      isChecking = false;
    }
  }

  async function replace(): Promise<void> {
    const renewed = await renew();
    isPending = false;
    if (!renewed) return;
    status({ event: 'key_replaced' });
    void renewed.drained.then(() => signal.aborted || status({ event: 'key_unused' }));
  }

  async function watch(): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(checkMs, signal);
      if (!signal.aborted) await check(false);
    }
  }

  if (watches) void watch();
  return () => void check(true);
}
