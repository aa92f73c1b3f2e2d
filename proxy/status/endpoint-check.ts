import { isObject } from 'latchkey-mcp/json-value';
import { initialized } from '#transport/session';
import type { Connection } from '#config/connection';
import type { Host } from '#host';
import { readMessage, stringAt, type Message } from 'latchkey-mcp/raw-message';
import { detectServer } from '#pipeline/detect-server';
import { compose } from '#pipeline/step';
import { admittedTools } from '#pipeline/tool-lists';
import { jsonLinesLog } from '#log/log';
import { streamableHttp } from '#transport/streamable-http';
import { UpstreamError, type Upstream } from '#transport/upstream';
import { TokenError } from '#auth/errors';
import type { Credential } from '#transport/credential';
import { ok, warn, type Check, type Words } from './checks.ts';

const client = '{"name":"latchkey-doctor","version":"0"}';
const modern = requestOf(
  `{"jsonrpc":"2.0","id":"latchkey","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":${client},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
);
const legacy = requestOf(
  `{"jsonrpc":"2.0","id":"latchkey","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"url":{}}},"clientInfo":${client}}}`,
);

function requestOf(text: string): Message {
  return readMessage(Buffer.from(text));
}

type ServerPorts = Pick<Host, 'clock' | 'http'> & {
  /** How requests authenticate; it opens no browser. */
  credential: () => Promise<Credential>;
  maxMessageBytes: number;
  /** Stores the server's message that it requires an account of the person; `undefined` if it requires none. */
  noteMissingAccount: (words: string | undefined) => Promise<void>;
};

export type EndpointCheckPorts = ServerPorts & { words: Words };

/** Makes the handshake with the server, as an assistant does. */
export function endpointCheck(
  connection: Connection,
  { words, ...ports }: EndpointCheckPorts,
): Check {
  return {
    name: 'endpoint',
    async run(signal) {
      const server = await uncachedServer(connection, ports);
      const { upstream } = server;
      try {
        const discovered = await answerOf(upstream, modern, signal);
        if (discovered?.members.has('result')) {
          await ports.noteMissingAccount(undefined);
          const name =
            stringAt(discovered, 'result', '_meta', 'io.modelcontextprotocol/serverInfo', 'name') ??
            stringAt(discovered, 'result', 'serverInfo', 'name');
          return [ok('endpoint', `${name ?? 'a server'} speaks MCP 2026-07-28`)];
        }
        const answer = await answerOf(upstream, legacy, signal, true);
        const version = answer && stringAt(answer, 'result', 'protocolVersion');
        const name = answer && stringAt(answer, 'result', 'serverInfo', 'name');
        if (version !== undefined) {
          await ports.noteMissingAccount(undefined);
          const over = server.usesSse() ? ' over HTTP+SSE' : '';
          return [ok('endpoint', `${name ?? 'a server'} speaks MCP ${version}${over}`)];
        }
        throw refusalIn(answer ?? discovered);
      } catch (error) {
        const isAccount = error instanceof UpstreamError && error.code === 'account';
        if (!isAccount && !(error instanceof TokenError && error.code === 'signed_out'))
          throw error;
        const { message, hint } = words(error);
        if (isAccount) await ports.noteMissingAccount(error.message);
        return [warn('endpoint', isAccount ? message : `not checked: ${message}`, hint)];
      } finally {
        await upstream.close(signal);
      }
    },
  };
}

/** The server of `connection`, without reading or writing a cache. */
async function uncachedServer(
  connection: Connection,
  { clock, http, credential, maxMessageBytes }: ServerPorts,
): Promise<{ upstream: Upstream; usesSse: () => boolean }> {
  const log = jsonLinesLog('error', () => undefined);
  const url = new URL(connection.url);
  const target = { url, credential: await credential(), http, clock, log, maxMessageBytes };
  let isSse = false;
  const detection = detectServer(connection.transport ?? 'http-first', {
    async sse() {
      const { httpSse } = await import('#transport/http-sse');
      isSse = true;
      return httpSse(target);
    },
    async translated(upstream) {
      const { translatedUpstream } = await import('#pipeline/translated-server');
      return translatedUpstream({ upstream, clock, log });
    },
    memory: { recall: () => undefined, remember: () => Promise.resolve() },
    log,
  });
  return { upstream: compose([detection], streamableHttp(target)), usesSse: () => isSse };
}

/** A server that lists more pages than this is not read further. */
const mostPages = 100;

/**
 * The names of the tools that an assistant sees through `connection`, asked of the server now.
 *
 * @throws {UpstreamError} {@link TokenError} if the server or the sign-in responds with an error
 */
export async function listTools(
  connection: Connection,
  ports: ServerPorts,
  signal: AbortSignal,
): Promise<string[]> {
  const { upstream } = await uncachedServer(connection, ports);
  const { allowTools, denyTools } = connection;
  const admits = admittedTools({ allow: allowTools, deny: denyTools });
  const names: string[] = [];
  try {
    const { capabilities } = resultOf(await answerOf(upstream, legacy, signal, true));
    await ports.noteMissingAccount(undefined);
    await answerOf(upstream, initialized, signal, true);
    if (!isObject(capabilities) || !('tools' in capabilities)) return names;
    let cursor: unknown;
    for (let page = 0; page < mostPages; page += 1) {
      const params = cursor === undefined ? {} : { cursor };
      const request = { jsonrpc: '2.0', id: `tools-${page}`, method: 'tools/list', params };
      const result = resultOf(
        await answerOf(upstream, requestOf(JSON.stringify(request)), signal, true),
      );
      const tools: unknown[] = Array.isArray(result['tools']) ? result['tools'] : [];
      names.push(...tools.flatMap((tool) => (isNamed(tool) && admits(tool.name) ? tool.name : [])));
      cursor = result['nextCursor'];
      if (cursor === undefined) break;
    }
    return names;
  } catch (error) {
    if (error instanceof UpstreamError && error.code === 'account')
      await ports.noteMissingAccount(error.message);
    throw error;
  } finally {
    await upstream.close(signal);
  }
}

/** @throws {UpstreamError} `account`, `refused`: the answer is an error */
function resultOf(answer: Message | undefined): Record<string, unknown> {
  const { result }: { result?: unknown } = JSON.parse(answer?.bytes.toString() ?? '{}');
  if (isObject(result)) return result;
  throw refusalIn(answer);
}

/** MCP 2025-11-25 elicitation, "URL Elicitation Required Error" */
const urlElicitationRequired = -32042;

/** The server's own reason for an answer without a result. */
function refusalIn(answer: Message | undefined): UpstreamError {
  const { error }: { error?: unknown } = JSON.parse(answer?.bytes.toString() ?? '{}');
  const { code, message } = isObject(error) ? error : {};
  const why = typeof message === 'string' ? message : 'without a reason';
  return code === urlElicitationRequired
    ? new UpstreamError('account', why)
    : new UpstreamError('refused', `the server refused the request: ${why}`);
}

function isNamed(tool: unknown): tool is { name: string } {
  return isObject(tool) && typeof tool['name'] === 'string';
}

/** A legacy server may refuse the modern request in any way. So unless `strict`, only a {@link TokenError} ends the check. */
async function answerOf(
  upstream: Upstream,
  request: Message,
  signal: AbortSignal,
  strict = false,
): Promise<Message | undefined> {
  let answer: Message | undefined;
  const take = (message: Message) => {
    if (message.kind === 'response') answer = message;
    return Promise.resolve();
  };
  try {
    await upstream.send(request, take, signal);
  } catch (error) {
    if (strict || error instanceof TokenError) throw error;
  }
  return answer;
}
