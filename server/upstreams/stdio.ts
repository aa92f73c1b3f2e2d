// Stdio upstreams: commands on this host that speak MCP over their standard streams.
import { abortSignal } from '#model/ending';
import { translateErrors } from '#model/streams';
import {
  type LocalServer,
  LocalServerError,
  type LocalServerHost,
  localServers,
} from 'latchkey/agent';

import { emptyAnswer } from '#gateway/adapter-messages';
import { answerHead, type Upstream, UpstreamError } from '#gateway/upstream';

/** How a command on this host is started. */
export interface StdioCommandSettings {
  readonly command: string;
  readonly args: readonly string[];
  /** Its environment, besides `PATH`, `HOME` and the like. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
}

/** The commands that the operator configured, by `organization/server`. They are started on demand. */
export class StdioCommands {
  readonly #servers: ReadonlyMap<string, LocalServer>;

  constructor(commands: ReadonlyMap<string, StdioCommandSettings>, host: LocalServerHost) {
    const open = commands.size > 0 ? localServers(host) : undefined;
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
    const why = `--stdio-servers no longer has a command for ${path}`;
    return { send: () => Promise.reject(new UpstreamError('unreachable', why)) };
  }

  /** Ends the children of a caller that lost access. */
  async endCaller(caller: string): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.leave(caller)));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
  }
}

/** Returns a local server as an upstream for one caller. Callers never share sessions or children. */
function stdioUpstream(local: LocalServer, caller: string): Upstream {
  return {
    async send({ method, headers, body, signal }) {
      try {
        const answer = await local.send({
          method,
          headers,
          caller,
          signal: abortSignal(signal),
          ...(body && { body: Buffer.from(body) }),
        });
        return {
          ...answerHead(answer.status, answer.headers),
          body:
            answer.body instanceof Uint8Array
              ? answer.body
              : translateErrors(answer.body, upstreamError),
        };
      } catch (error) {
        if (error instanceof LocalServerError && error.code === 'busy') {
          return { ...emptyAnswer(503), retryAfterSeconds: 1 };
        }
        throw upstreamError(error);
      }
    },
  };
}

function upstreamError(error: unknown): unknown {
  if (!(error instanceof LocalServerError)) return error;
  if (error.code === 'aborted') return new DOMException('the call was ended', 'AbortError');
  const { code, message } = error;
  const known = code === 'unreachable' || code === 'too_large' ? code : 'broken';
  return new UpstreamError(known, message, { cause: error });
}
