import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bodyOf } from '#support/counted-server';

/** The form of answers: whole, or as a stream of events. */
export type AnswerKind = 'json' | 'sse';

export type FaultMcp = {
  /** Pass `body` for a request whose body was read already. */
  handle: (request: IncomingMessage, response: ServerResponse, body?: string) => Promise<void>;
};

type Asked = {
  id?: unknown;
  method?: string;
  params?: { name?: string; arguments?: { n?: number }; _meta?: Record<string, unknown> };
};

const inputSchema = { type: 'object' };
const tools = [
  { name: 'act', inputSchema },
  { name: 'read', inputSchema, annotations: { readOnlyHint: true } },
  { name: 'hold', inputSchema },
];

/**
 * A server of both eras whose tool `hold` never answers. `heard` takes each method, `act 7` for a call,
 * and `closed 7` when a call's connection was closed before its answer.
 */
export function faultMcp(kind: AnswerKind, heard: (what: string) => void): FaultMcp {
  const sessions = new Set<string>();
  return {
    async handle(request, response, read) {
      const body = read ?? (await bodyOf(request));
      const session = String(request.headers['mcp-session-id'] ?? '');
      if (request.method !== 'POST') {
        heard(request.method ?? '');
        sessions.delete(request.method === 'DELETE' ? session : '');
        return void response.writeHead(request.method === 'DELETE' ? 200 : 405).end();
      }
      const asked: Asked = JSON.parse(body);
      const { id, method = 'answer', params = {} } = asked;
      const modern = params._meta?.['io.modelcontextprotocol/protocolVersion'] !== undefined;
      const opens = method === 'initialize';
      if (!modern && !opens && !sessions.has(session)) return void response.writeHead(404).end();
      const n = params.arguments?.n;
      heard(n === undefined ? method : `${params.name} ${n}`);
      if (id === undefined) return void response.writeHead(202).end();
      const fresh = opens ? randomUUID() : undefined;
      if (fresh !== undefined) sessions.add(fresh);
      const head = {
        'content-type': kind === 'json' ? 'application/json' : 'text/event-stream',
        ...(fresh !== undefined && { 'mcp-session-id': fresh }),
      };
      if (params.name === 'hold') {
        response.on('close', () => heard(`closed ${n}`));
        if (kind === 'sse') response.writeHead(200, head).write(': working\n\n');
        return;
      }
      const text = JSON.stringify({ jsonrpc: '2.0', id, result: resultOf(asked) });
      response.writeHead(200, head).end(kind === 'json' ? text : `data: ${text}\n\n`);
    },
  };
}

function resultOf({ method, params = {} }: Asked): object {
  if (method === 'initialize')
    return {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'faulty', version: '1' },
    };
  if (method === 'tools/list') return { resultType: 'complete', tools };
  return { content: [{ type: 'text', text: String(params.arguments?.n) }] };
}
