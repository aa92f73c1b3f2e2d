import type { IncomingMessage, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

export type StatelessMcp = {
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  events: string[];
};

/** A server of both eras without sessions, built on the SDK's v2; with `legacy: 'reject'`, of the modern era alone. */
export function statelessMcp({ legacy }: { legacy?: 'reject' } = {}): StatelessMcp {
  const events: string[] = [];
  const handler = createMcpHandler(({ era }) => {
    const server = new McpServer(
      { name: `stateless ${era}`, version: '2.0.0' },
      { capabilities: { tools: {} } },
    );
    const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });
    server.registerTool('echo', { inputSchema: z.object({ text: z.string() }) }, (input) =>
      text(input.text),
    );
    server.registerTool('wait', { inputSchema: z.object({}) }, async (_, context) => {
      await new Promise((resolve) => context.mcpReq.signal.addEventListener('abort', resolve));
      events.push('cancelled');
      return text('too late');
    });
    return server;
  }, legacy && { legacy });
  const node = toNodeHandler(handler);
  return {
    events,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its type knows no absent method
    handle: async (request, response) => node(request as never, response),
  };
}
