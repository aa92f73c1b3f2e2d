import { isDeepStrictEqual } from 'node:util';
import { aborted, type Clock } from '#clock/clock';
import { ConfigurationError } from '#config/errors';
import type { Log } from '#log/log';
import { youngGenerationLimit } from '#pipeline/memory-limits';
import type { Bound } from 'latchkey-mcp/tunnel-frames';
import type { AgentConfiguration } from './agent-configuration.ts';
import type { AgentStatus } from './agent-status.ts';
import { followKey, KeptTunnel, type TunnelState, type KeyInUse } from './keep-tunnel.ts';
import { type LocalServer, LocalServerError } from './local-server.ts';
import type { LocalServerSettings } from './local-servers.ts';
import { StreamRefusal, type Responder, type TunnelRequest } from './served-stream.ts';
import type { Dial } from './tunnel.ts';

export type RunAgentPorts = {
  /** The server's URL, for messages. */
  base: string;
  version: string;
  /** Identifies this process: random text that stays the same for its life. */
  instance: string;
  dial: Dial;
  key: KeyInUse;
  /** Whether to check the key regularly, or only when the configuration is reloaded. */
  watchesKey: boolean;
  open: (settings: LocalServerSettings) => LocalServer;
  /** @throws {ConfigurationError} */
  readConfiguration: () => AgentConfiguration;
  /** Subscribes to requests to reload the configuration and the key. */
  onReload: (reload: () => void) => void;
  network: () => string;
  random: () => number;
  status: AgentStatus;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/**
 * How long sessions and child processes are kept after a tunnel is lost, so that the next tunnel can continue them.
 * `docs/tunnel.md`
 */
const orphanedMs = 60_000;
const drainMs = 10_000;

/**
 * Offers the configured servers through the tunnel until `signal` aborts. Then accepts no more calls, waits for open ones for
 * up to ten seconds, and ends all children.
 *
 * @throws {ConfigurationError} if the configuration is invalid at the start; if it is invalid on a reload, the previous
 *   one stays in use
 */
export async function runAgent(ports: RunAgentPorts, signal: AbortSignal): Promise<void> {
  const agent = new Agent(ports);
  const { watchesKey: watches, onReload } = ports;
  const checkKey = followKey({ ...ports, watches, renew: async () => agent.renew() }, signal);
  onReload(() => {
    checkKey();
    agent.reload();
  });
  await aborted(signal);
  await agent.stop();
}

class Agent {
  readonly #ports: RunAgentPorts;
  readonly #servers: ServedServers;
  readonly #tunnel: KeptTunnel;
  #bound: Bound | undefined;
  /** Cancels the pending `#forgetLater`, for example once a tunnel is connected again. */
  #reconnected = new AbortController();

  constructor(ports: RunAgentPorts) {
    const { version, instance, open, status, clock, readConfiguration, maxMessageBytes } = ports;
    this.#ports = ports;
    const servers = new ServedServers(readConfiguration(), {
      open,
      clock,
      failed: (server, { message }) => status({ event: 'failed', server, problem: message }),
      recovered: (server) => status({ event: 'recovered', server }),
    });
    this.#servers = servers;
    this.#tunnel = new KeptTunnel({
      ...ports,
      responder: servers,
      maxBodyBytes: maxMessageBytes,
      hello: () => ({ version, instance, batches: true, keys: true, servers: servers.names }),
      onState: (state) => this.#noteState(state),
      bound: (bound) => {
        this.#bound = bound;
        servers.bind(bound.servers);
        this.#reportBound();
      },
      left: (caller) => void servers.leave(caller),
    });
  }

  async renew() {
    return this.#tunnel.renew();
  }

  /** Reads the configuration again. */
  reload(): void {
    const { status, readConfiguration } = this.#ports;
    try {
      this.#servers.configure(readConfiguration());
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      return status({ event: 'not_reloaded', problem: error.message });
    }
    status({ event: 'reloaded', servers: this.#servers.names.map(({ name }) => name) });
    this.#tunnel.hello();
    this.#reportBound();
  }

  async stop(): Promise<void> {
    const { status } = this.#ports;
    status({ event: 'stopping', calls: this.#tunnel.calls });
    await this.#tunnel.drain(drainMs);
    this.#reconnected.abort();
    await this.#servers.close();
    status({ event: 'stopped' });
  }

  #noteState(state: TunnelState): void {
    const { status, base } = this.#ports;
    switch (state.state) {
      case 'connecting':
        return status({ event: 'connecting', server: base });
      case 'connected':
        this.#reconnected.abort();
        return status({ event: 'connected', server: base });
      case 'lost':
        return void this.#forgetLater();
      case 'waiting': {
        const { message, remedy } = state.error;
        return status({ event: 'waiting', problem: message, remedy, seconds: state.seconds });
      }
    }
  }

  #reportBound(): void {
    if (!this.#bound) return;
    const { organization, agent, servers: names } = this.#bound;
    const own = this.#servers.names.map(({ name }) => name);
    this.#ports.status({
      event: 'bound',
      organization,
      agent,
      serving: own.filter((name) => names.includes(name)),
      unbound: own.filter((name) => !names.includes(name)),
      unconfigured: names.filter((name) => !own.includes(name)),
    });
  }

  async #forgetLater(): Promise<void> {
    this.#reconnected.abort();
    this.#reconnected = new AbortController();
    const { signal } = this.#reconnected;
    await this.#ports.clock.sleep(orphanedMs, signal);
    if (!signal.aborted) await this.#servers.reset();
  }
}

