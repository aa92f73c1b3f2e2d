/**
 * What a collection answers when one of its members refuses or fails: what is closed to the caller looks like what nobody has, and an
 * answer of a member never passes as one of Latchkey's own, whatever it says.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

import { bodyOf, countedServer, type CountedServer } from '#support/counted-server';
import { initialize, mcpCall, modern, rpc } from '#support/mcp-call';
import { mcpListening } from '#support/mcp-listening';
import { patient } from '#support/patient';
import { runningServer, type RunningServer } from '#support/running-server';

const messageSchema = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).default({}),
});
type Asked = z.output<typeof messageSchema>;

/** An HTTP answer of the member, instead of a result. */
interface Scripted {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: object;
}

const named = (...names: string[]) => names.map((name) => ({ name }));
const cached = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
const ofTemplate = 'notes://shelf/{page}';
const results: Readonly<Record<string, object>> = {
  'server/discover': {
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} },
    ...cached,
  },
  'tools/list': {
    tools: ['open', 'shut'].map((name) => ({ name, inputSchema: { type: 'object' } })),
    ...cached,
  },
  'prompts/list': { prompts: named('open', 'shut'), ...cached },
  'resources/list': {
    resources: ['notes://open', 'notes://shut'].map((uri) => ({ uri, name: uri })),
    ...cached,
  },
  'resources/templates/list': {
    resourceTemplates: [{ uriTemplate: ofTemplate, name: 'shelf' }],
    ...cached,
  },
};

const stack = new AsyncDisposableStack();
let scripted: Scripted | undefined;
let calls: Asked[] = [];
let member: CountedServer;
let server: RunningServer;
let key = '';

