import type { IncomingMessage } from 'node:http';
import { HttpError, platformCode } from '#transport/http-error';
import { type HttpClient } from '#transport/http-client';
import { errorAnswer } from 'latchkey-mcp/raw-message';
import {
  LocalServerError,
  type LocalAnswer,
  type LocalRequest,
  type LocalServer,
  plainAnswer,
} from './local-server.ts';

export type HttpLocalServerOptions = {
  url: URL;
  /** Sent with every request. They may be secrets, so no message repeats them. */
  headerSecrets: Readonly<Record<string, string>>;
  http: HttpClient;
};

const relayedHeaders = ['content-type', 'mcp-session-id', 'retry-after'];
const maxSessions = 10_000;
const endTimeoutMs = 10_000;

/**
 * An MCP server over HTTP in this network. Its answers are streamed, no faster than they are read. A session id is valid
 * only for the caller that received it. Redirects are not followed.
 */
export function httpLocalServer({ url, headerSecrets, http }: HttpLocalServerOptions): LocalServer {
  /** The caller of each session, in the order of last use. */
  const owners = new Map<string, string>();

  function remember(id: string, caller: string): void {
    owners.delete(id);
    owners.set(id, caller);
    const [oldest] = owners.keys();
    if (owners.size > maxSessions && oldest !== undefined) owners.delete(oldest);
  }

  async function respond({
    method,
    headers,
    body,
    signal,
  }: Omit<LocalRequest, 'caller'>): Promise<IncomingMessage> {
    const sent = { 'accept-encoding': 'identity', ...headers, ...headerSecrets };
    try {
      return await http.request({ url, method, headers: sent, signal, ...(body && { body }) });
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const { code, remedy } = error;
      const message = problemOf(error, url);
      throw new LocalServerError(
        code === 'aborted' ? 'aborted' : 'unreachable',
        remedy === undefined ? message : `${message}; ${remedy}`,
        { cause: error },
      );
    }
  }

  /** If this fails, the server expires the session later. */
  async function endSession(id: string): Promise<void> {
    const headers = { 'mcp-session-id': id };
    const signal = AbortSignal.timeout(endTimeoutMs);
    try {
      (await respond({ method: 'DELETE', headers, signal })).destroy();
    } catch (error) {
      if (!(error instanceof LocalServerError)) throw error;
    }
  }

  return {
    async send(request) {
      const { headers, caller, method } = request;
      const id = headers['mcp-session-id'];
      if (id !== undefined) {
        if (owners.get(id) !== caller) return unknownSession();
        remember(id, caller);
      }
      const response = await respond(request);
      const status = response.statusCode ?? 502;
      if (status >= 300 && status < 400) {
        response.destroy();
        throw new LocalServerError(
          'unreachable',
          `${url.origin} answered with a redirect (${status})`,
        );
      }
      const given = response.headers['mcp-session-id'];
      if (typeof given === 'string') remember(given, caller);
      if (id !== undefined && (status === 404 || method === 'DELETE')) owners.delete(id);
      const head = relayedHeaders.flatMap((name): [string, string][] => {
        const value = response.headers[name];
        return typeof value === 'string' ? [[name, value]] : [];
      });
      return { status, headers: Object.fromEntries(head), body: bodyOf(response, url) };
    },
    async leave(caller) {
      const left = [...owners].filter(([, owner]) => owner === caller).map(([id]) => id);
      for (const id of left) owners.delete(id);
      await Promise.all(left.map(endSession));
    },
    async reset() {
      owners.clear();
    },
    async close() {
      owners.clear();
      http.close();
    },
  };
}

/** Why there is no connection, in words: `connection refused at 127.0.0.1:3000`. */
function problemOf({ message, cause }: HttpError, { host, hostname }: URL): string {
  switch (platformCode(cause)) {
    case 'ECONNREFUSED':
      return `connection refused at ${host}`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `host ${hostname} not found`;
    default:
      return message;
  }
}

async function* bodyOf(response: IncomingMessage, url: URL): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) yield chunk;
  } catch (cause) {
    throw new LocalServerError('broken', `${url.origin} ended its response early`, { cause });
  } finally {
    response.destroy();
  }
}

function unknownSession(): LocalAnswer {
  return plainAnswer(
    404,
    errorAnswer('null', { code: -32001, message: 'Session not found' }).bytes,
  );
}
