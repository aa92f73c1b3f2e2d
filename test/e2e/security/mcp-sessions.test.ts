import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, expect, onTestFinished, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import {
  acceptsBoth,
  initialize,
  mcpCall,
  modern,
  ownSessionId,
  rpc,
  toolsList,
} from '#support/mcp-call';
import { modernUpstream } from '#support/upstreams/modern-upstream';
import { bothErasAnswer, recordingUpstream, sendJson } from '#support/upstreams/recording-upstream';
import { sessionUpstream } from '#support/upstreams/session-upstream';
import { patient } from '#support/patient';

const upstream = await sessionUpstream();
const newest = await modernUpstream('modern only');
const both = await modernUpstream('both');
const bare = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { base, endpoint, key } = gateway;
const others: Record<string, string> = {};
for (const [name, { url }] of Object.entries({ newest, both, bare })) {
  await gateway.command('server', 'create', `acme/${name}`, '--http-url', url);
  others[name] = (await gateway.newKey(`acme/${name}`)).key;
}

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  for (const made of [upstream, newest, both, bare]) await made[Symbol.asyncDispose]();
});

const at = (name: string) => `${base}/mcp/acme/${name}`;

test.for(['fixture', 'newest', 'both', 'bare'])(
  '§6: plain request: the specification’s example gets 200 in JSON from the upstream %s',
  async (name) => {
    const credential = { key: others[name] ?? key };
    const listed = await mcpCall(at(name), credential);
    const called = await mcpCall(at(name), {
      ...credential,
      body: rpc('tools/call', { name: 'echo', arguments: { text: 'héllo' } }, 'mine'),
      headers: { accept: acceptsBoth },
    });

    expect([listed.status, called.status]).toEqual([200, 200]);
    expect(listed.headers.get('content-type')).toBe('application/json');
    expect(called.headers.get('content-type')).toBe('application/json');
    expect(JSON.parse(listed.text)).toMatchObject({ jsonrpc: '2.0', id: 1 });
    expect(listed.text).toContain('"tools":[{"name":"echo"');
    expect(JSON.parse(called.text)).toMatchObject({ jsonrpc: '2.0', id: 'mine' });
    expect(listed.headers.get('mcp-session-id')).toBeNull();
  },
);

test('§6: plain request: after the upstream forgot the session it is repeated with a new one', async () => {
  expect((await mcpCall(endpoint, { key })).status).toBe(200);

  upstream.forget();

  expect((await mcpCall(endpoint, { key })).status).toBe(200);
});

/** A client of the first SDK, signed in by key, that answers when its model is asked. */
async function legacyClient(credential = key) {
  const client = new Client({ name: 'test', version: '1' }, { capabilities: { sampling: {} } });
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'test',
    role: 'assistant' as const,
    content: { type: 'text' as const, text: 'because' },
  }));
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), {
    requestInit: { headers: { 'x-api-key': credential } },
  });
  onTestFinished(() => client.close());
  await client.connect(transport);
  return { client, transport };
}

test('§6: legacy client: it initializes, lists, calls and is asked by the upstream', async () => {
  const { client, transport } = await legacyClient();

  const { tools } = await client.listTools();
  const asked = await client.callTool({ name: 'ask' });

  expect(tools.map(({ name }) => name)).toEqual(['echo', 'steps', 'ask', 'wait']);
  expect(asked.content).toEqual([{ type: 'text', text: '{"type":"text","text":"because"}' }]);
  expect(transport.sessionId).toMatch(ownSessionId);
  expect(upstream.sessions()).not.toContain(transport.sessionId);
});

test('§6: progress: it arrives before the answer does', async () => {
  const { client } = await legacyClient();
  const seen: number[] = [];

  const answer = client.callTool({ name: 'steps' }, undefined, {
    onprogress: ({ progress }) => {
      seen.push(progress);
      // Only now may the upstream go on: a gateway that buffered the whole answer would wait for ever.
      upstream.goOn();
    },
    timeout: 60_000,
  });

  expect((await answer).content).toEqual([{ type: 'text', text: 'done' }]);
  expect(seen).toEqual([1]);
});

test('§6: GET stream: it carries the upstream’s notifications', async () => {
  const { client } = await legacyClient();
  const told = new Promise<void>((resolve) => {
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve());
  });
  const timer = setInterval(() => upstream.announce(), 50);
  onTestFinished(() => clearInterval(timer));

  await expect(told).resolves.toBeUndefined();
});

