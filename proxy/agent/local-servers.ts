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
      /** Variables of its environment, in addition to `PATH`, `HOME` and the like. No others are inherited. */
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
  /** The command line that starts the guard. Required if `node` is not plain Node. */
  guard?: readonly [string, ...string[]];
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/**
 * Returns a function that opens local servers. They share one guard, which ends their children if this process dies. This file is
 * exported as `latchkey/agent`, because the server also uses it to open its stdio upstreams.
 */
export function localServers(
  host: LocalServerHost,
): (settings: LocalServerSettings) => LocalServer {
  const { env, platform, node, clock, log, maxMessageBytes } = host;
  const guard = childGuard(host.guard ?? guardWords(node));

  return (settings) => {
    if (settings.kind === 'http') {
      const { url, headerSecrets = {}, caFile, tools = {} } = settings;
      // A local server is in this network, so requests to it bypass the company proxy that the environment names.
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
