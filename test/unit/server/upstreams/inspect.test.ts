import { createServer, type RequestListener } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { PlainLinks } from '#server/gateway/plain-calls';
import { type Upstream, UpstreamError } from '#server/gateway/upstream';
import type { OutboundGuard } from '#server/outbound/checked-addresses';
import { httpUpstream } from '#server/upstreams/http';
import { inspect } from '#server/upstreams/inspect';
import { fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { legacyMcp } from '#support/legacy-mcp';
import { freePort, listen } from '#support/loopback';
import { legacyServer, messageOf, modernServer } from '#support/mcp-servers';
import { statelessMcp } from '#support/stateless-mcp';
import { stillClock } from '#support/still-clock';

let links: PlainLinks;
const closing: (() => unknown)[] = [];

beforeEach(() => {
  links = new PlainLinks(stillClock());
});

afterEach(async () => {
  await links.close();
  for (const close of closing.splice(0).toReversed()) await close();
});

function look(upstream: Upstream, { wantsTools = false, timeoutMs = 5000 } = {}) {
  const at = { key: 'a', place: 'p', name: 'mcp.example.com' };
  return inspect({ ...at, upstream, wantsTools, timeoutMs }, links);
}

const here = {
  allowedHosts: ['127.0.0.1'],
  resolve: async () => [{ address: '127.0.0.1', family: 4 }],
};

async function served(handle: RequestListener): Promise<Upstream> {
  const server = createServer(handle);
  const upstream = httpUpstream(`http://127.0.0.1:${await listen(server)}/mcp`, here);
  closing.push(
    () => server.close(),
    () => server.closeAllConnections(),
    () => upstream.close(),
  );
  return upstream;
}

test('inspection: a real legacy server reports its version and its tools', async () => {
  const legacy = legacyMcp();
  const upstream = await served((...exchange) => void legacy.handle(...exchange));
  const found = await look(upstream, { wantsTools: true });

  expect(found).toMatchObject({
    outcome: 'connected',
    protocolVersion: '2025-11-25',
  });
  expect(found.outcome === 'connected' && found.tools?.map(({ name }) => name)).toEqual([
    'echo',
    'count',
    'ask',
    'think',
    'wait',
  ]);
});

test('inspection: a real modern server reports its tools', async () => {
  const modern = statelessMcp({ legacy: 'reject' });
  const upstream = await served((...exchange) => void modern.handle(...exchange));
  const found = await look(upstream, { wantsTools: true });

  expect(found).toMatchObject({ outcome: 'connected', protocolVersion: '2026-07-28' });
  expect(found.outcome === 'connected' && found.tools?.[0]?.inputSchema).toMatchObject({
    properties: { text: { type: 'string' } },
  });
});

describe('inspection: the second one uses the same session', () => {
  test.each([
    ['a legacy server', legacyServer, 'ping'],
    ['a modern server', modernServer, 'server/discover'],
  ])('%s', async (_, server, method) => {
    const upstream = server();
    await look(upstream);
    const handshake = upstream.sent.length;
    const again = await look(upstream);

    expect(again.outcome).toBe('connected');
    expect(upstream.sent.slice(handshake).map((one) => messageOf(one).method)).toEqual([method]);
  });
});

test('inspection: a restarted server that refuses the session with 400 gets a new one', async () => {
  const real = legacyServer();
  let refusals = 0;
  const upstream = fakeUpstream(async (request): Promise<ScriptedAnswer> => {
    if (messageOf({ text: request.text || '{}' }).method === 'ping') {
      refusals += 1;
      return { status: 400 };
    }
    const { body, ...rest } = await real.send({ ...request, body: Buffer.from(request.text) });
    return { ...rest, text: body };
  });
  await look(upstream);

  expect((await look(upstream)).outcome).toBe('connected');
  expect(refusals).toBe(1);
});

describe('inspection: a server that cannot be used', () => {
  const cause = (code: string) => Object.assign(new Error('no'), { code });
  const failing = (error: Error): Upstream => ({
    async send() {
      throw error;
    },
  });
  const unreachable = (code: string) =>
    failing(new UpstreamError('unreachable', 'POST', { cause: cause(code) }));
  const detail = 'connection refused at 127.0.0.1:3999';
  test.each([
    [
      'unknown host',
      unreachable('ENOTFOUND'),
      'offline',
      'The host name of mcp.example.com was not found.',
    ],
    [
      'refused connection',
      unreachable('ECONNREFUSED'),
      'offline',
      'Connection refused at mcp.example.com.',
    ],
    [
      'certificate',
      unreachable('CERT_HAS_EXPIRED'),
      'offline',
      'The TLS certificate of mcp.example.com is not valid (CERT_HAS_EXPIRED).',
    ],
    [
      'certificate without its chain',
      unreachable('UNABLE_TO_VERIFY_LEAF_SIGNATURE'),
      'offline',
      'The TLS certificate of mcp.example.com is not valid (UNABLE_TO_VERIFY_LEAF_SIGNATURE).',
    ],
    [
      'server of an agent',
      failing(new UpstreamError('unreachable', 'the agent ended the call', { detail })),
      'error',
      'Connection refused at 127.0.0.1:3999.',
    ],
    [
      'agent',
      failing(new UpstreamError('offline', 'no tunnel')),
      'offline',
      'The agent is offline.',
    ],
    [
      'other page',
      fakeUpstream(() => ({ status: 404, mediaType: 'text/html' })),
      'error',
      'mcp.example.com has no MCP server at this URL (HTTP 404).',
    ],
    [
      'failing server',
      fakeUpstream(() => ({ status: 500, mediaType: 'text/plain' })),
      'error',
      'mcp.example.com: it answered HTTP 500 with text/plain.',
    ],
    [
      'web page',
      fakeUpstream(() => ({ mediaType: 'text/html', text: '<p>' })),
      'error',
      'mcp.example.com: its response is not JSON-RPC.',
    ],
  ])('%s', async (_, upstream, outcome, reason) => {
    expect(await look(upstream)).toEqual({ outcome, reason });
  });
});

describe('inspection: a server that requires authentication', () => {
  test.each([
    ['OAuth', 'Bearer resource_metadata="https://mcp.example.com/x"', true],
    ['anything else', 'Basic realm="x"', false],
  ])('%s', async (_, challenge, isOAuth) => {
    const upstream = fakeUpstream(() => ({ status: 401, challenge }));
    const reason = 'mcp.example.com requires authentication (HTTP 401).';

    expect(await look(upstream)).toEqual({ outcome: 'sign-in-required', isOAuth, reason });
  });
});

describe('76: inspection: a name says the same, unless the operator allowed it,', () => {
  const unknown = Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
  const names: [string, OutboundGuard['resolve']][] = [
    ['is in a private network', async () => [{ address: '10.0.0.5', family: 4 }]],
    ['is unknown', () => Promise.reject(unknown)],
    ['has no address', async () => []],
  ];

  test.each(names)('if it %s', async (_, resolve) => {
    const guard = { allowedHosts: [], resolve };
    const upstream = httpUpstream(`http://mcp.example.com:${await freePort()}/`, guard);
    closing.push(() => upstream.close());

    expect(await look(upstream)).toEqual({
      outcome: 'forbidden',
      reason: 'mcp.example.com was not found, or is not on the public internet.',
    });
  });
});

test('inspection: an unknown name that the operator allowed is reported as unknown', async () => {
  const guard = { allowedHosts: ['mcp.example.com'], resolve: async () => [] };
  const upstream = httpUpstream(`http://mcp.example.com:${await freePort()}/`, guard);
  closing.push(() => upstream.close());

  expect(await look(upstream)).toEqual({
    outcome: 'offline',
    reason: 'The host name of mcp.example.com was not found.',
  });
});

test('inspection: a server that never answers is given up in time', async () => {
  const upstream = await served(() => undefined);
  const reason = 'mcp.example.com did not answer within 0.05 seconds.';

  expect(await look(upstream, { timeoutMs: 50 })).toEqual({ outcome: 'offline', reason });
});

test('inspection: a server without tools need not support the method', async () => {
  const upstream = fakeUpstream((request): ScriptedAnswer => {
    const { id, method } = messageOf(request);
    const isKnown = method === 'server/discover';
    const rest = isKnown
      ? { result: { supportedVersions: ['2026-07-28'] } }
      : { error: { code: -32601, message: 'no' } };
    return { text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }) };
  });

  expect(await look(upstream, { wantsTools: true })).toMatchObject({ tools: [] });
});

test('inspection: a server that lists tools is asked for prompts and templates, too, and need not know them', async () => {
  const upstream = fakeUpstream((request): ScriptedAnswer => {
    const { id, method = '' } = messageOf(request);
    if (method === 'server/discover') {
      const result = { supportedVersions: ['2026-07-28'] };
      return { text: JSON.stringify({ jsonrpc: '2.0', id, result }) };
    }
    if (method === 'resources/templates/list') throw new UpstreamError('broken', 'away');
    if (method === 'prompts/list') return { status: 404 };
    return { text: JSON.stringify({ jsonrpc: '2.0', id, result: { tools: [{ name: 'echo' }] } }) };
  });
  const found = await look(upstream, { wantsTools: true });
  const asked = upstream.sent.map((request) => messageOf(request).method);

  expect(found).toMatchObject({ outcome: 'connected', tools: [{ name: 'echo' }] });
  expect(asked).toEqual([
    'server/discover',
    'tools/list',
    'prompts/list',
    'resources/templates/list',
  ]);
});
