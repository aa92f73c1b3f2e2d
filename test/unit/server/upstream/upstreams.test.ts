import { createServer, type ServerResponse } from 'node:http';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { UpstreamError, type UpstreamAnswer } from '#server/gateway/upstream';
import { Upstreams } from '#server/upstream/upstreams';
import { chunksOf, fakeUpstream } from '#support/fake-upstream';
import { listen } from '#support/loopback';
import { someServer } from '#support/some-admission';
import { stillClock, type StillClock } from '#support/still-clock';

const closing: (() => unknown)[] = [];
let clock: StillClock;
let upstreams: Upstreams;

beforeEach(() => {
  clock = stillClock();
  const none = fakeUpstream(() => ({}));
  upstreams = new Upstreams({
    demo: none,
    guard: { allowedHosts: [], resolve: () => Promise.resolve([]) },
    agent: () => none,
    stdio: () => none,
    clock,
  });
});

afterEach(async () => {
  await upstreams.close();
  for (const close of closing.splice(0)) await close();
});

/** A real HTTP server, and the ways to paths of it. */
async function serverAt(answer: (response: ServerResponse) => void) {
  const server = createServer((_, response) => answer(response));
  const port = await listen(server);
  closing.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  const to = (path: string) => {
    const url = `http://127.0.0.1:${port}/${path}`;
    return upstreams.of(someServer({ upstream: { kind: 'http', url } }), 'a');
  };
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

test('one pool a URL is made when it is first used, and kept while it is', async () => {
  const { to } = await serverAt((response) => void response.end('yes'));
  const [one, same, other] = [to('a'), to('a'), to('b')];

  expect(upstreams.pools).toBe(0);

  for (const way of [one, same, one]) {
    expect(await textOf(await way.send(post()))).toBe('yes');
    clock.advance(299);
    upstreams.closeIdle();
  }

  expect(upstreams.pools).toBe(1);

  await other.send(post());

  expect(upstreams.pools).toBe(2);
});

test('a thousand URLs that nobody uses any more leave no pool behind', async () => {
  const { to } = await serverAt((response) => void response.end('yes'));
  for (let place = 0; place < 1000; place += 1) await to(String(place)).send(post());

  expect(upstreams.pools).toBe(1000);

  clock.advance(300);
  upstreams.closeIdle();

  expect(upstreams.pools).toBe(0);
});

test('a way whose pool was closed has another made', async () => {
  const { to } = await serverAt((response) => void response.end('yes'));
  const way = to('a');
  await way.send(post());
  clock.advance(300);
  upstreams.closeIdle();

  expect(await textOf(await way.send(post()))).toBe('yes');
  expect(upstreams.pools).toBe(1);
});

test('an answer that goes on for hours keeps its pool', async () => {
  const responses: ServerResponse[] = [];
  const { to } = await serverAt((response) => {
    responses.push(response);
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('one ');
  });
  const answer = await to('a').send(post());
  clock.advance(7200);
  upstreams.closeIdle();
  responses[0]?.end('two');

  expect(upstreams.pools).toBe(1);
  expect(await textOf(answer)).toBe('one two');

  clock.advance(300);
  upstreams.closeIdle();

  expect(upstreams.pools).toBe(0);
});

test('a server that is not there leaves no pool behind either', async () => {
  const url = 'http://127.0.0.1:1/mcp';
  const server = someServer({ upstream: { kind: 'http', url } });

  await expect(upstreams.of(server, 'a').send(post())).rejects.toThrow(UpstreamError);

  clock.advance(300);
  upstreams.closeIdle();

  expect(upstreams.pools).toBe(0);
});
