import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

export type LegacyMcp = {
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** The events inside the server, in order: `cancelled`, `closed`. */
  events: string[];
  /** Sessions that are open now. */
  sessions: Map<string, StreamableHTTPServerTransport>;
  /** Tells every session that the list of tools has changed. */
  changed(): void;
};

/** A server of the legacy era, built on the SDK of that era, with a tool for every kind of traffic. */
export function legacyMcp(): LegacyMcp {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const servers = new Map<string, McpServer>();
  const events: string[] = [];

  async function open(): Promise<StreamableHTTPServerTransport> {
    const server = legacyServer(events);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        sessions.set(id, transport);
        servers.set(id, server);
      },
      onsessionclosed: (id) => {
        sessions.delete(id);
        events.push('closed');
      },
    });
    await server.connect(transport);
    return transport;
  }

  return {
    events,
    sessions,
    changed: () => servers.forEach((server) => server.sendToolListChanged()),
    async handle(request, response) {
      const id = request.headers['mcp-session-id'];
      const known = typeof id === 'string' ? sessions.get(id) : undefined;
      if (id !== undefined && !known) {
        const error = { code: -32001, message: 'Session not found' };
        response.writeHead(404, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error }));
        return;
      }
      await (known ?? (await open())).handleRequest(request, response);
    },
  };
}

function legacyServer(events: string[]): McpServer {
  const server = new McpServer(
    { name: 'legacy', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true }, logging: {} } },
  );
  const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
  server.registerTool('echo', { inputSchema: { text: z.string() } }, (input) => text(input.text));
  server.registerTool('count', { inputSchema: { to: z.number() } }, async ({ to }, extra) => {
    const progressToken = extra._meta?.progressToken;
    if (progressToken === undefined) return text('no progress token');
    for (let progress = 1; progress <= to; progress += 1)
      await extra.sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress, total: to },
      });
    return text(`counted to ${to}`);
  });
  server.registerTool('ask', { inputSchema: {} }, async () => {
    const { action, content } = await server.server.elicitInput({
      message: 'Your name?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
    });
    return text(`${action} ${String(content?.['name'])}`);
  });
  server.registerTool('think', { inputSchema: {} }, async () => {
    const { content } = await server.server.createMessage({
      messages: [{ role: 'user', content: { type: 'text', text: 'think' } }],
      maxTokens: 10,
    });
    return text(JSON.stringify(content));
  });
  server.registerTool('wait', { inputSchema: {} }, async (_, { signal }) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    events.push('cancelled');
    return text('too late');
  });
  return server;
}
