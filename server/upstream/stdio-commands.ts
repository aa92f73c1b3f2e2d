import { localServers, type LocalServer, type LocalServerPlace } from 'latchkey/agent';

import { UpstreamError, type Upstream } from '#gateway/upstream';
import { stdioUpstream } from './stdio-upstream.ts';

/** How a command of this machine is started. */
export interface StdioCommandSettings {
  readonly command: string;
  readonly args: readonly string[];
  /** All of the environment that it gets, but for `PATH`, `HOME` and their kind. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
}

/** The commands that the operator configured, by `organization/server`; started when they are needed. */
export class StdioCommands {
  readonly #servers: ReadonlyMap<string, LocalServer>;

  constructor(commands: ReadonlyMap<string, StdioCommandSettings>, place: LocalServerPlace) {
    const open = commands.size > 0 ? localServers(place) : undefined;
    this.#servers = new Map(
      [...commands].flatMap(([path, { cwd, ...command }]) =>
        open
          ? [[path, open({ kind: 'stdio', ...command, ...(cwd !== undefined && { cwd }) })]]
          : [],
      ),
    );
  }

  upstreamOf(path: string, caller: string): Upstream {
    const server = this.#servers.get(path);
    if (server) return stdioUpstream(server, caller);
    const why = `--stdio-servers names no command for ${path} any more`;
    return { send: () => Promise.reject(new UpstreamError('unreachable', why)) };
  }

  /** Ends the children of a caller for whom nobody comes back. */
  async leave(caller: string): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.leave(caller)));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
  }
}
