import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { metServer, rememberedServer } from '#pipeline/detect-server';
import type { Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import type { Credential } from '#transport/credential';
import { knownTools } from '#transport/known-tools';
import { withIdleTimeout } from '#transport/idle-timeout';
import { streamableHttp } from '#transport/streamable-http';
import type { Upstream } from '#transport/upstream';
import type { Host, UserHost } from '#host';
import { serversDirectory } from './open-kept.ts';

/** The way to the server of `connection`, whatever era and transport it turns out to speak. */
export function openUpstream(
  connection: Connection,
  credential: Credential,
  options: Options,
  host: Pick<Host, keyof UserHost | 'clock' | 'http'>,
  log: Log,
  hasStandIn: (message: Message) => Promise<boolean>,
): Upstream {
  const { clock, http } = host;
  const url = new URL(connection.url);
  const { maxMessageBytes, idleTimeoutSeconds } = options;
  const tools = knownTools(log);
  const toolHeaders = (message: Message) => tools.headers(message);
  const way = { url, credential, http, clock, log, maxMessageBytes, toolHeaders, hasStandIn };
  const upstream = tools.listening(streamableHttp(way));
  const met = metServer(connection.transport ?? 'http-first', {
    http: upstream,
    async sse() {
      const { httpSse } = await import('#transport/http-sse');
      return httpSse(way);
    },
    async translated() {
      const { translatedUpstream } = await import('#pipeline/translated-server');
      return translatedUpstream({ upstream, clock, log });
    },
    memory: rememberedServer(serversDirectory(options, host), connection.url),
    log,
  });
  if (idleTimeoutSeconds === 0) return met;
  return withIdleTimeout(met, { idleTimeoutSeconds, clock, log });
}
