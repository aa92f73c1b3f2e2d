import { ConfigurationError } from '#config/errors';
import type { Clock } from '#clock/clock';
import type { LocalServer } from './local-server.ts';
import type { LocalServerSettings } from './local-servers.ts';
import type { Log } from '#log/log';
import { keepTunnel, type TunnelState } from './keep-tunnel.ts';
import type { Bound } from './payloads.ts';
import type { Dial } from './tunnel-socket.ts';
import type { AgentConfiguration } from './agent-configuration.ts';
import type { AgentStatus } from './agent-status.ts';
import { followKey } from './follow-key.ts';
import type { KeyInUse } from './key-in-use.ts';
import { servedServers } from './served-servers.ts';

export type RunAgentPorts = {
  /** The server's URL, to be shown. */
  base: string;
  version: string;
  /** Random text, one for the life of this process. */
  instance: string;
  dial: Dial;
  key: KeyInUse;
  /** Whether the key is looked at by itself, or only when the configuration is read again. */
  watchesKey: boolean;
  open: (settings: LocalServerSettings) => LocalServer;
  /** @throws {ConfigurationError} */
  readConfiguration: () => AgentConfiguration;
  /** Calls back whenever the configuration, and the key, are to be read again. */
  onReload: (reload: () => void) => void;
  network: () => string;
  random: () => number;
  status: AgentStatus;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/** What sessions and children outlive the tunnel, so that the next one finds them. `docs/tunnel.md` */
const orphanedMs = 60_000;
const drainMs = 10_000;

/**
 * Serves the configured servers to the cloud until `signal` aborts; then takes nothing new, lets what is under way
 * finish, and leaves no child behind.
 *
 * @throws {ConfigurationError} when the configuration is of no use at the start; later the one before stays
 */
export async function runAgent(ports: RunAgentPorts, signal: AbortSignal): Promise<void> {
  const { base, version, instance, open, status, clock, readConfiguration } = ports;
  const servers = servedServers(readConfiguration(), {
    open,
    clock,
    failed: (server, { message }) => status({ event: 'failed', server, problem: message }),
  });
  let bound: Bound | undefined;
  /** Ends the wait for another tunnel. */
  let together = new AbortController();

  function tellBound(): void {
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
    together.abort();
    together = new AbortController();
    const { signal: reunited } = together;
    await clock.sleep(orphanedMs, reunited);
    if (!reunited.aborted) await servers.reset();
  }

  function tell(state: TunnelState): void {
    switch (state.state) {
      case 'connecting':
        return status({ event: 'connecting', server: base });
      case 'connected':
        together.abort();
        return status({ event: 'connected', server: base });
      case 'lost':
        return void forgetLater();
      case 'waiting': {
        const { message, remedy } = state.error;
        return status({ event: 'waiting', problem: message, remedy, seconds: state.seconds });
      }
    }
  }

  const tunnel = keepTunnel({
    ...ports,
    responder: servers,
    maxBodyBytes: ports.maxMessageBytes,
    hello: () => ({ version, instance, servers: servers.names }),
    tell,
    bound(now) {
      bound = now;
      servers.bind(now.servers);
      tellBound();
    },
    left: (caller) => void servers.leave(caller),
  });
  const following = { ...ports, watches: ports.watchesKey, renew: async () => tunnel.renew() };
  const lookAtKey = followKey(following, signal);
  ports.onReload(() => {
    lookAtKey();
    try {
      servers.configure(readConfiguration());
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      return status({ event: 'not_reloaded', problem: error.message });
    }
    status({ event: 'reloaded', servers: servers.names.map(({ name }) => name) });
    tunnel.hello();
    tellBound();
  });
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  status({ event: 'stopping', calls: tunnel.calls });
  await tunnel.drain(drainMs);
  together.abort();
  await servers.close();
  status({ event: 'stopped' });
}
