import { backOffs, randomPauseMs } from '#clock/back-off';
import { isDeepStrictEqual } from 'node:util';
import type { Clock, EpochSeconds } from '#clock/clock';
import { closeCode, type Bound, type Hello } from 'latchkey-mcp/tunnel-frames';
import type { AgentStatus } from './agent-status.ts';
import { TunnelError, type Dial, Tunnel, type TunnelEnd, type TunnelPorts } from './tunnel.ts';

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

type Connected = {
  tunnel: Tunnel;
  sinceAt: EpochSeconds;
  /** Resolves when another tunnel has taken its place. */
  replaced: PromiseWithResolvers<'replaced'>;
  /** The latest BOUND that the server sent through this tunnel. */
  bound: Bound | undefined;
};

/** A tunnel that lasted this long was stable. */
const stableSeconds = 10;
const checkMs = 2_000;

/**
 * Keeps a tunnel to the server and, while the server has several nodes, a second tunnel to another node. Reconnects
 * with growing pauses, and immediately when the network has changed. `docs/tunnel.md`, "Staying connected" and "Several
 * nodes"
 */
export class KeptTunnel {
  readonly #ports: KeepTunnelPorts;
  readonly #stopping = new AbortController();
  readonly #signal = this.#stopping.signal;
  readonly #open = new Set<Tunnel>();
  #current: Connected | undefined;
  /** A tunnel to a different node than that of `#current`. It takes over when `#current` ends. */
  #second: Connected | undefined;
  #changed = Promise.withResolvers<void>();
  #forwarded: Bound | undefined;
  #attempt = 0;
  #isRenewing = false;
  #renewals = 0;
  /** Whether `connected` has been reported since the agent was last without a tunnel. */
  #isReported = false;
  readonly #keeping;

  constructor(ports: KeepTunnelPorts) {
    this.#ports = ports;
    this.#keeping = Promise.all([this.#keep(), this.#keepSecond()]);
  }