test('§6: legacy session: notifications/cancelled reaches the upstream', async () => {
  const { client } = await legacyClient();
  const before = upstream.cancelled();
  const controller = new AbortController();

  const call = client.callTool({ name: 'wait' }, undefined, { signal: controller.signal });
  await expect.poll(upstream.waiting, patient).toBe(1);
  controller.abort();

  await expect(call).rejects.toThrow(/abort/i);
  await expect.poll(upstream.cancelled, patient).toBe(before + 1);
});

test('§6: legacy session: DELETE ends it, at the upstream too', async () => {
  const before = new Set(upstream.sessions());
  const { transport } = await legacyClient();
  const { sessionId = '' } = transport;
  const opened = upstream.sessions().filter((id) => !before.has(id));

  await transport.terminateSession();

  expect(opened.length).toBeGreaterThan(0);
  const open = () => upstream.sessions().filter((id) => opened.includes(id));
  await expect.poll(open, patient).toEqual([]);
  const headers = { 'mcp-session-id': sessionId, accept: acceptsBoth };
  expect((await mcpCall(endpoint, { key, headers })).status).toBe(404);
});

test('71: legacy session: open to its own principal and server only', async () => {
  const { transport } = await legacyClient();
  const other = await gateway.newKey('acme/fixture');
  const headers = { 'mcp-session-id': transport.sessionId ?? '', accept: acceptsBoth };

  expect((await mcpCall(endpoint, { key, headers })).status).toBe(200);
  for (const method of ['POST', 'GET', 'DELETE']) {
    const foreign = await mcpCall(endpoint, { key: other.key, method, headers });
    const elsewhere = await mcpCall(at('bare'), { key: others['bare'] ?? '', method, headers });

    expect([method, foreign.status, elsewhere.status]).toEqual([method, 404, 404]);
  }
  expect((await mcpCall(endpoint, { key, headers })).status).toBe(200);
});

test('71: legacy session: the upstream’s own session id is not accepted, and callers cannot choose one', async () => {
  await legacyClient();
  const [theirs = ''] = upstream.sessions();

  for (const id of [theirs, 'chosen', '__proto__']) {
    const headers = { 'mcp-session-id': id, accept: acceptsBoth };
    expect((await mcpCall(endpoint, { key, headers })).status).toBe(404);
    expect((await mcpCall(endpoint, { key, headers, body: initialize() })).status).toBe(404);
  }
});

test('71: legacy session: an unexpected response does not reach the upstream', async () => {
  const { transport } = await legacyClient();
  const headers = { 'mcp-session-id': transport.sessionId ?? '', accept: acceptsBoth };
  const body = '{"jsonrpc":"2.0","id":0,"result":{}}';

  const answer = await mcpCall(endpoint, { key, headers, body });

  expect([answer.status, answer.errorCode]).toEqual([400, -32600]);
});

test.for([
  [
    'requestState',
    'tools/call',
    { name: 'echo' },
    '"resultType":"input_required","requestState":"raw"',
  ],
  ['taskId', 'tasks/get', {}, '"resultType":"task","taskId":"raw"'],
] as const)(
  '71: sealed id: another principal’s %s is not found',
  async ([member, method, params, result]) => {
    const usual = bare.answer;
    onTestFinished(() => void (bare.answer = usual));
    // Each node finds out for itself which era the upstream speaks.
    const isDiscovery = (body: Buffer) => body.includes('"server/discover"');
    bare.answer = (request, response) =>
      isDiscovery(request.body)
        ? bothErasAnswer(request, response)
        : sendJson(response, `{"jsonrpc":"2.0","id":1,"result":{${result}}}`);
    const asked = () => bare.requests.filter(({ body }) => !isDiscovery(body));
    const owner = others['bare'] ?? '';
    const other = (await gateway.newKey('acme/bare')).key;
    const first = await mcpCall(at('bare'), {
      key: owner,
      ...modern('tools/call', { name: 'echo' }),
    });
    const given = new RegExp(`"${member}":"([^"]+)"`).exec(first.text)?.[1] ?? '';
    bare.requests.splice(0);

    const retry = (value: string) => {
      const { body, headers } = modern(method, { ...params, [member]: value });
      return {
        body,
        headers: method === 'tasks/get' ? { ...headers, 'mcp-name': value } : headers,
      };
    };
    for (const [asking, value] of [
      [other, given],
      [other, 'raw'],
      [owner, 'raw'],
    ] as const) {
      const answer = await mcpCall(at('bare'), { key: asking, ...retry(value) });

      expect([answer.status, answer.errorCode]).toEqual([400, -32602]);
    }
    expect(asked()).toEqual([]);
    expect((await mcpCall(at('bare'), { key: owner, ...retry(given) })).status).toBe(200);
    // A state also holds the id of its call.
    expect(given).toMatch(/^[\w-]{22}(\.[\da-f]{24})?\.raw$/);
    expect(asked().map(({ body }) => body.toString())).toEqual([
      expect.stringContaining(`"${member}":"raw"`),
    ]);
  },
);

