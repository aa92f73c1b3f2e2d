import { isDeepStrictEqual } from 'node:util';
import { aborted, type Clock } from '#clock/clock';
import { ConfigurationError } from '#config/errors';
import type { Log } from '#log/log';
import type { Bound } from 'latchkey-mcp/tunnel-frames';
import type { AgentConfiguration } from './agent-configuration.ts';
import type { AgentStatus } from './agent-status.ts';
import { followKey, KeptTunnel, type TunnelState, type KeyInUse } from './keep-tunnel.ts';
import { type LocalServer, chunksOf, type LocalAnswer, LocalServerError } from './local-server.ts';
import type { LocalServerSettings } from './local-servers.ts';
import { StreamRefusal, type Responder, type TunnelRequest } from './served-stream.ts';
import type { Dial } from './tunnel.ts';

export type RunAgentPorts = {
  /** The server's URL, for messages. */
  base: string;
  version: string;
  /** Random text, chosen once for this process. */
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

/** How long sessions and children survive without a tunnel, for the next one to continue with. `docs/tunnel.md` */
const orphanedMs = 60_000;
const drainMs = 10_000;

/**
 * Offers the configured servers through the tunnel until `signal` aborts. Then accepts no more calls, waits for open ones,
 * and ends all children.
 *
 * @throws {ConfigurationError} if the configuration is invalid at the start; a later invalid one is ignored
 */
export async function runAgent(ports: RunAgentPorts, signal: AbortSignal): Promise<void> {
  const { base, version, instance, open, status, clock, readConfiguration } = ports;
  const servers = servedServers(readConfiguration(), {
    open,
    clock,
    failed: (server, { message }) => status({ event: 'failed', server, problem: message }),
    recovered: (server) => status({ event: 'recovered', server }),
  });
  let bound: Bound | undefined;
  /** Aborts when a tunnel is there again. */
  let reconnected = new AbortController();

  function reportBound(): void {
    if (!bound) return;
    const { organization, agent, servers: names } = bound;
    const own = servers.names.map(({ name }) => name);
    status({
      event: 'bound',
      organization,
      agent,
      serving: own.filter((name) => names.includes(name)),
      unbound: own.filter((name) => !names.includes(name)),
      unconfigured: names.filter((name) => !own.includes(name)),
    });
  }

  async function forgetLater(): Promise<void> {
    reconnected.abort();
    reconnected = new AbortController();
    const { signal: stillAway } = reconnected;
    await clock.sleep(orphanedMs, stillAway);
    if (!stillAway.aborted) await servers.reset();
  }

  function onState(state: TunnelState): void {
    switch (state.state) {
      case 'connecting':
        return status({ event: 'connecting', server: base });
      case 'connected':
        reconnected.abort();
        return status({ event: 'connected', server: base });
      case 'lost':
        return void forgetLater();
      case 'waiting': {
        const { message, remedy } = state.error;
        return status({ event: 'waiting', problem: message, remedy, seconds: state.seconds });
      }
    }
  }

  const tunnel = new KeptTunnel({
    ...ports,
    responder: servers,
    maxBodyBytes: ports.maxMessageBytes,
    hello: () => ({ version, instance, servers: servers.names }),
    onState,
    bound(now) {
      bound = now;
      servers.bind(now.servers);
      reportBound();
    },
    left: (caller) => void servers.leave(caller),
  });
  const following = { ...ports, watches: ports.watchesKey, renew: async () => tunnel.renew() };
  const checkKey = followKey(following, signal);
  ports.onReload(() => {
    checkKey();
    try {
      servers.configure(readConfiguration());
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      return status({ event: 'not_reloaded', problem: error.message });
    }
    status({ event: 'reloaded', servers: servers.names.map(({ name }) => name) });
    tunnel.hello();
    reportBound();
  });
  await aborted(signal);
  status({ event: 'stopping', calls: tunnel.calls });
  await tunnel.drain(drainMs);
  reconnected.abort();
  await servers.close();
  status({ event: 'stopped' });
}

type Served = {
  settings: LocalServerSettings;
  server: LocalServer;
  calls: number;
  hasFailed: boolean;
};

/** The local servers of an agent, as configured now. */
export interface ServedServers extends Responder {
  readonly names: readonly { name: string; kind: 'stdio' | 'http' }[];

  /** Sets which servers the dashboard binds to this agent. No other is served. */
  bind(names: readonly string[]): void;

  /** Opens servers with new settings. Those with old settings close when their calls have ended. */
  configure(configuration: AgentConfiguration): void;

  /** Ends the sessions and children of a caller that is gone. */
  leave(caller: string): Promise<void>;

  /** Forgets all sessions and ends their children. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

export type ServedServersPorts = {
  open: (settings: LocalServerSettings) => LocalServer;
  clock: Clock;
  /** Called when a call gets no answer. */
  failed: (server: string, error: LocalServerError) => void;
  /** Called when a server answers for the first time since it failed. */
  recovered: (server: string) => void;
};

/** How long calls to a removed server may still take. */
const retiringMs = 60_000;
const checkMs = 500;

export function servedServers(
  configuration: AgentConfiguration,
  { open, clock, failed, recovered }: ServedServersPorts,
): ServedServers {
  const served = new Map<string, Served>();
  const retiring = new Set<Promise<void>>();
  const closing = new AbortController();
  let bound = new Set<string>();

  function configure(changed: AgentConfiguration): void {
    for (const [name, known] of served) {
      if (isDeepStrictEqual(changed.get(name), known.settings)) continue;
      served.delete(name);
      retire(known);
    }
    for (const [name, settings] of changed)
      if (!served.has(name))
        served.set(name, { settings, server: open(settings), calls: 0, hasFailed: false });
  }

  function retire(entry: Served): void {
    const leaving = closeLater(entry).finally(() => retiring.delete(leaving));
    retiring.add(leaving);
  }

  async function closeLater(entry: Served): Promise<void> {
    for (let leftMs = retiringMs; entry.calls > 0 && leftMs > 0; leftMs -= checkMs) {
      if (closing.signal.aborted) break;
      await clock.sleep(checkMs, closing.signal);
    }
    await entry.server.close();
  }

  async function* bodyOf(name: string, { body }: LocalAnswer): AsyncGenerator<Buffer> {
    try {
      yield* chunksOf(body);
    } catch (error) {
      throw refusalOf(name, error);
    }
  }

  function refusalOf(name: string, error: unknown): unknown {
    if (!(error instanceof LocalServerError)) return error;
    const { code, message } = error;
    if (code === 'aborted') return new StreamRefusal('cancelled', message, { cause: error });
    const entry = served.get(name);
    if (entry) entry.hasFailed = true;
    failed(name, error);
    return new StreamRefusal(code, message, { cause: error });
  }

  configure(configuration);
  return {
    get names() {
      return [...served].map(([name, { settings }]) => ({ name, kind: settings.kind }));
    },
    bind(names) {
      bound = new Set(names);
    },
    configure,
    async respond({ server: name, ...request }: TunnelRequest) {
      const entry = bound.has(name) ? served.get(name) : undefined;
      if (!entry) throw new StreamRefusal('unknown_server', 'not served here');
      // An open GET stream does not delay the removal of a server.
      if (request.method !== 'GET') {
        entry.calls += 1;
        request.signal.addEventListener('abort', () => (entry.calls -= 1), { once: true });
      }
      try {
        const answer = await entry.server.send(request);
        if (entry.hasFailed) recovered(name);
        entry.hasFailed = false;
        return { ...answer, body: bodyOf(name, answer) };
      } catch (error) {
        throw refusalOf(name, error);
      }
    },
    async leave(caller) {
      await Promise.all([...served.values()].map(async ({ server }) => server.leave(caller)));
    },
    async reset() {
      await Promise.all([...served.values()].map(async ({ server }) => server.reset()));
    },
    async close() {
      closing.abort();
      const all = [...served.values()].map(async ({ server }) => server.close());
      await Promise.all([...all, ...[...retiring].map(async (leaving) => leaving)]);
    },
  };
}
