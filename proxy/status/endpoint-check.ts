import type { Connection } from '#config/connection';
import type { Host } from '#host';
import { readMessage, stringAt, type Message } from 'latchkey-mcp/raw-message';
import { detectServer } from '#pipeline/detect-server';
import { compose } from '#pipeline/step';
import { jsonLinesLog } from '#log/log';
import { streamableHttp } from '#transport/streamable-http';
import type { Upstream } from '#transport/upstream';
import { TokenError } from '#auth/errors';
import type { Credential } from '#transport/credential';
import { ok, warn, type Check, type Words } from './checks.ts';

const client = '{"name":"latchkey-doctor","version":"0"}';
const modern = `{"jsonrpc":"2.0","id":"latchkey","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":${client},"io.modelcontextprotocol/clientCapabilities":{}}}}`;
const legacy = `{"jsonrpc":"2.0","id":"latchkey","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":${client}}}`;

export type EndpointCheckPorts = Pick<Host, 'clock' | 'http'> & {
  /** How requests authenticate; it opens no browser. */
  credential: () => Promise<Credential>;
  maxMessageBytes: number;
  words: Words;
};

/** Makes the handshake with the server, as an assistant does. */
export function endpointCheck(
  connection: Connection,
  { clock, http, credential, maxMessageBytes, words }: EndpointCheckPorts,
): Check {
  return {
    name: 'endpoint',
    async run(signal) {
      const log = jsonLinesLog('error', () => undefined);
      const url = new URL(connection.url);
      const target = { url, credential: await credential(), http, clock, log, maxMessageBytes };
      let over = '';
      const detection = detectServer(connection.transport ?? 'http-first', {
        async sse() {
          const { httpSse } = await import('#transport/http-sse');
          over = ' over HTTP+SSE';
          return httpSse(target);
        },
        async translated(upstream) {
          const { translatedUpstream } = await import('#pipeline/translated-server');
          return translatedUpstream({ upstream, clock, log });
        },
        // A check uses nothing that is cached, and caches nothing.
        memory: { recall: () => undefined, remember: () => Promise.resolve() },
        log,
      });
      const upstream = compose([detection], streamableHttp(target));
      try {
        const discovered = await answerOf(upstream, modern, signal);
        if (discovered?.members.has('result')) {
          const name =
            stringAt(discovered, 'result', '_meta', 'io.modelcontextprotocol/serverInfo', 'name') ??
            stringAt(discovered, 'result', 'serverInfo', 'name');
          return [ok('endpoint', `${name ?? 'a server'} speaks MCP 2026-07-28`)];
        }
        const answer = await answerOf(upstream, legacy, signal, true);
        const version = answer && stringAt(answer, 'result', 'protocolVersion');
        const name = answer && stringAt(answer, 'result', 'serverInfo', 'name');
        if (version !== undefined)
          return [ok('endpoint', `${name ?? 'a server'} speaks MCP ${version}${over}`)];
        return [warn('endpoint', 'MCP handshake failed', 'check the path of the URL')];
      } catch (error) {
        if (!(error instanceof TokenError) || error.code !== 'signed_out') throw error;
        const { message, hint } = words(error);
        return [warn('endpoint', `not checked: ${message}`, hint)];
      } finally {
        await upstream.close(signal);
      }
    },
  };
}

/** A legacy server may refuse the modern request in any target; only a refused credential ends the check. */
async function answerOf(
  upstream: Upstream,
  text: string,
  signal: AbortSignal,
  strict = false,
): Promise<Message | undefined> {
  let answer: Message | undefined;
  const take = (message: Message) => {
    if (message.kind === 'response') answer = message;
    return Promise.resolve();
  };
  try {
    await upstream.send(readMessage(Buffer.from(text)), take, signal);
  } catch (error) {
    if (strict || error instanceof TokenError) throw error;
  }
  return answer;
}
