import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '#clock/clock';
import { chunksOf, type LocalAnswer, LocalServerError, type LocalServer } from './local-server.ts';
import type { LocalServerSettings } from './local-servers.ts';
import { StreamRefusal, type Responder, type TunnelRequest } from './responder.ts';
import type { AgentConfiguration } from './agent-configuration.ts';

type Served = { settings: LocalServerSettings; server: LocalServer; calls: number };

/** The local servers of an agent, as configured now. */
export interface ServedServers extends Responder {
  readonly names: readonly { name: string; kind: 'stdio' | 'http' }[];

  /** What the dashboard bound to this agent; nothing else is served. */
  bind(names: readonly string[]): void;

  /** What is configured anew begins anew, once calls to what was there before have ended. */
  configure(configuration: AgentConfiguration): void;

  /** Nobody comes back for a caller: ends what any server keeps for them. */
  leave(caller: string): Promise<void>;

  /** Forgets sessions and ends children, as nobody is left who knows of them. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

export type ServedServersPorts = {
  open: (settings: LocalServerSettings) => LocalServer;
  clock: Clock;
  /** What a call met that got no answer. */
  failed: (server: string, error: LocalServerError) => void;
};

/** What a call to a server that was taken out may still take. */
const retiringMs = 60_000;
const lookMs = 500;

export function servedServers(
  configuration: AgentConfiguration,
  { open, clock, failed }: ServedServersPorts,
): ServedServers {
  const served = new Map<string, Served>();
  const retiring = new Set<Promise<void>>();
  const closing = new AbortController();
  let bound = new Set<string>();

  function configure(wanted: AgentConfiguration): void {
    for (const [name, known] of served) {
      if (isDeepStrictEqual(wanted.get(name), known.settings)) continue;
      served.delete(name);
      retire(known);
    }
    for (const [name, settings] of wanted)
      if (!served.has(name)) served.set(name, { settings, server: open(settings), calls: 0 });
  }

  function retire(entry: Served): void {
    const leaving = closeLater(entry).finally(() => retiring.delete(leaving));
    retiring.add(leaving);
  }

  async function closeLater(entry: Served): Promise<void> {
    for (let leftMs = retiringMs; entry.calls > 0 && leftMs > 0; leftMs -= lookMs) {
      if (closing.signal.aborted) break;
      await clock.sleep(lookMs, closing.signal);
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
      // Whoever listens does not keep a server that is taken out.
      if (request.method !== 'GET') {
        entry.calls += 1;
        request.signal.addEventListener('abort', () => (entry.calls -= 1), { once: true });
      }
      try {
        const answer = await entry.server.send(request);
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
