import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CreateMessageResultSchema, isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

import { listen } from '../loopback.ts';

/** A server of the legacy era that keeps sessions, on the first SDK. */
export interface SessionUpstream extends AsyncDisposable {
  readonly url: string;
  /**
   * The ids of the sessions that are open, oldest first, without those of health checks: each node keeps one such
   * session open, and only pings in it.
   */
  readonly sessions: () => string[];
  /** Calls of `wait` that are under way. */
  readonly waiting: () => number;
  /** Calls of `wait` that were cancelled. */
  readonly cancelled: () => number;
  /** Lets the calls of `steps` go on after their first progress. */
  readonly goOn: () => void;
  /** Forgets all sessions, as after a restart. */
  readonly forget: () => void;
  /** Tells every session, unasked, that the list of tools has changed. */
  readonly announce: () => void;
}

const ofHealthChecks = new Set<unknown>(['notifications/initialized', 'ping', undefined]);
const methodOf = (message: unknown): unknown => Object(message)['method'];

/**
 * Tools: `echo` repeats `text`; `steps` reports its progress, then waits for `goOn`; `ask` asks the caller's
 * model; `wait` waits until it is cancelled.
 */
export async function sessionUpstream(): Promise<SessionUpstream> {
  const open = new Map<
    string,
    { transport: StreamableHTTPServerTransport; server: McpServer; isHealthCheck: boolean }
  >();
  let underWay = 0;
  let cancelled = 0;
  const waiting: (() => void)[] = [];

  const tools = () => {
    const server = new McpServer({ name: 'sessions', version: '1' });
    const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
    server.registerTool('echo', { inputSchema: { text: z.string() } }, (input) => text(input.text));
    server.registerTool('steps', { inputSchema: {} }, async (_, extra) => {
      const progressToken = extra._meta?.progressToken ?? 'none';
      const params = { progressToken, progress: 1, total: 2 };
      await extra.sendNotification({ method: 'notifications/progress', params });
      await new Promise<void>((resolve) => waiting.push(resolve));
      return text('done');
    });
    server.registerTool('ask', { inputSchema: {} }, async (_, extra) => {
      const message = { role: 'user' as const, content: { type: 'text' as const, text: 'why' } };
      const asked = await extra.sendRequest(
        { method: 'sampling/createMessage', params: { messages: [message], maxTokens: 10 } },
        CreateMessageResultSchema,
      );
      return text(JSON.stringify(asked.content));
    });
    server.registerTool('wait', { inputSchema: {} }, async (_, { signal }) => {
      underWay += 1;
      await pause(60_000, undefined, { signal }).catch(() => (cancelled += 1));
      underWay -= 1;
      return text('cancelled');
    });
    return server;
  };

  const http = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => (body += part));
    request.on('end', () => void serve(body).catch(() => response.destroy()));
    const serve = async (text: string) => {
      const message: unknown = text ? JSON.parse(text) : undefined;
      const id = String(request.headers['mcp-session-id']);
      const known = open.get(id);
      if (known) {
        const isCall = request.method === 'GET' || !ofHealthChecks.has(methodOf(message));
        if (isCall) known.isHealthCheck = false;
        return known.transport.handleRequest(request, response, message);
      }
      if (!isInitializeRequest(message)) {
        const code = request.headers['mcp-session-id'] === undefined ? 400 : 404;
        return void response.writeHead(code, { 'content-type': 'application/json' }).end('{}');
      }
      const isHealthCheck = message.params.clientInfo.name === 'latchkey-server';
      const server = tools();
      const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (sessionId) =>
          void open.set(sessionId, { transport, server, isHealthCheck }),
        onsessionclosed: (sessionId) => void open.delete(sessionId),
      });
      await server.connect(transport);
      return transport.handleRequest(request, response, message);
    };
  });
  const port = await listen(http);
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    sessions: () => [...open].flatMap(([id, { isHealthCheck }]) => (isHealthCheck ? [] : [id])),
    waiting: () => underWay,
    cancelled: () => cancelled,
    goOn: () => {
      for (const go of waiting.splice(0)) go();
    },
    forget: () => open.clear(),
    announce: () => {
      for (const { server } of open.values()) server.sendToolListChanged();
    },
    async [Symbol.asyncDispose]() {
      for (const go of waiting.splice(0)) go();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}
