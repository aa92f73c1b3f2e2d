import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';

import { z } from 'zod';

import { listen } from '../loopback.ts';

/** A request as it arrived. */
export interface KeyedRequest {
  readonly method: string;
  readonly tool: string | undefined;
  readonly headers: IncomingMessage['headers'];
}

/** A real MCP server that knows people by a key in the header `x-their-key`. Listing tools needs none, as at many such servers. */
export interface KeyedUpstream extends AsyncDisposable {
  readonly url: string;
  readonly requests: KeyedRequest[];
  /** The owner of each key. Removing a key revokes it. */
  readonly keys: Map<string, string>;
  /** The status for a key that it does not know. */
  refusal: 401 | 403;
  /** Where every request is redirected to. */
  redirect: string | undefined;
  /** Called before a tool answers. */
  beforeTool: (() => Promise<void>) | undefined;
}

const messageSchema = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.looseObject({ name: z.string().optional() }).optional(),
});

export async function keyedUpstream(): Promise<KeyedUpstream> {
  const server = createServer((request, response) => void answer(request, response));
  const port = await listen(server);
  const upstream: KeyedUpstream = {
    url: `http://127.0.0.1:${port}/mcp`,
    requests: [],
    keys: new Map(),
    refusal: 401,
    redirect: undefined,
    beforeTool: undefined,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { headers } = request;
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = messageSchema.parse(JSON.parse(await text(request)));
    upstream.requests.push({ method, tool: params?.name, headers });
    if (upstream.redirect !== undefined) {
      return void response.writeHead(307, { location: upstream.redirect }).end();
    }
    const key = String(headers['x-their-key'] ?? '');
    const owner = upstream.keys.get(key);
    if (method === 'tools/call') {
      await upstream.beforeTool?.();
      if (owner === undefined) return void response.writeHead(upstream.refusal).end('who is it?');
    }
    if (id === undefined) return void response.writeHead(202).end();
    const result = resultOf(method, `you are ${owner} with ${key}`);
    const error = { code: -32_601, message: 'unknown' };
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
  }
  return upstream;
}

function resultOf(method: string, words: string): object | undefined {
  const inputSchema = { type: 'object' };
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'keyed-upstream', version: '1' },
      };
    case 'tools/list':
      return {
        tools: [
          { name: 'whoami', inputSchema, annotations: { readOnlyHint: true } },
          { name: 'write', inputSchema },
        ],
      };
    case 'tools/call':
      return { content: [{ type: 'text', text: words }] };
    default:
      return undefined;
  }
}
