import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

import { listen } from '../loopback.ts';

/** A server on the second SDK. */
export interface ModernUpstream extends AsyncDisposable {
  readonly url: string;
  /** Calls of `wait` that are under way. */
  readonly waiting: () => number;
  /** Calls of `wait` that were cancelled. */
  readonly cancelled: () => number;
}

/**
 * Speaks the modern era only, or both eras, the legacy one without sessions. Tools: `echo` repeats `text`;
 * `wait` waits until it is cancelled.
 */
export async function modernUpstream(eras: 'modern only' | 'both'): Promise<ModernUpstream> {
  let waiting = 0;
  let cancelled = 0;
  const handler = createMcpHandler(
    () => {
      const server = new McpServer({ name: eras, version: '1' });
      const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
      const inputSchema = z.object({ text: z.string() });
      server.registerTool('echo', { inputSchema }, (input) => text(input.text));
      server.registerTool('wait', { inputSchema: z.object({}) }, async (_, context) => {
        waiting += 1;
        await pause(60_000, undefined, { signal: context.mcpReq.signal }).catch(() => {
          cancelled += 1;
        });
        waiting -= 1;
        return text('cancelled');
      });
      return server;
    },
    { legacy: eras === 'both' ? 'stateless' : 'reject' },
  );
  const handle = toNodeHandler(handler);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its optional members, exactly
  const server = createServer((request, response) => void handle(request as never, response));
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    waiting: () => waiting,
    cancelled: () => cancelled,
    async [Symbol.asyncDispose]() {
      await handler.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
