import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import type { ToolRules } from '#pipeline/tool-lists';
import { httpClient } from '#transport/http-client';
import { childGuard, guardWords } from './child-guard.ts';
import { childEnvironment, startChild } from './child-process.ts';
import { HttpLocalServer } from './http-local-server.ts';
import { type LocalServer, narrowedServer } from './local-server.ts';
import { StdioLocalServer } from './stdio-local-server.ts';

export {
  LocalServerError,
  type LocalAnswer,
  type LocalRequest,
  type LocalServer,
} from './local-server.ts';

/** The URL of a local MCP server, or the command that starts it. */
export type LocalServerSettings = { tools?: ToolRules } & (
  | {
      kind: 'stdio';
      command: string;
      args?: readonly string[];
      /** Its environment, besides `PATH`, `HOME` and the like; other variables of ours are not passed on. */
      env?: Readonly<Record<string, string>>;
      cwd?: string;
    }
  | { kind: 'http'; url: URL; headerSecrets?: Readonly<Record<string, string>>; caFile?: string }
);

export type LocalServerHost = {
  /** The environment of this process. */
  env: Readonly<Record<string, string | undefined>>;
  platform: NodeJS.Platform;
  /** The path of the Node that runs this process, for the guard of the children. */
  node: string;
  /** The command line that starts the guard, where this program is not plain Node. */
  guard?: readonly [string, ...string[]];
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/**
 * Opens local servers that share one guard of their children. This file is `latchkey/agent`: the stdio upstreams of the
 * server are opened here, too.
 */
export function localServers(
  host: LocalServerHost,
): (settings: LocalServerSettings) => LocalServer {
  const { env, platform, node, clock, log, maxMessageBytes } = host;
  const guard = childGuard(host.guard ?? guardWords(node));

  return (settings) => {
    if (settings.kind === 'http') {
      const { url, headerSecrets = {}, caFile, tools = {} } = settings;
      // Never through the company proxy of the environment: the server is in this network.
      const http = httpClient(() => ({ env: {}, ...(caFile !== undefined && { caFile }) }));
      return narrowedServer(
        new HttpLocalServer({ url, headerSecrets, http }),
        tools,
        maxMessageBytes,
      );
    }
    const { command, args = [], env: configured = {}, cwd, tools = {} } = settings;
    const child = {
      command,
      args,
      env: childEnvironment(env, configured, platform),
      ...(cwd !== undefined && { cwd }),
    };
    const ports = { guard, clock, log, platform, maxMessageBytes };
    const start = async () => startChild(child, ports);
    const server = new StdioLocalServer({ start, clock, log, maxMessageBytes });
    return narrowedServer(server, tools, maxMessageBytes);
  };
}
