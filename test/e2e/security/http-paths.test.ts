import { afterAll, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { toolsList } from '#support/mcp-call';
import { rawHttp } from '#support/raw-http';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const host = `Host: 127.0.0.1:${gateway.port}`;

function post(target: string, lines: readonly string[]) {
  const head = [`POST ${target} HTTP/1.1`, ...lines, 'Content-Type: application/json'];
  const rest = ['Connection: close', `Content-Length: ${toolsList.length}`, '', toolsList];
  return rawHttp(gateway.port, [...head, ...rest].join('\r\n'));
}

test.for([
  '/mcp/acme/fixture/',
  '/mcp/acme//fixture',
  '//mcp/acme/fixture',
  '/mcp//acme/fixture',
  '/MCP/acme/fixture',
  '/mcp/Acme/fixture',
  '/mcp/%61cme/fixture',
  '/mcp/acme/fixtur%65',
  '/%6dcp/acme/fixture',
  '/mcp/%2561cme/fixture',
  '/mcp/acme%2Ffixture',
  '/mcp/acme%2Ffixture/x',
  '/mcp/acme/../acme/fixture',
  '/mcp/./acme/fixture',
  '/mcp/acme/%2e%2e/acme/fixture',
  '/mcp/acme/fixture;a=b',
  '/mcp/acme/fixture%00',
  '/mcp/acme/fixture%20',
  '/mcp/acme\\fixture',
  '/mcp/__proto__/constructor',
  '/mcp/-/-',
  `/mcp/${'a'.repeat(64)}/fixture`,
  `/mcp/${'a'.repeat(5000)}/fixture`,
  '/mcp/a%0d%0aSet-Cookie:%20a=b/b',
  '/mcp/a%0db/c',
  '/mcp/a%22,%20scope=%22/b',
  '/mcp/%E2%82%AC/b',
  '/mcp/%zz/b',
  '/mcp/%/b',
  '/mcp/%ff/b',
])('MCP endpoint: %s is not one and gets 404, with or without a key', async (target) => {
  const withKey = await post(target, [host, `X-API-Key: ${gateway.key}`]);
  const without = await post(target, [host]);

  expect([withKey.statuses, without.statuses]).toEqual([[404], [404]]);
  expect(withKey.text).toMatch(/^x-request-id: \S/im);
  expect(without.text).not.toMatch(/^(set-cookie|www-authenticate):/im);
  expect(upstream.calls()).toEqual([]);
});

test('absolute request target: its host counts instead of the Host header', async () => {
  const own = `http://127.0.0.1:${gateway.port}/mcp/acme/fixture`;
  const key = `X-API-Key: ${gateway.key}`;

  expect((await post(own, [host, key])).statuses).toEqual([200]);
  expect((await post('http://evil/mcp/acme/fixture', [host, key])).statuses).toEqual([421]);
});

test('names of Object.prototype are ordinary organization and server names', async () => {
  for (const name of ['constructor', 'tostring', 'valueof', 'hasownproperty']) {
    const { statuses } = await post(`/mcp/${name}/${name}`, [host]);

    expect([name, statuses]).toEqual([name, [401]]);
  }
});
