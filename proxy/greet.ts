import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { ok, warn, type Check } from '#status/checks';
import { words } from '#errors';
import { readMessage, stringAt, type Message } from 'latchkey-mcp/raw-message';
import { detectServer } from '#pipeline/detect-server';
import { compose } from '#pipeline/step';
import { jsonLinesLog } from '#log/log';
import { streamableHttp } from '#transport/streamable-http';
import type { Upstream } from '#transport/upstream';
import { TokenError } from '#auth/errors';
import { openCredential, type CredentialPorts } from './open-credential.ts';

const client = '{"name":"latchkey-doctor","version":"0"}';
const modern = `{"jsonrpc":"2.0","id":"latchkey","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":${client},"io.modelcontextprotocol/clientCapabilities":{}}}}`;
const legacy = `{"jsonrpc":"2.0","id":"latchkey","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":${client}}}`;

/** The first words to a server, with the credential of the connection; no browser is opened. */
export function greeting(
  connection: Connection,
  options: Options,
  ports: Omit<CredentialPorts, 'openBrowser'>,
): Check {
  return {
    name: 'endpoint',
    async run(signal) {
      const log = jsonLinesLog('error', () => undefined);
      const { clock, http } = ports;
      const silent = { ...ports, openBrowser: () => Promise.resolve(false) };
      const quiet = { ...options, signIn: 'never' as const };
      const { credential } = await openCredential(connection, quiet, silent, log);
      const { maxMessageBytes } = options;
      const way = { url: new URL(connection.url), credential, http, clock, log, maxMessageBytes };
      let over = '';
      const detection = detectServer(connection.transport ?? 'http-first', {
        async sse() {
          const { httpSse } = await import('#transport/http-sse');
          over = ' over HTTP+SSE';
          return httpSse(way);
        },
        async translated(upstream) {
          const { translatedUpstream } = await import('#pipeline/translated-server');
          return translatedUpstream({ upstream, clock, log });
        },
        // Whoever looks takes nothing as known, and keeps nothing.
        memory: { recall: () => undefined, remember: () => Promise.resolve() },
        log,
      });
      const upstream = compose([detection], streamableHttp(way));
      try {
        const discovered = await asked(upstream, modern, signal);
        if (discovered?.members.has('result')) {
          const name =
            stringAt(discovered, 'result', '_meta', 'io.modelcontextprotocol/serverInfo', 'name') ??
            stringAt(discovered, 'result', 'serverInfo', 'name');
          return [ok('endpoint', `${name ?? 'a server'} speaks MCP 2026-07-28`)];
        }
        const answer = await asked(upstream, legacy, signal, true);
        const version = answer && stringAt(answer, 'result', 'protocolVersion');
        const name = answer && stringAt(answer, 'result', 'serverInfo', 'name');
        if (version !== undefined)
          return [ok('endpoint', `${name ?? 'a server'} speaks MCP ${version}${over}`)];
        return [warn('endpoint', 'MCP handshake failed', 'check the path of the URL')];
      } catch (error) {
        if (!(error instanceof TokenError) || error.code !== 'signed_out') throw error;
        const { message, hint } = words(error, connection);
        return [warn('endpoint', `not asked: ${message}`, hint)];
      } finally {
        await upstream.close(signal);
      }
    },
  };
}

/** A server of the era before may refuse the modern question in any way; the credential's no counts. */
async function asked(
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