beforeAll(async () => {
  member = stack.use(
    await countedServer(async (request, response) => {
      const message = messageSchema.parse(JSON.parse(await bodyOf(request)));
      const { id, method } = message;
      const listed = results[method];
      if (!listed) calls.push(message);
      response.setHeader('Content-Type', 'application/json');
      if (method === 'subscriptions/listen') {
        const meta = { _meta: { 'io.modelcontextprotocol/subscriptionId': id } };
        const acknowledged = 'notifications/subscriptions/acknowledged';
        const params = { ...message.params, ...meta };
        response.setHeader('Content-Type', 'text/event-stream');
        const event = JSON.stringify({ jsonrpc: '2.0', method: acknowledged, params });
        response.write(`data: ${event}\n\n`);
      } else if (!listed && scripted) {
        const { status, headers = {}, body = {} } = scripted;
        response.writeHead(status, headers).end(JSON.stringify({ jsonrpc: '2.0', id, ...body }));
      } else {
        const result = listed ?? { resultType: 'complete', content: [] };
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
      }
    }),
  );
  server = stack.use(await runningServer());
  await server.command('organization', 'create', 'acme');
  await server.command('server', 'create', 'acme/library', '--http-url', `${member.origin}/mcp`);
  await server.command('collection', 'create', 'acme/desk', '--member', 'library');
  const made = await server.command('key', 'create', 'acme/desk', '--name', 'k');
  ({ key } = z.object({ key: z.string() }).parse(made));
  for (const list of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'])
    await ask('modern', list);
  const rules = [
    ['tool', 'shut'],
    ['prompt', 'shut'],
    ['resource', 'notes://shut'],
    ['template', ofTemplate],
  ];
  await server.command('group', 'create', 'acme', 'finance');
  for (const [kind = '', name = ''] of rules) {
    const words = ['--kind', kind, '--group', 'finance'];
    await server.command('tool', 'restrict', 'acme/library', name, ...words);
  }
}, 60_000);
afterAll(() => stack.disposeAsync());
beforeEach(() => {
  scripted = undefined;
  calls = [];
});

type Params = Record<string, unknown>;
const endpoint = () => `${server.base}/mcp/acme/desk`;

/** How callers ask: in the modern era, in a session of the older one, and without any handshake. */
const forms = {
  async modern(method: string, params: Params = {}) {
    return mcpCall(endpoint(), { key, ...modern(method, params) });
  },
  async session(method: string, params: Params = {}) {
    const accept = 'application/json, text/event-stream';
    const version = '2025-06-18';
    const opened = await mcpCall(endpoint(), {
      key,
      body: initialize(version),
      headers: { accept },
    });
    const id = opened.headers.get('mcp-session-id') ?? '';
    const headers = { accept, 'mcp-protocol-version': version, 'mcp-session-id': id };
    return mcpCall(endpoint(), { key, headers, body: rpc(method, params) });
  },
  async plain(method: string, params: Params = {}) {
    return mcpCall(endpoint(), { key, body: rpc(method, params) });
  },
} as const;
type Form = keyof typeof forms;
const formNames = Object.keys(forms).filter((name): name is Form => Object.hasOwn(forms, name));

/** What a caller can see of an answer. The headers that change from answer to answer are left out. */
async function ask(form: Form, method: string, params: Params = {}) {
  const { status, headers, text } = await forms[form](method, params);
  const varying = new Set(['date', 'x-request-id', 'mcp-session-id', 'content-length']);
  return { status, text, headers: [...headers].filter(([name]) => !varying.has(name)) };
}

const argument = { name: 'page', value: '1' };
const closed: readonly (readonly [what: string, method: string, params: Params])[] = [
  ['a tool', 'tools/call', { name: 'shut', arguments: {} }],
  ['a prompt', 'prompts/get', { name: 'shut' }],
  ['a resource', 'resources/read', { uri: 'notes://shut' }],
  ['a resource of a template', 'resources/read', { uri: 'notes://shelf/1' }],
  ['a prompt', 'completion/complete', { ref: { type: 'ref/prompt', name: 'shut' }, argument }],
  [
    'a template',
    'completion/complete',
    { ref: { type: 'ref/resource', uri: ofTemplate }, argument },
  ],
];

/** The same with names that no member has. */
const unknownOf = (text: string) => text.replaceAll('shut', 'lost').replaceAll('shelf', 'quiet');

describe.for(formNames)('220: collection: a caller in the form %s gets', (form) => {
  test.for(closed)(
    'for %s that is closed at a member, in %s, what there is for an unknown one',
    async ([, method, params]) => {
      const unknown: Params = JSON.parse(unknownOf(JSON.stringify(params)));

      const ofClosed = await ask(form, method, params);
      const ofUnknown = await ask(form, method, unknown);

      expect(ofUnknown.text).toContain('"error":');
      expect({ ...ofClosed, text: unknownOf(ofClosed.text) }).toEqual(ofUnknown);
      expect(calls).toEqual([]);
    },
  );
});

test('220: collection: a subscription leaves out a closed resource like an unknown one', async () => {
  const uris = ['notes://open', 'notes://shut', 'notes://shelf/1', 'notes://lost'];
  await using listening = await mcpListening(endpoint(), {
    key,
    notifications: { resourceSubscriptions: uris },
  });

  const [, acknowledged = ''] = /^data: (.*)$/m.exec(listening.heard()) ?? [];
  const { params } = messageSchema.parse(JSON.parse(acknowledged));
  expect(params['notifications']).toEqual({ resourceSubscriptions: ['notes://open'] });
  await expect
    .poll(() => calls.map((call) => call.params['notifications']), patient)
    .toEqual([{ resourceSubscriptions: ['notes://open'] }]);
});

const callOpen = (form: Form) => ask(form, 'tools/call', { name: 'open', arguments: {} });

test.for<[string, Scripted]>([
  ['HTTP 503 with Retry-After', { status: 503, headers: { 'retry-after': '7' } }],
  ['HTTP 503', { status: 503 }],
  ['HTTP 401', { status: 401, body: { error: { code: -32_001, message: 'sign-in required' } } }],
  ['HTTP 429 with Retry-After', { status: 429, headers: { 'retry-after': '7' } }],
  ['HTTP 500', { status: 500 }],
])('221: collection: %s of a member is a failure of that member', async ([, failing]) => {
  scripted = failing;

  const { status, text, headers } = await callOpen('modern');

  expect([status, text]).toEqual([200, expect.stringContaining('library: the MCP server behind')]);
  expect(headers.map(([name]) => name)).not.toContain('retry-after');
  expect(calls).toHaveLength(1);
});

test.for<[string, object]>([
  ['an unknown tool', { code: -32_602, message: 'unknown tool: open' }],
  ['a fault', { code: -32_000, message: 'access cannot be checked right now; try again later' }],
  ['an unknown method', { code: -32_601, message: 'method not found' }],
  ['a lost session', { code: -32_001, message: 'session not found: initialize again' }],
])(
  '221: collection: the words of Latchkey for %s, said by a member, stay those of the member',
  async ([, error]) => {
    scripted = { status: 200, body: { error: { ...error, data: { by: 'the member' } } } };

    for (const form of formNames) {
      const { status, text } = await callOpen(form);
      expect([form, status, JSON.parse(text)]).toMatchObject([
        form,
        200,
        { error: { ...error, data: { by: 'the member' } } },
      ]);
    }
  },
);
