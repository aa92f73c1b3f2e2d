import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, expect, onTestFinished, test, vi } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, ownSessionId, rpc } from '#support/mcp-call';
import { formUpstream } from '#support/upstreams/form-upstream';
import { legacyStatefulUpstream } from '#support/upstreams/legacy-stateful-upstream';
import { modernOnlyUpstream } from '#support/upstreams/modern-only-upstream';
import { patient } from '#support/patient';

const modern = await modernOnlyUpstream();
const legacy = await legacyStatefulUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: modern.url });
await gateway.command('server', 'create', 'acme/legacy', '--http-url', legacy.url);
const forms = await formUpstream();
await gateway.command('server', 'create', 'acme/forms', '--http-url', forms.url);
const formsKey = (await gateway.newKey('acme/forms')).key;
const legacyKey = (await gateway.newKey('acme/legacy')).key;

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await modern.close();
  await legacy.close();
  await forms.close();
});

const because = {
  role: 'assistant' as const,
  model: 'm',
  content: { type: 'text' as const, text: 'because' },
};

/** An assistant of the older era, at an upstream that speaks the modern one alone. */
async function olderAssistant(name = 'fixture', key = gateway.key) {
  const client = new Client(
    { name: 'older', version: '1' },
    { capabilities: { sampling: {}, elicitation: {} } },
  );
  client.setRequestHandler(CreateMessageRequestSchema, () => because);
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => ({
    action: 'accept',
    content: { name: `Ada, asked: ${params.message}` },
  }));
  const headers = { 'x-api-key': key };
  const transport = new StreamableHTTPClientTransport(new URL(`${gateway.base}/mcp/acme/${name}`), {
    requestInit: { headers },
  });
  onTestFinished(() => client.close());
  await client.connect(transport);
  return { client, transport };
}

/** An assistant of the modern era, at the upstream that speaks only the older one. */
async function modernAssistant(key = legacyKey) {
  const client = new ModernClient(
    { name: 'modern', version: '1' },
    { capabilities: { sampling: {} }, versionNegotiation: { mode: 'auto' } },
  );
  client.setRequestHandler('sampling/createMessage', () => because);
  const transport = new ModernTransport(new URL(`${gateway.base}/mcp/acme/legacy`), {
    requestInit: { headers: { 'x-api-key': key } },
  });
  onTestFinished(() => client.close());
  await client.connect(transport);
  return client;
}

const textOf = ({ content }: Record<string, unknown>) =>
  Array.isArray(content) ? String(Object(content[0]).text) : '';
const steps = { name: 'progress', arguments: { steps: 3 } };

test('legacy assistant, modern upstream: lists, calls, progress and required input work', async () => {
  const { client, transport } = await olderAssistant();
  const seen: number[] = [];

  const { tools } = await client.listTools();
  const big = await client.callTool({ name: 'big', arguments: { bytes: 3_000_000 } });
  await client.callTool(steps, undefined, { onprogress: ({ progress }) => seen.push(progress) });
  const asked = await client.callTool({ name: 'ask', arguments: { question: 'why?' } });

  expect(client.getServerVersion()).toMatchObject({ name: 'modern' });
  expect(tools.map(({ name }) => name)).toContain('ask');
  expect(textOf(big)).toHaveLength(3_000_000);
  expect(seen).toEqual([1, 2, 3]);
  expect(textOf(asked)).toBe('because (asked: why?)');
  expect(transport.sessionId).toMatch(ownSessionId);
});

test('legacy assistant, modern upstream: a form is filled in by the assistant’s user', async () => {
  const { client } = await olderAssistant('forms', formsKey);

  const filled = await client.callTool({ name: 'fill' });

  expect(JSON.parse(textOf(filled))).toEqual({
    form: { action: 'accept', content: { name: 'Ada, asked: Who are you?' } },
  });
});

const placed = { name: 'place', arguments: { region: 'Île-de-France' } };

test('legacy assistant, modern upstream: a tool that requires a parameter header works', async () => {
  const { client } = await olderAssistant('forms', formsKey);

  expect(textOf(await client.callTool(placed))).toBe('in Île-de-France');
});

test('plain request, modern upstream: a tool that requires a parameter header works without a list before', async () => {
  await gateway.command('server', 'create', 'acme/places', '--http-url', forms.url);
  const { key } = await gateway.newKey('acme/places');
  const body = rpc('tools/call', placed);
  const answer = await mcpCall(`${gateway.base}/mcp/acme/places`, { key, body });

  expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('in Île-de-France')]);
});

test('legacy assistant, modern upstream: changes arrive, and cancelling ends the call there', async () => {
  const { client } = await olderAssistant();
  const changed = vi.fn();
  client.setNotificationHandler(ToolListChangedNotificationSchema, changed);
  const gone = new AbortController();
  const slow = { name: 'slow', arguments: {} };

  const call = client
    .callTool(slow, undefined, { signal: gone.signal })
    .then(() => 'answered', String);
  await modern.slow.until('started');
  gone.abort('no longer needed');
  await modern.slow.until('cancelled');
  await vi.waitFor(async () => {
    await modern.announceTools();
    expect(changed).toHaveBeenCalled();
  }, patient);

  expect(await call).toContain('no longer needed');
});

test('modern assistant, legacy upstream: lists, calls, progress and sampling work', async () => {
  const client = await modernAssistant();
  const seen: number[] = [];

  const { tools } = await client.listTools();
  const big = await client.callTool({ name: 'big', arguments: { bytes: 3_000_000 } });
  await client.callTool(steps, { onprogress: ({ progress }) => seen.push(progress) });
  const asked = await client.callTool({ name: 'ask', arguments: { question: 'why?' } });

  expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28');
  expect(client.getServerVersion()).toMatchObject({ name: 'legacy' });
  expect(tools.map(({ name }) => name)).toContain('ask');
  expect(textOf(big)).toHaveLength(3_000_000);
  expect(seen).toEqual([1, 2, 3]);
  expect(textOf(asked)).toBe('because');
});

test('modern assistant, legacy upstream: changes arrive, and cancelling ends the call there', async () => {
  const client = await modernAssistant();
  const changed = vi.fn();
  client.setNotificationHandler('notifications/tools/list_changed', changed);
  const subscription = await client.listen({ toolsListChanged: true });
  const gone = new AbortController();

  const call = client
    .callTool({ name: 'slow', arguments: {} }, { signal: gone.signal })
    .then(() => 'answered', String);
  await legacy.slow.until('started');
  gone.abort('no longer needed');
  await legacy.slow.until('cancelled');
  await legacy.announceTools();
  await vi.waitFor(() => expect(changed).toHaveBeenCalled(), patient);
  await subscription.close();

  expect(subscription.honoredFilter).toEqual({ toolsListChanged: true });
  expect(await call).toMatch(/abort|no longer needed/i);
});
