import { createServer, type RequestListener } from 'node:http';
import { afterEach, expect, test } from 'vitest';

import { tryUrl } from '#server/app/try-url';
import { legacyMcp } from '#support/legacy-mcp';
import { freePort, listen } from '#support/loopback';
import { stillClock } from '#support/still-clock';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const clock = stillClock();
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function served(handle: RequestListener): Promise<string> {
  const server = createServer(handle);
  const host = `127.0.0.1:${await listen(server)}`;
  closing.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  return host;
}

const tried = (host: string, limitMs = 5000) =>
  tryUrl(`http://${host}/mcp`, {}, { clock, limitMs });

test('a URL of the operator: an MCP server in the private network is asked, and its session ends', async () => {
  const legacy = legacyMcp();
  const methods: unknown[] = [];
  const host = await served((request, response) => {
    methods.push(request.method);
    void legacy.handle(request, response);
  });

  expect(await tried(host)).toBeUndefined();
  expect(methods.at(-1)).toBe('DELETE');
});

test('a URL of the operator: nothing that listens there is reported', async () => {
  const host = `127.0.0.1:${await freePort()}`;

  expect(await tried(host)).toBe(`Connection refused at ${host}.`);
});

test('a URL of the operator: a path without an MCP server is reported', async () => {
  const host = await served((_, response) => response.writeHead(404).end());

  expect(await tried(host)).toBe(`${host} has no MCP server at this URL (HTTP 404).`);
});

test('a URL of the operator: a server that requires a sign-in answers', async () => {
  const host = await served((_, response) => response.writeHead(401).end());

  expect(await tried(host)).toBeUndefined();
});

test('a URL of the operator: a server that never answers is given up', async () => {
  const host = await served(() => undefined);

  expect(await tried(host, 50)).toBe(`${host} did not answer within 0.05 seconds.`);
});

test('a URL of the operator: fixed headers are sent, and replace none of ours', async () => {
  await using upstream = await recordingUpstream();
  const headers = { 'x-api-key': 'secret', 'content-type': 'text/plain' };

  expect(await tryUrl(upstream.url, headers, { clock })).toBeUndefined();
  expect(upstream.requests.length).toBeGreaterThan(0);
  for (const { headers: sent } of upstream.requests) {
    expect(sent).toMatchObject({ 'x-api-key': 'secret', 'content-type': 'application/json' });
  }
});
