import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { recordingServer } from '../recording-server.ts';
import { legacyServer } from './legacy-server.ts';
import { SlowCalls } from './slow-calls.ts';
import type { Upstream } from './upstream.ts';

/** MCP as of 2025-11-25 without sessions, answers as plain JSON; it has no GET stream. */
export async function legacyStatelessUpstream(): Promise<Upstream> {
  const slow = new SlowCalls();
  const front = await recordingServer(async (req, res, body) => {
    if (req.method !== 'POST') {
      res.writeHead(405, { allow: 'POST' }).end();
      return;
    }
    const server = legacyServer(slow);
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    res.on('close', () => void server.close());
    await server.connect(transport);
    await transport.handleRequest(req, res, body);
  });
  return { ...front, slow, async announceTools() {} };
}
