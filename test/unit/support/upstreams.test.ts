import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { expect, test, vi } from 'vitest';
import { dualUpstream } from '#support/upstreams/dual-upstream';
import { legacyStatefulUpstream } from '#support/upstreams/legacy-stateful-upstream';
import { legacyStatelessUpstream } from '#support/upstreams/legacy-stateless-upstream';
import { modernOnlyUpstream } from '#support/upstreams/modern-only-upstream';
import { patient } from '#support/patient';

const sampled = {
  role: 'assistant' as const,
  model: 'test',
  content: { type: 'text' as const, text: 'forty-two' },
};

async function oldClient(url: string): Promise<OldClient> {
  const client = new OldClient({ name: 'old', version: '1' }, { capabilities: { sampling: {} } });
  client.setRequestHandler(CreateMessageRequestSchema, () => sampled);
  await client.connect(new OldTransport(new URL(url)));
  return client;
}

async function modernClient(url: string): Promise<ModernClient> {
  const client = new ModernClient(
    { name: 'modern', version: '1' },
    { capabilities: { sampling: {} }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  client.setRequestHandler('sampling/createMessage', () => sampled);
  await client.connect(new ModernTransport(new URL(url)));
  return client;
}

const text = (value: string) => ({ content: [{ type: 'text', text: value }] });

test.each([
  ['legacy with sessions', legacyStatefulUpstream, oldClient],
  ['legacy without sessions', legacyStatelessUpstream, oldClient],
  ['dual, for an old client', dualUpstream, oldClient],
  ['dual, for a modern client', dualUpstream, modernClient],
  ['modern only', modernOnlyUpstream, modernClient],
])(
  'upstream fixture that is %s: it has the tools, the resource and the prompt',
  async (_, open, connect) => {
    const upstream = await open();
    const client = await connect(upstream.url);

    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['echo', 'add', 'slow', 'progress', 'ask', 'big']),
    );
    expect(await client.callTool({ name: 'echo', arguments: { text: 'é' } })).toMatchObject(
      text('é'),
    );
    expect(await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })).toMatchObject(
      text('3'),
    );
    expect(await client.callTool({ name: 'big', arguments: { bytes: 100_000 } })).toMatchObject(
      text('x'.repeat(100_000)),
    );
    expect(await client.readResource({ uri: 'memo://greeting' })).toMatchObject({
      contents: [{ text: 'Hello from upstream' }],
    });
    expect(await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } })).toMatchObject({
      messages: [{ content: { text: 'Greet Ada' } }],
    });
    expect(upstream.requests.some(({ body }) => body.includes('"echo"'))).toBe(true);
    await client.close();
    await upstream.close();
  },
);

test.each([
  ['legacy with sessions', legacyStatefulUpstream, oldClient, 'forty-two'],
  ['modern', modernOnlyUpstream, modernClient, 'forty-two (asked: why?)'],
] as const)(
  'upstream fixture that is %s: it asks questions, reports progress and receives cancellations',
  async (_, open, connect, answer) => {
    const upstream = await open();
    const client = await connect(upstream.url);
    const steps: number[] = [];
    const onprogress = ({ progress }: { progress: number }) => steps.push(progress);
    const ask = { name: 'ask', arguments: { question: 'why?' } };
    const slow = { name: 'slow', arguments: {} };
    const cancel = new AbortController();
    const call =
      client instanceof OldClient
        ? {
            progress: client.callTool({ name: 'progress' }, undefined, { onprogress }),
            ask: client.callTool(ask),
            slow: client.callTool(slow, undefined, { signal: cancel.signal }),
          }
        : {
            progress: client.callTool({ name: 'progress' }, { onprogress }),
            ask: client.callTool(ask),
            slow: client.callTool(slow, { signal: cancel.signal }),
          };
    const cancelled = call.slow.catch((error: unknown) => error);
    await upstream.slow.until('started');
    cancel.abort();
    await upstream.slow.until('cancelled');

    expect(await cancelled).toBeInstanceOf(Error);
    expect(await call.progress).toMatchObject(text('done'));
    expect(steps).toEqual([1, 2, 3]);
    expect(await call.ask).toMatchObject(text(answer));
    await client.close();
    await upstream.close();
  },
);

test('legacy upstream fixture with sessions: it sends notifications on the session’s GET stream', async () => {
  const upstream = await legacyStatefulUpstream({ resumable: true });
  const client = await oldClient(upstream.url);
  const heard = new Promise((resolve) =>
    client.setNotificationHandler(ToolListChangedNotificationSchema, resolve),
  );
  await vi.waitUntil(() => upstream.requests.some(({ method }) => method === 'GET'), patient);
  await client.callTool({ name: 'echo', arguments: { text: 'x' } });
  await upstream.announceTools();

  await heard;
  expect(upstream.sessions()).toHaveLength(1);
  await upstream.forgetSessions();
  await expect(client.listTools()).rejects.toThrow(/Session not found/);
  await client.close();
  await upstream.close();
});

test('modern upstream fixture: it refuses a legacy client', async () => {
  const upstream = await modernOnlyUpstream();

  await expect(oldClient(upstream.url)).rejects.toThrow(/-?32022|nsupported/);
  await upstream.close();
});