/** What a session of the key was sent until `enough` of it was there; then the caller is gone. */
async function readUntil(enough: string, init: RequestInit): Promise<string> {
  const gone = new AbortController();
  const response = await fetch(endpoint, { ...init, signal: gone.signal });
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.includes(enough)) break;
  }
  gone.abort();
  return text;
}

test('72: GET stream: a lost one is resumed after its last event, by its owner only', async () => {
  const { transport } = await legacyClient();
  const headers = {
    'x-api-key': key,
    'mcp-session-id': transport.sessionId ?? '',
    'mcp-protocol-version': '2025-11-25',
    'content-type': 'application/json',
    accept: acceptsBoth,
  };
  const body = rpc('tools/call', { name: 'steps', _meta: { progressToken: 1 } }, 'lost');
  const seen = await readUntil('notifications/progress', { method: 'POST', headers, body });
  const [primed = '', told = ''] = [...seen.matchAll(/^id: (\S+)$/gm)].map(([, id]) => id ?? '');
  upstream.goOn();

  const listening = { ...headers, 'last-event-id': told };
  const lost = { method: 'GET', headers: listening };
  const whole = { method: 'GET', headers: { ...headers, 'last-event-id': primed } };
  const other = await gateway.newKey('acme/fixture');
  const stranger = await legacyClient(other.key);
  const foreign = { ...listening, 'x-api-key': other.key };
  const elsewhere = { ...foreign, 'mcp-session-id': stranger.transport.sessionId ?? '' };

  expect((await mcpCall(endpoint, { method: 'GET', headers: foreign })).status).toBe(404);
  expect((await mcpCall(endpoint, { method: 'GET', headers: elsewhere })).status).toBe(400);
  expect(await readUntil('"result"', lost)).toMatch(/^id: a\d+-3\n.*data: .*"id":"lost"/s);
  expect(await readUntil('"result"', whole)).toMatch(/notifications\/progress.*"id":"lost"/s);
});

test('72: GET stream: a caller’s Last-Event-ID never reaches the upstream, which could reveal hidden tools', async () => {
  const usual = bare.answer;
  onTestFinished(() => void (bare.answer = usual));
  bare.answer = (request, response) => {
    if (request.body.includes('"initialize"')) response.setHeader('mcp-session-id', 'theirs');
    if (request.method === 'GET')
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end();
    else usual(request, response);
  };
  const owner = others['bare'] ?? '';
  const opened = await mcpCall(at('bare'), { key: owner, body: initialize() });
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
  bare.requests.splice(0);

  const headers = { ...session, accept: acceptsBoth, 'last-event-id': '7' };
  const listened = await mcpCall(at('bare'), { key: owner, method: 'GET', headers });

  expect(listened.status).toBe(200);
  expect(bare.requests[0]?.headers).not.toHaveProperty('last-event-id');
});

test('71: revocation: it ends the key’s open stream and its session', async () => {
  const shortLived = await gateway.newKey('acme/fixture');
  const { transport } = await legacyClient(shortLived.key);
  const headers = {
    'x-api-key': shortLived.key,
    'mcp-session-id': transport.sessionId ?? '',
    accept: acceptsBoth,
    'content-type': 'application/json',
  };
  const body = rpc('tools/call', { name: 'steps', _meta: { progressToken: 1 } }, 'open');
  const response = await fetch(endpoint, { method: 'POST', headers, body });
  const reader = response.body?.getReader();
  await reader?.read();

  await gateway.command('key', 'revoke', shortLived.id);
  const ended = await reader?.read().then(
    ({ done }) => done,
    () => true,
  );

  expect(ended).toBe(true);
  expect((await mcpCall(endpoint, { headers })).status).toBe(401);
});

