import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';

import { z } from 'zod';

import { type Answer, sendJson } from '../upstreams/recording-upstream.ts';
import { type Kind, kinds, type Listed, type State } from './reference.ts';

/** All names that the server ever lists. */
export const names = {
  tool: ['search', 'refund', 'Refund', 'report'],
  prompt: ['greet', 'draft'],
  template: ['memo://{id}', 'file:///{+path}'],
  resource: ['memo://one', 'file:///a/b', 'note://x'],
} as const satisfies Record<Kind, readonly string[]>;

/** How each kind is listed: the method, the member of its result, and the member that names an entry. */
export const lists: Readonly<Record<Kind, { method: string; member: string; key: string }>> = {
  tool: { method: 'tools/list', member: 'tools', key: 'name' },
  prompt: { method: 'prompts/list', member: 'prompts', key: 'name' },
  template: { method: 'resources/templates/list', member: 'resourceTemplates', key: 'uriTemplate' },
  resource: { method: 'resources/list', member: 'resources', key: 'uri' },
};

const request = z.object({
  id: z.unknown().optional(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).default({}),
});

export type ServerEra = 'modern' | 'legacy';

/** A server of one era that offers what the state lists, and all resources. */
export function answering({ listed }: State, era: ServerEra): Answer {
  return ({ method: httpMethod, body }, response) => {
    if (httpMethod !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = request.parse(JSON.parse(body.toString()));
    if (id === undefined) return void response.writeHead(202).end();
    const kind = kinds.find((one) => lists[one].method === method);
    const { member } = lists[kind ?? 'tool'];
    const said = (rest: object) =>
      sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, ...rest }));
    const isOfEra = era === 'modern' ? method !== 'initialize' : !ofModernEra.has(method);
    if (!isOfEra) return said({ error: { code: -32601, message: 'method not found' } });
    if (method === 'server/discover') return said({ result: discovered });
    if (method === 'initialize') {
      response.setHeader('mcp-session-id', randomUUID());
      return said({ result: initialized });
    }
    if (kind === 'resource') {
      return said({ result: { resources: names.resource.map((uri) => ({ uri, name: uri })) } });
    }
    if (kind) {
      const entries = [...listed[kind]].map(([name, definition]) =>
        entryOf(kind, name, definition),
      );
      return said({ result: { [member]: entries } });
    }
    if (method === 'subscriptions/listen') return listening(response, id, params);
    return said({
      result: { completion: { values: [] }, content: [], messages: [], contents: [] },
    });
  };
}

function entryOf(kind: Kind, name: string, { version, readOnly }: Listed): object {
  const { key } = lists[kind];
  const entry = { [key]: name, name, description: `${version} ${readOnly}` };
  if (kind !== 'tool') return entry;
  return { ...entry, inputSchema: { type: 'object' }, annotations: { readOnlyHint: readOnly } };
}

const ofModernEra = new Set(['server/discover', 'subscriptions/listen']);

const described = {
  capabilities: { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} },
  serverInfo: { name: 'model', version: '1' },
};
const discovered = { supportedVersions: ['2026-07-28'], ...described };
const initialized = { protocolVersion: '2025-06-18', ...described };

/** Acknowledges a subscription and says nothing more. */
function listening(
  response: ServerResponse,
  id: unknown,
  { notifications }: Record<string, unknown>,
): void {
  const method = 'notifications/subscriptions/acknowledged';
  const params = { notifications, _meta: { 'io.modelcontextprotocol/subscriptionId': id } };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`);
}