  /** Sends a changed greeting in every tunnel. */
  hello(): void {
    for (const each of this.#open) each.hello(this.#ports.hello());
  }

  /**
   * Opens a new tunnel and, once it serves, closes the tunnels with the previous key. If there is no tunnel, ends the pause
   * before the next attempt and returns `undefined`. `drained` resolves when the last call in the old tunnels has
   * ended.
   *
   * @throws {TunnelError} the old tunnels then stay open
   */
  async renew(): Promise<{ drained: Promise<void> } | undefined> {
    const before = this.#current;
    this.#isRenewing = true;
    if (!before) return undefined;
    this.#isRenewing = false;
    const next = await this.#connect();
    const end = await Promise.race([next.tunnel.greeted, next.tunnel.ended]);
    if (end) throw lossOf(end);
    // In the meantime, the first tunnel may have ended and been replaced.
    const old = this.#current ?? before;
    this.#current = next;
    this.#isRenewing = true;
    this.#renewals += 1;
    old.replaced.resolve('replaced');
    const withOldKey = [old, this.#second].flatMap((one) => one?.tunnel ?? []);
    this.#second = undefined;
    this.#noteChange();
    return {
      drained: Promise.all(withOldKey.map(async (each) => this.#release(each))).then(
        () => undefined,
      ),
    };
  }

  /** Accepts no more calls, waits up to `graceMs` for open calls, and closes every tunnel. */
  async drain(graceMs: number): Promise<void> {
    const passed = new AbortController();
    await Promise.race([
      Promise.all([...this.#open].map(async (each) => each.leave())),
      this.#ports.clock.sleep(graceMs, passed.signal),
    ]);
    passed.abort();
    this.#stopping.abort();
    this.#noteChange();
    for (const each of this.#open) each.end(1000, 'the agent is stopping');
    await this.#keeping;
  }

  /** The number of open tunnels. */
  get tunnels(): number {
    return this.#open.size;
  }

  get calls(): number {
    return [...this.#open].reduce((sum, { calls }) => sum + calls, 0);
  }

  /** Resolves after `ms`, or earlier if the network changes or a renewal is requested. */
  async #pause(ms: number): Promise<void> {
    const before = this.#ports.network();
    for (let left = ms; left > 0 && !this.#signal.aborted; left -= checkMs) {
      await this.#ports.clock.sleep(Math.min(left, checkMs), this.#signal);
      if (this.#ports.network() === before && !this.#isRenewing) continue;
      this.#attempt = 0;
      return;
    }
  }

  async #wait(error: TunnelError): Promise<void> {
    const growingMs = randomPauseMs(backOffs.tunnel, this.#attempt, this.#ports.random);
    const ms = Math.max(growingMs, error.retryAfterSeconds * 1_000);
    this.#attempt += 1;
    this.#ports.onState({ state: 'waiting', error, seconds: Math.ceil(ms / 1_000) });
    await this.#pause(Math.min(ms, backOffs.tunnel.longestMs));
  }

  async #connect(): Promise<Connected> {
    const bound = (now: Bound) => {
      const isFirst = connected.bound === undefined;
      connected.bound = now;
      this.#noteChange();
      this.#forward(now, isFirst && (!this.#current || this.#current === connected));
    };
    const made = new Tunnel({ ...this.#ports, bound, hello: this.#ports.hello() });
    const connected: Connected = {
      tunnel: made,
      sinceAt: this.#ports.clock.now(),
      replaced: Promise.withResolvers(),
      bound: undefined,
    };
    const socket = await this.#ports.dial(made.events, this.#signal);
    connected.sinceAt = this.#ports.clock.now();
    this.#open.add(made);
    void made.ended.then(() => this.#open.delete(made));
    made.begin(socket);
    return connected;
  }

  /**
   * Reports which servers are bound. Every tunnel announces the same servers, but at different times; repetitions are
   * not reported.
   */
  #forward({ organization, agent, servers }: Bound, isNews: boolean): void {
    const now = { organization, agent, servers };
    if (!isNews && isDeepStrictEqual(now, this.#forwarded)) return;
    this.#forwarded = now;
    this.#ports.bound(now);
  }

  #noteChange(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Connects if there is no tunnel. Returns when the current tunnel ends, drains or is replaced. */
  async #once(): Promise<void> {
    if (!this.#current) {
      this.#isReported = this.#isRenewing = false;
      this.#ports.onState({ state: 'connecting' });
      const connected = await this.#connect();
      // A renewal, or a second tunnel, may have been faster.
      if (this.#current) void this.#release(connected.tunnel);
      this.#current ??= connected;
      this.#noteChange();
    }
    if (!this.#isReported) this.#ports.onState({ state: 'connected' });
    this.#isReported = true;
    const observed = this.#current;
    const { tunnel: connected, sinceAt, replaced } = observed;
    const drained = connected.drained.then(() => 'drained' as const);
    const end = await Promise.race([connected.ended, drained, replaced.promise]);
    if (end === 'replaced') return;
    if (this.#current === observed) {
      this.#current = this.#second;
      this.#second = undefined;
      this.#noteChange();
    }
    if (this.#current) return;
    this.#isReported = false;
    const seconds = this.#ports.clock.now() - sinceAt;
    if (seconds >= stableSeconds) this.#attempt = 0;
    if (this.#signal.aborted) return;
    // Calls in a tunnel that the server drains continue while the next one opens.
    const goesAway = end === 'drained' || end.code === closeCode.goingAway;
    if (goesAway && seconds > 0) return;
    const { code, reason } = end === 'drained' ? { code: closeCode.goingAway, reason: '' } : end;
    this.#ports.onState({ state: 'lost', reason });
    throw lossOf({ code, reason });
  }

  async #keep(): Promise<void> {
    while (!this.#signal.aborted) {
      try {
        await this.#once();
      } catch (error) {
        if (this.#signal.aborted) return;
        if (!(error instanceof TunnelError)) throw error;
        await this.#wait(error);
      }
    }
  }

  /** Whether a second tunnel is missing, although there is another node for it to lead to. */
  #lacksSecond(): boolean {
    const { node, nodes = [] } = this.#current?.bound ?? {};
    return (
      this.#second === undefined && node !== undefined && nodes.some((other) => other !== node)
    );
  }

  /** Keeps a tunnel to another node. Failures are not reported, since the first tunnel serves. */
  async #keepSecond(): Promise<void> {
    let tries = 0;
    let lastNodes = '';
    while (!this.#signal.aborted) {
      const nodes = this.#knownNodes();
      if (nodes !== lastNodes) tries = 0;
      lastNodes = nodes;
      if (!this.#lacksSecond()) {
        await this.#changed.promise;
        continue;
      }
      const ms = randomPauseMs(backOffs.secondTunnel, tries, this.#ports.random);
      if (!(await this.#pauseAtNodes(nodes, ms))) continue;
      tries = (await this.#openSecond()) ? 0 : tries + 1;
    }
  }

  #knownNodes(): string {
    return this.#current?.bound?.nodes?.join() ?? '';
  }

  /** Waits for `ms`. Resolves to `false` as soon as the set of nodes changes or no second tunnel is needed. */
  async #pauseAtNodes(nodes: string, ms: number): Promise<boolean> {
    const cancelled = new AbortController();
    const slept = this.#ports.clock
      .sleep(ms, AbortSignal.any([this.#signal, cancelled.signal]))
      .then(() => true);
    while (!this.#signal.aborted && this.#lacksSecond() && this.#knownNodes() === nodes) {
      if (await Promise.race([slept, this.#changed.promise.then(() => false)]))
        return !this.#signal.aborted;
    }
    cancelled.abort();
    return false;
  }

  /** Opens a tunnel to another node. `false` if that failed, or if the tunnel leads to the node that already has one. */
  async #openSecond(): Promise<boolean> {
    const renewalsBefore = this.#renewals;
    try {
      const next = await this.#connect();
      const end = await Promise.race([next.tunnel.greeted, next.tunnel.ended]);
      const isUsable = !end && this.#renewals === renewalsBefore && !this.#signal.aborted;
      if (isUsable && !this.#current) {
        // The first tunnel ended in the meantime. This one takes its place, and the pause before the next attempt ends.
        this.#current = next;
        this.#isRenewing = true;
        return true;
      }
      const node = next.bound?.node;
      if (
        !isUsable ||
        !this.#lacksSecond() ||
        node === undefined ||
        node === this.#current?.bound?.node
      ) {
        void this.#release(next.tunnel);
        return false;
      }
      this.#second = next;
      const { ended, drained } = next.tunnel;
      void Promise.race([ended, drained]).then(() => {
        if (this.#second === next) this.#second = undefined;
        this.#noteChange();
      });
      return true;
    } catch (error) {
      if (!(error instanceof TunnelError)) throw error;
      if (!this.#signal.aborted)
        this.#ports.log.debug('no second tunnel', { reason: error.message });
      return false;
    }
  }

  async #release(replaced: Tunnel): Promise<void> {
    await Promise.race([replaced.leave(), replaced.ended]);
    replaced.end(1000, 'replaced by another tunnel');
  }
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

export function keyInUse(readKeySecret: () => Promise<string>) {
  let usedSecret: string | undefined;
  return {
    /** The current key, for a connection. @throws {TunnelError} */
    read: async (): Promise<string> => {
      usedSecret = await readKeySecret();
      return usedSecret;
    },
    /** Whether the key differs from that of the last connection. @throws {TunnelError} */
    hasChanged: async () => (await readKeySecret()) !== usedSecret,
  };
}

/** The agent's key, and whether it has changed. */
export type KeyInUse = ReturnType<typeof keyInUse>;

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
      // The key file may be incomplete while it is being written, so that problem is reported only if it persists.
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