test.for(['newest', 'both', 'fixture'])(
  '§6: version negotiation: a client gets the modern era from the upstream %s, whatever that speaks',
  async (name) => {
    const client = new ModernClient(
      { name: 'test', version: '1' },
      { versionNegotiation: { mode: 'auto' } },
    );
    const headers = { 'x-api-key': others[name] ?? key };
    const transport = new ModernTransport(new URL(at(name)), { requestInit: { headers } });
    onTestFinished(() => client.close());
    await client.connect(transport);

    const answer = await client.callTool({ name: 'echo', arguments: { text: 'hello' } });

    expect(answer.content).toEqual([{ type: 'text', text: 'hello' }]);
    expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28');
  },
);

test('72: modern request: closing its stream cancels the upstream call within a second', async () => {
  const controller = new AbortController();
  const { body, headers } = modern('tools/call', { name: 'wait', arguments: {} });
  const call = fetch(at('newest'), {
    method: 'POST',
    body,
    headers: {
      ...headers,
      'content-type': 'application/json',
      'x-api-key': others['newest'] ?? '',
    },
    signal: controller.signal,
  });
  await expect.poll(newest.waiting, patient).toBe(1);
  controller.abort();

  await expect(call).rejects.toThrow(/abort/i);
  await expect.poll(newest.cancelled, patient).toBe(1);
});

test('§6: event stream: each event is passed on as it arrives, in both eras', async () => {
  const usual = bare.answer;
  let goOn: (() => void) | undefined;
  await gateway.command('server', 'create', 'acme/streams', '--http-url', bare.url);
  const streamsKey = (await gateway.newKey('acme/streams')).key;
  bare.answer = (request, response) => {
    if (request.body.includes('server/discover')) {
      const result = '{"supportedVersions":["2026-07-28"]}';
      return sendJson(response, `{"jsonrpc":"2.0","id":"discover","result":${result}}`);
    }
    if (!request.body.includes('tools/call')) return usual(request, response);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n');
    goOn = () => response.end('data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n');
  };
  const newer = modern('tools/call', { name: 'echo' });
  const older = { ...newer.headers, 'mcp-protocol-version': '2025-11-25' };
  const olderBody = rpc('tools/call', { name: 'echo' });
  for (const { body, headers } of [newer, { body: olderBody, headers: older }]) {
    const response = await fetch(at('streams'), {
      method: 'POST',
      body,
      headers: { ...headers, 'content-type': 'application/json', 'x-api-key': streamsKey },
    });
    const reader = response.body?.getReader();
    const first = Buffer.from((await reader?.read())?.value ?? []).toString();
    goOn?.();
    const second = Buffer.from((await reader?.read())?.value ?? []).toString();

    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(first).toContain('notifications/progress');
    expect(second).toContain('"result"');
  }
  bare.answer = usual;
});

test('upstream connections: open calls of one caller do not block others at the same upstream', async () => {
  const usual = bare.answer;
  bare.answer = (request, response) => {
    if (request.body.includes('tools/call')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n');
    } else usual(request, response);
  };
  bare.requests.splice(0);
  const { key: greedy } = await gateway.newKey('acme/bare');
  const controller = new AbortController();
  const { body, headers } = modern('tools/call', { name: 'echo' });
  const greedyHeaders = { ...headers, 'content-type': 'application/json', 'x-api-key': greedy };
  const calls = Array.from({ length: 400 }, async () => {
    const { signal } = controller;
    await fetch(at('bare'), { method: 'POST', body, headers: greedyHeaders, signal });
  });
  const settled = Promise.allSettled(calls);
  await expect
    .poll(
      () => bare.requests.filter((request) => request.body.includes('tools/call')).length,
      patient,
    )
    .toBe(400);

  // While the other calls are still open: only `abort` ends them.
  const theirs = await mcpCall(at('bare'), { key: others['bare'] ?? '', body: toolsList });
  controller.abort();
  await settled;
  bare.answer = usual;

  expect(theirs.status).toBe(200);
});
