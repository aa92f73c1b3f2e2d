import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { listen } from './loopback.ts';

/** A request as it reached the upstream. */
export interface Received {
  readonly method: string;
  /** Names and values in turn, as they arrived. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** An MCP server over Streamable HTTP, without sessions, that notes whatever reaches it. */
export interface FixtureUpstream extends AsyncDisposable {
  /** `http://127.0.0.1:PORT/mcp` */
  readonly url: string;
  readonly received: readonly Received[];
  /** Answers of `endless` that are still being sent. */
  readonly openStreams: () => number;
}

const messageSchema = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string().default(''),
  params: z.looseObject({ name: z.string().optional() }).optional(),
});

const tools = ['echo', 'endless'].map((name) => ({ name, inputSchema: { type: 'object' } }));

/** Its tool `echo` repeats its arguments; the answer of `endless` is a stream without an end. */
export async function fixtureUpstream(): Promise<FixtureUpstream> {
  const received: Received[] = [];
  const streams = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    void readText(request).then((body) => {
      const { method = '', rawHeaders } = request;
      received.push({ method, rawHeaders, body });
      if (method === 'POST') answer(body, response, streams);
      else response.writeHead(405).end();
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    received,
    openStreams: () => streams.size,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function answer(body: string, response: ServerResponse, streams: Set<ServerResponse>): void {
  const { id, method, params } = messageSchema.parse(JSON.parse(body));
  if (id === undefined) {
    response.writeHead(202).end();
    return;
  }
  if (method === 'tools/call' && params?.name === 'endless') {
    streams.add(response);
    response.on('close', () => streams.delete(response));
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write('data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n');
    return;
  }
  const result = resultOf(method, params ?? {});
  const outcome = result ? { result } : { error: { code: -32601, message: 'method not found' } };
  response
    .writeHead(200, { 'Content-Type': 'application/json' })
    .end(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
}

function resultOf(method: string, params: object): object | undefined {
  if (method === 'tools/list') return { tools };
  if (method === 'tools/call') {
    return { content: [{ type: 'text', text: JSON.stringify(params) }] };
  }
  if (method !== 'initialize') return undefined;
  const serverInfo = { name: 'fixture', version: '1' };
  return { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
}

async function readText(request: IncomingMessage): Promise<string> {
  let text = '';
  request.setEncoding('utf8');
  for await (const chunk of request) text += String(chunk);
  return text;
}
