import type { Clock } from '#clock/clock';
import { httpClient } from '#transport/http-client';
import type { Log } from '#log/log';
import type { ToolRules } from '#pipeline/tool-filter';
import { childEnvironment } from './child-environment.ts';
import { childGuard, guardWords } from './child-guard.ts';
import { httpLocalServer } from './http-local-server.ts';
import type { LocalServer } from './local-server.ts';
import { narrowedServer } from './narrowed-server.ts';
import { startChild } from './start-child.ts';
import { stdioLocalServer } from './stdio-local-server.ts';

export {
  LocalServerError,
  type LocalAnswer,
  type LocalRequest,
  type LocalServer,
} from './local-server.ts';

/** Where a local MCP server is, or how it is started. */
export type LocalServerSettings = { tools?: ToolRules } & (
  | {
      kind: 'stdio';
      command: string;
      args?: readonly string[];
      /** Added to `PATH`, `HOME` and their kind; nothing else of ours reaches it. */
      env?: Readonly<Record<string, string>>;
      cwd?: string;
    }
  | { kind: 'http'; url: URL; headerSecrets?: Readonly<Record<string, string>>; caFile?: string }
);

export type LocalServerPlace = {
  /** The environment of this process. */
  env: Readonly<Record<string, string | undefined>>;
  platform: NodeJS.Platform;
  /** This very Node, for the process that guards the children. */
  node: string;
  /** The words that start it, where this program is no plain Node. */
  guard?: readonly [string, ...string[]];
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/**
 * Opens local servers that share one guard of their children. The door `latchkey/agent`: the server's
 * `stdio` upstreams run through it, too.
 */
export function localServers(
  place: LocalServerPlace,
): (settings: LocalServerSettings) => LocalServer {
  const { env, platform, node, clock, log, maxMessageBytes } = place;
  const guard = childGuard(place.guard ?? guardWords(node));

  return (settings) => {
    if (settings.kind === 'http') {
      const { url, headerSecrets = {}, caFile, tools = {} } = settings;
      // It is near: a company's proxy, which the environment may name, leads away from here.
      const http = httpClient(() => ({ env: {}, ...(caFile !== undefined && { caFile }) }));
      return narrowedServer(httpLocalServer({ url, headerSecrets, http }), tools, maxMessageBytes);
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
    const server = stdioLocalServer({ start, clock, log, maxMessageBytes });
    return narrowedServer(server, tools, maxMessageBytes);
  };
}
