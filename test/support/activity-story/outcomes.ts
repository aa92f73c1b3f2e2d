import { z } from 'zod';

const message = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string().optional(),
  params: z.looseObject({ name: z.string().optional() }).optional(),
});

/** The reaction of an MCP server to a message: it answers with JSON, accepts it without an answer, never answers, or crashes. */
export type Reaction = { readonly json: string } | 'accepts' | 'waits' | 'fails';

/**
 * The reaction of a legacy MCP server with twelve tools. Five of them end in different ways: `echo`, `failing`, `missing`, `slow` and
 * `crashing`. The others answer like `echo`.
 */
export function reactionTo(text: string): Reaction {
  const { id, method, params } = message.parse(JSON.parse(text));
  if (id === undefined || method === undefined) return 'accepts';
  const reply = (outcome: object): Reaction => ({
    json: JSON.stringify({ jsonrpc: '2.0', id, ...outcome }),
  });
  const words = [{ type: 'text', text: 'what the tool answered' }];
  if (method === 'initialize') {
    const serverInfo = { name: 'story', version: '1' };
    return reply({
      result: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo },
    });
  }
  if (method === 'ping') return reply({ result: {} });
  if (method === 'tools/list') return reply({ result: { tools } });
  if (method !== 'tools/call') return reply({ error: { code: -32_601, message: 'no' } });
  switch (params?.name ?? '') {
    case 'echo':
    case 'invoice_read':
    case 'invoice_write':
    case 'order_read':
    case 'order_write':
    case 'refund_read':
    case 'refund_write':
    case 'report':
      return reply({ result: { content: words } });
    case 'failing':
      return reply({ result: { content: words, isError: true } });
    case 'slow':
      return 'waits';
    case 'crashing':
      return 'fails';
    default:
      return reply({ error: { code: -32_602, message: 'no such tool' } });
  }
}

const tools = [
  'echo',
  'failing',
  'missing',
  'slow',
  'crashing',
  'report',
  'invoice_read',
  'invoice_write',
  'order_read',
  'order_write',
  'refund_read',
  'refund_write',
].map((name) => ({ name, inputSchema: { type: 'object' } }));