type Served = {
  settings: LocalServerSettings;
  server: LocalServer;
  calls: number;
  hasFailed: boolean;
};

export type ServedServersPorts = {
  open: (settings: LocalServerSettings) => LocalServer;
  clock: Clock;
  /** Called when a server does not answer a call, or answers only part of it. */
  failed: (server: string, error: LocalServerError) => void;
  /** Called when a server answers for the first time since it failed. */
  recovered: (server: string) => void;
};

/** How long a removed server stays open for its calls. */
const retiringMs = 60_000;
const checkMs = 500;

/** The local servers of an agent, as configured now. */
export class ServedServers implements Responder {
  readonly #ports: ServedServersPorts;
  readonly #served = new Map<string, Served>();
  readonly #retiring = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  readonly #limitYoungGeneration = youngGenerationLimit();
  #bound = new Set<string>();

  constructor(configuration: AgentConfiguration, ports: ServedServersPorts) {
    this.#ports = ports;
    this.configure(configuration);
  }

  get names(): readonly { name: string; kind: 'stdio' | 'http' }[] {
    return [...this.#served].map(([name, { settings }]) => ({ name, kind: settings.kind }));
  }

  /** Sets which servers the dashboard binds to this agent. No other is served. */
  bind(names: readonly string[]): void {
    this.#bound = new Set(names);
  }

  /**
   * Opens servers that are new or whose settings have changed. Removed and outdated ones close when their calls have
   * ended, or after a minute.
   */
  configure(changed: AgentConfiguration): void {
    const served = this.#served;
    for (const [name, known] of served) {
      if (isDeepStrictEqual(changed.get(name), known.settings)) continue;
      served.delete(name);
      const leaving = this.#closeLater(known).finally(() => this.#retiring.delete(leaving));
      this.#retiring.add(leaving);
    }
    for (const [name, settings] of changed)
      if (!served.has(name))
        served.set(name, {
          settings,
          server: this.#ports.open(settings),
          calls: 0,
          hasFailed: false,
        });
  }

  async respond({ server: name, ...request }: TunnelRequest) {
    this.#limitYoungGeneration();
    const entry = this.#bound.has(name) ? this.#served.get(name) : undefined;
    if (!entry) throw new StreamRefusal('unknown_server', 'not served here');
    // An open GET stream does not delay the removal of a server.
    if (request.method !== 'GET') {
      entry.calls += 1;
      request.signal.addEventListener('abort', () => (entry.calls -= 1), { once: true });
    }
    try {
      const answer = await entry.server.send(request);
      if (entry.hasFailed) this.#ports.recovered(name);
      entry.hasFailed = false;
      const { body } = answer;
      return { ...answer, body: body instanceof Uint8Array ? body : this.#bodyOf(name, body) };
    } catch (error) {
      throw this.#refusalOf(name, error);
    }
  }

  /** Ends the sessions and children of a caller that lost access. */
  async leave(caller: string): Promise<void> {
    await Promise.all([...this.#served.values()].map(async ({ server }) => server.leave(caller)));
  }

  /** Forgets all sessions and ends their children. */
  async reset(): Promise<void> {
    await Promise.all([...this.#served.values()].map(async ({ server }) => server.reset()));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const all = [...this.#served.values()].map(async ({ server }) => server.close());
    await Promise.all([...all, ...this.#retiring]);
  }

  async #closeLater(entry: Served): Promise<void> {
    const { signal } = this.#closing;
    for (let leftMs = retiringMs; entry.calls > 0 && leftMs > 0; leftMs -= checkMs) {
      if (signal.aborted) break;
      await this.#ports.clock.sleep(checkMs, signal);
    }
    await entry.server.close();
  }

  async *#bodyOf(name: string, body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    try {
      yield* body;
    } catch (error) {
      throw this.#refusalOf(name, error);
    }
  }

  #refusalOf(name: string, error: unknown): unknown {
    if (!(error instanceof LocalServerError)) return error;
    const { code, message } = error;
    if (code === 'aborted') return new StreamRefusal('cancelled', message, { cause: error });
    const entry = this.#served.get(name);
    if (entry) entry.hasFailed = true;
    this.#ports.failed(name, error);
    return new StreamRefusal(code, message, { cause: error });
  }
}
