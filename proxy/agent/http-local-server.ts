import type { IncomingMessage } from 'node:http';
import { type HttpClient, HttpError } from '#transport/http-client';
import { errorAnswer } from 'latchkey-mcp/raw-message';
import {
  LocalServerError,
  type LocalAnswer,
  type LocalRequest,
  type LocalServer,
} from './local-server.ts';
import { plainAnswer } from './plain-answer.ts';

export type HttpLocalServerOptions = {
  url: URL;
  /** Sent with every request; they may be secrets, so they are in no message. */
  headerSecrets: Readonly<Record<string, string>>;
  http: HttpClient;
};

const answered = ['content-type', 'mcp-session-id', 'retry-after'];
const maxSessions = 10_000;
const endTimeoutMs = 10_000;

/**
 * An MCP server over HTTP in this network. Bytes pass as they come, no faster than they are read. Its session
 * ids open only to the caller who got them; redirects are not followed.
 */
export function httpLocalServer({ url, headerSecrets, http }: HttpLocalServerOptions): LocalServer {
  /** Who got which session, in the order of their last use. */
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
      const { code, message, remedy } = error;
      throw new LocalServerError(
        code === 'aborted' ? 'aborted' : 'unreachable',
        remedy === undefined ? message : `${message}; ${remedy}`,
        { cause: error },
      );
    }
  }

  /** A server that does not hear it forgets the session in its own time. */
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
        throw new LocalServerError('unreachable', `${url.origin} redirects elsewhere (${status})`);
      }
      const given = response.headers['mcp-session-id'];
      if (typeof given === 'string') remember(given, caller);
      if (id !== undefined && (status === 404 || method === 'DELETE')) owners.delete(id);
      const head = answered.flatMap((name): [string, string][] => {
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

async function* bodyOf(response: IncomingMessage, url: URL): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) yield chunk;
  } catch (cause) {
    throw new LocalServerError('broken', `${url.origin} ended inside its answer`, { cause });
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
