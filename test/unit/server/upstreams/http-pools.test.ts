import { type ServerResponse, createServer } from 'node:http';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { type UpstreamAnswer, UpstreamError } from '#server/gateway/upstream';
import { HttpPools } from '#server/upstreams/http';
import { chunksOf } from '#support/fake-upstream';
import { listen } from '#support/loopback';
import { type StillClock, stillClock } from '#support/still-clock';

const closing: (() => unknown)[] = [];
let clock: StillClock;
let pools: HttpPools;

beforeEach(() => {
  clock = stillClock();
  pools = new HttpPools({
    guard: { allowedHosts: [], resolve: () => Promise.resolve([]) },
    clock,
  });
});

afterEach(async () => {
  await pools.close();
  for (const close of closing.splice(0)) await close();
});

/** A real HTTP server, and `to`, which makes an upstream for one of its paths. */
async function serverAt(answer: (response: ServerResponse) => void) {
  const server = createServer((_, response) => answer(response));
  const port = await listen(server);
  closing.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  const to = (path: string) => pools.upstream(`http://127.0.0.1:${port}/${path}`, false);
  return { to };
}

const post = () => ({
  method: 'POST' as const,
  headers: {},
  body: Buffer.from('{}'),
  signal: new AbortController().signal,
});

async function textOf(answer: UpstreamAnswer): Promise<string> {
  let text = '';
  for await (const chunk of chunksOf(answer.body)) text += Buffer.from(chunk).toString();
  return text;
}

test('HTTP pools: a URL gets one pool on first use, which stays while it is used', async () => {
  const { to } = await serverAt((response) => void response.end('yes'));
  const [one, same, other] = [to('a'), to('a'), to('b')];

  expect(pools.size).toBe(0);

  for (const way of [one, same, one]) {
    expect(await textOf(await way.send(post()))).toBe('yes');
    clock.advance(299);
    pools.closeIdle();
  }

  expect(pools.size).toBe(1);

  await other.send(post());

  expect(pools.size).toBe(2);
});

test('HTTP pools: a thousand unused URLs leave no pool behind', async () => {
  const { to } = await serverAt((response) => void response.end('yes'));
  for (let place = 0; place < 1000; place += 1) await to(String(place)).send(post());

  expect(pools.size).toBe(1000);

  clock.advance(300);
  pools.closeIdle();

  expect(pools.size).toBe(0);
});

test('HTTP pools: an upstream whose pool was closed creates another', async () => {
  const { to } = await serverAt((response) => void response.end('yes'));
  const way = to('a');
  await way.send(post());
  clock.advance(300);
  pools.closeIdle();

  expect(await textOf(await way.send(post()))).toBe('yes');
  expect(pools.size).toBe(1);
});

test('HTTP pools: an answer that lasts for hours keeps its pool', async () => {
  const responses: ServerResponse[] = [];
  const { to } = await serverAt((response) => {
    responses.push(response);
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('one ');
  });
  const answer = await to('a').send(post());
  clock.advance(7200);
  pools.closeIdle();
  responses[0]?.end('two');

  expect(pools.size).toBe(1);
  expect(await textOf(answer)).toBe('one two');

  clock.advance(300);
  pools.closeIdle();

  expect(pools.size).toBe(0);
});

test('HTTP pools: a server that cannot be reached leaves no pool behind', async () => {
  const url = 'http://127.0.0.1:1/mcp';

  await expect(pools.upstream(url, false).send(post())).rejects.toThrow(UpstreamError);

  clock.advance(300);
  pools.closeIdle();

  expect(pools.size).toBe(0);
});

test('107: HTTP pools: of a URL that is used once, nothing is kept', async () => {
  const server = createServer((_, response) => response.end('yes'));
  const port = await listen(server);
  closing.push(() => server.close());
  const allowedHosts = [`127.0.0.1:${port}`];
  const guarded = new HttpPools({ guard: { allowedHosts, resolve: async () => [] }, clock });
  closing.push(() => guarded.close());
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  server.once('connection', (socket) => socket.once('close', resolve));
  const use = async (url: string) =>
    guarded.once(url, async (upstream) => textOf(await upstream.send(post())));

  expect(await use(`http://127.0.0.1:${port}/a`)).toBe('yes');
  await gone;
  expect(guarded.size).toBe(0);
  await expect(use('http://127.0.0.1:1/')).rejects.toBeInstanceOf(UpstreamError);
  expect(guarded.size).toBe(0);
});
