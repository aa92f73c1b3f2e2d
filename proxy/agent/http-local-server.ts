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
  /** Headers of every request. Their values may be secrets, so no message repeats them. */
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
export class HttpLocalServer implements LocalServer {
  readonly #options: HttpLocalServerOptions;
  /** The caller of each session, in the order of last use. */
  readonly #owners = new Map<string, string>();

  constructor(options: HttpLocalServerOptions) {
    this.#options = options;
  }

  async send(request: LocalRequest): Promise<LocalAnswer> {
    const { url } = this.#options;
    const { headers, caller, method } = request;
    const id = headers['mcp-session-id'];
    if (id !== undefined) {
      if (this.#owners.get(id) !== caller) return unknownSession();
      this.#remember(id, caller);
    }
    const response = await this.#respond(request);
    const status = response.statusCode ?? 502;
    if (status >= 300 && status < 400) {
      response.destroy();
      const message = `${url.origin} answered with a redirect (${status})`;
      throw new LocalServerError('unreachable', message);
    }
    const given = response.headers['mcp-session-id'];
    if (typeof given === 'string') this.#remember(given, caller);
    if (id !== undefined && (status === 404 || method === 'DELETE')) this.#owners.delete(id);
    const head = relayedHeaders.flatMap((name): [string, string][] => {
      const value = response.headers[name];
      return typeof value === 'string' ? [[name, value]] : [];
    });
    return {
      status,
      headers: Object.fromEntries(head),
      body: wholeBody(response) ?? bodyOf(response, url),
    };
  }

  async leave(caller: string): Promise<void> {
    const left = [...this.#owners].filter(([, owner]) => owner === caller).map(([id]) => id);
    for (const id of left) this.#owners.delete(id);
    await Promise.all(left.map(async (id) => this.#endSession(id)));
  }

  async reset(): Promise<void> {
    this.#owners.clear();
  }

  async close(): Promise<void> {
    this.#owners.clear();
    this.#options.http.close();
  }

  #remember(id: string, caller: string): void {
    this.#owners.delete(id);
    this.#owners.set(id, caller);
    const [oldest] = this.#owners.keys();
    if (this.#owners.size > maxSessions && oldest !== undefined) this.#owners.delete(oldest);
  }

  async #respond(request: Omit<LocalRequest, 'caller'>): Promise<IncomingMessage> {
    const { url, headerSecrets, http } = this.#options;
    const { method, headers, key, body, signal } = request;
    if (key && Object.hasOwn(headerSecrets, key.name)) {
      // Otherwise the call would be made with the operator's value, and so not in the person's name.
      const message = `the configuration of the agent sets ${key.name}, which is for the key of each person`;
      throw new LocalServerError('unreachable', message);
    }
    const own = key && { [key.name]: key.value };
    const sent = { ...own, 'accept-encoding': 'identity', ...headers, ...headerSecrets };
    try {
      return await http.request({ url, method, headers: sent, signal, ...(body && { body }) });
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const { remedy } = error;
      const message = problemOf(error, url);
      throw new LocalServerError(
        absenceOf(error),
        remedy === undefined ? message : `${message}; ${remedy}`,
        { cause: error },
      );
    }
  }

  /** Ends a session at the server. Ignores a failure, because the server expires the session later. */
  async #endSession(id: string): Promise<void> {
    const headers = { 'mcp-session-id': id };
    const signal = AbortSignal.timeout(endTimeoutMs);
    try {
      (await this.#respond({ method: 'DELETE', headers, signal })).destroy();
    } catch (error) {
      if (!(error instanceof LocalServerError)) throw error;
    }
  }
}

function absenceOf({ code, cause }: HttpError): LocalServerError['code'] {
  if (code === 'aborted') return 'aborted';
  if (code === 'certificate') return 'tls';
  return isUnknownHost(cause) ? 'unknown_host' : 'unreachable';
}

function isUnknownHost(cause: unknown): boolean {
  return ['ENOTFOUND', 'EAI_AGAIN'].includes(platformCode(cause));
}

/** Why there is no connection, in words: `connection refused at 127.0.0.1:3000`. */
function problemOf({ message, cause }: HttpError, { host, hostname }: URL): string {
  if (platformCode(cause) === 'ECONNREFUSED') return `connection refused at ${host}`;
  return isUnknownHost(cause) ? `host ${hostname} not found` : message;
}

/** The body if all of it has arrived with the head, as for most answers; otherwise `undefined`. */
function wholeBody(response: IncomingMessage): Buffer | undefined {
  if (!response.complete || response.destroyed) return undefined;
  const body: unknown = response.read();
  // Node ends the stream of an empty body only once it is read.
  if (body === null) response.resume();
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0);
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
