import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js';
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { recordingServer } from '../recording-server.ts';
import { legacyServer } from './legacy-server.ts';
import { SlowCalls } from './slow-calls.ts';
import type { Upstream } from './upstream.ts';

export interface LegacyStatefulUpstream extends Upstream {
  /** The ids of the sessions that are open. */
  sessions(): string[];
  /** Forgets every session, as after a restart. */
  forgetSessions(): Promise<void>;
}

/** Sessions, answers as event streams, requests to the client: MCP as of 2025-11-25. */
export async function legacyStatefulUpstream({
  resumable = false,
}: {
  /** Whether events have ids and streams resume after `Last-Event-ID`. */
  resumable?: boolean;
} = {}): Promise<LegacyStatefulUpstream> {
  const slow = new SlowCalls();
  const sessions = new Map<
    string,
    { server: McpServer; transport: StreamableHTTPServerTransport }
  >();

  const open = async () => {
    const server = legacyServer(slow);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, { server, transport }),
      onsessionclosed: (id) => void sessions.delete(id),
      ...(resumable && { eventStore: new InMemoryEventStore() }),
    });
    await server.connect(transport);
    return transport;
  };

  const front = await recordingServer(async (req, res, body) => {
    const id = req.headers['mcp-session-id'];
    const known = typeof id === 'string' ? sessions.get(id)?.transport : undefined;
    if (known) return known.handleRequest(req, res, body);
    if (id === undefined && isInitializeRequest(body))
      return (await open()).handleRequest(req, res, body);
    const message = id === undefined ? 'Bad Request: no session' : 'Session not found';
    res.writeHead(id === undefined ? 400 : 404, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message }, id: null }));
  });
  const forgetSessions = async () => {
    const forgotten = [...sessions.values()];
    sessions.clear();
    await Promise.all(forgotten.map(({ server }) => server.close()));
  };
  return {
    ...front,
    slow,
    sessions: () => [...sessions.keys()],
    forgetSessions,
    async announceTools() {
      for (const { server } of sessions.values()) await server.server.sendToolListChanged();
    },
    async close() {
      await forgetSessions();
      await front.close();
    },
  };
}
