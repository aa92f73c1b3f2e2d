import { type RequestListener, type Server, createServer } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { afterEach, describe, expect, test, vi } from 'vitest';

import { UpstreamError, type UpstreamRequest } from '#server/gateway/upstream';
import { type HttpUpstream, httpUpstream } from '#server/upstreams/http';
import { chunksOf } from '#support/fake-upstream';
import { freePort, listen } from '#support/loopback';

const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** Resolves names to this machine, which the operator allows. */
const here = {
  allowedHosts: ['127.0.0.1', 'here.test'],
  resolve: async () => [{ address: '127.0.0.1', family: 4 }],
};

/** A real HTTP server on a free port, and the upstream that leads to it. */
async function upstreamTo(answer: RequestListener, path = '/mcp'): Promise<HttpUpstream> {
  const server: Server = createServer(answer);
  const port = await listen(server);
  const upstream = httpUpstream(`http://127.0.0.1:${port}${path}`, here);
  closing.push(
    () => upstream.close(),
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return upstream;
}

const post = (but: Partial<UpstreamRequest> = {}): UpstreamRequest => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: Buffer.from('{}'),
  signal: new AbortController().signal,
  ...but,
});

test('a request arrives with its method, path, query, body and headers, and no unexpected ones', async () => {
  const upstream = await upstreamTo((request, response) => {
    const { method, url, headers } = request;
    response.setHeader('Content-Type', 'Application/JSON; charset=utf-8');
    void text(request).then((body) => response.end(JSON.stringify({ method, url, headers, body })));
  }, '/mcp?tenant=1');
  const answer = await upstream.send(post({ headers: { 'mcp-session-id': 's' } }));
  const { headers, ...seen } = JSON.parse(await text(Readable.from(chunksOf(answer.body))));

  expect(answer).toMatchObject({
    status: 200,
    mediaType: 'application/json',
    sessionId: undefined,
  });
  expect(seen).toEqual({ method: 'POST', url: '/mcp?tenant=1', body: '{}' });
  expect(headers).toEqual({
    host: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
    connection: 'keep-alive',
    'accept-encoding': 'identity',
    'content-length': '2',
    'mcp-session-id': 's',
    'user-agent': 'latchkey-server',
  });
});

describe('an answer is passed on with', () => {
  test.each([
    ['its session', { 'Mcp-Session-Id': 'abc' }, { sessionId: 'abc' }],
    [
      'its media type alone',
      { 'Content-Type': 'text/event-stream' },
      { mediaType: 'text/event-stream' },
    ],
    ['an empty media type when it names none', {}, { mediaType: '' }],
    ['the seconds to wait', { 'Retry-After': '7' }, { retryAfterSeconds: 7 }],
    [
      'no wait for a date',
      { 'Retry-After': 'Fri, 20 Nov 2026 10:00:00 GMT' },
      { retryAfterSeconds: undefined },
    ],
    ['no wait for a negative time', { 'Retry-After': '-1' }, { retryAfterSeconds: undefined }],
    ['no wait when it names none', {}, { retryAfterSeconds: undefined }],
  ])('%s', async (_, headers, expected) => {
    const upstream = await upstreamTo((_request, response) =>
      response.writeHead(503, headers).end(),
    );

    expect(await upstream.send(post())).toMatchObject({ status: 503, ...expected });
  });
});

test('a redirect is an answer, and is not followed', async () => {
  const paths: (string | undefined)[] = [];
  const upstream = await upstreamTo((request, response) => {
    paths.push(request.url);
    response.writeHead(307, { Location: '/elsewhere', 'Set-Cookie': 'a=b' }).end();
  });
  await upstream.send(post());
  const answer = await upstream.send(post());

  expect(answer.status).toBe(307);
  expect(paths).toEqual(['/mcp', '/mcp']);
});

test('a cookie is not sent back', async () => {
  const cookies: unknown[] = [];
  const upstream = await upstreamTo((request, response) => {
    cookies.push(request.headers.cookie);
    response.setHeader('Set-Cookie', 'a=b').end();
  });
  await upstream.send(post());
  await upstream.send(post());

  expect(cookies).toEqual([undefined, undefined]);
});

test('a body is passed on as it arrives, before it is whole', async () => {
  let finish = () => {};
  const upstream = await upstreamTo((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('one');
    finish = () => response.end('two');
  });
  const { body } = await upstream.send(post());
  const chunks = [];
  for await (const chunk of chunksOf(body)) {
    chunks.push(Buffer.from(chunk).toString());
    finish();
  }

  expect(chunks).toEqual(['one', 'two']);
});

describe('an aborted signal', () => {
  test('ends a request that waits for its answer, also at the upstream', async () => {
    const controller = new AbortController();
    let gone: Promise<unknown> = Promise.resolve();
    const upstream = await upstreamTo((request) => {
      gone = new Promise((resolve) => request.on('close', resolve));
      controller.abort();
    });

    await expect(upstream.send(post({ signal: controller.signal }))).rejects.toMatchObject({
      name: 'AbortError',
    });
    await gone;
  });

  test('ends a body in progress, also at the upstream', async () => {
    const controller = new AbortController();
    let gone: Promise<unknown> = Promise.resolve();
    const upstream = await upstreamTo((request, response) => {
      gone = new Promise((resolve) => request.on('close', resolve));
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('one');
    });
    const { body } = await upstream.send(post({ signal: controller.signal }));
    const reading = async () => {
      for await (const chunk of chunksOf(body)) if (chunk.length > 0) controller.abort();
    };

    await expect(reading()).rejects.toMatchObject({ name: 'AbortError' });
    await gone;
  });
});

describe('an upstream is unreachable when', () => {
  test('nothing listens there', async () => {
    const upstream = httpUpstream(`http://127.0.0.1:${await freePort()}/mcp`, here);
    closing.push(() => upstream.close());

    await expect(upstream.send(post())).rejects.toMatchObject({
      name: 'UpstreamError',
      code: 'unreachable',
    });
  });

  test('it hangs up instead of answering', async () => {
    const upstream = await upstreamTo((request) => request.socket.destroy());

    await expect(upstream.send(post())).rejects.toBeInstanceOf(UpstreamError);
  });
});

test('231: bounded memory: a session ID is taken up to 1,024 characters, and the call ends with a longer one', async () => {
  const upstream = await upstreamTo((request, response) => {
    const length = Number(request.headers['x-length']);
    response.writeHead(200, { 'mcp-session-id': 's'.repeat(length) }).end('{}');
  });
  const opened = (length: string) => upstream.send(post({ headers: { 'x-length': length } }));

  await expect(opened('1024')).resolves.toMatchObject({ sessionId: 's'.repeat(1024) });
  await expect(opened('1025')).rejects.toMatchObject({ name: 'UpstreamError', code: 'broken' });
});

test('107: short chunks of a stream that arrive in one packet are passed on together', async () => {
  const upstream = await upstreamTo((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': begun\n\n');
    setTimeout(() => {
      response.socket?.cork();
      for (let n = 0; n < 1000; n += 1) response.write('x');
      response.socket?.uncork();
      setTimeout(() => response.end(), 50);
    }, 50);
  });
  const pushes = vi.spyOn(Readable.prototype, 'push');
  const { body } = await upstream.send(post());
  const read = await text(Readable.from(chunksOf(body)));
  const parts = pushes.mock.contexts.filter((stream) => stream === body).length;
  pushes.mockRestore();

  expect(read).toBe(`: begun\n\n${'x'.repeat(1000)}`);
  expect(parts).toBeLessThan(20);
});

test('a long answer streams to its end, however it is cut', async () => {
  const parts = Array.from({ length: 40 }, (_, index) => String(index % 10).repeat(10_000));
  const upstream = await upstreamTo((_request, response) => {
    response.setHeader('Content-Type', 'application/json');
    for (const part of parts) response.write(part);
    response.end();
  });
  const { body } = await upstream.send(post());

  expect(body).not.toBeInstanceOf(Uint8Array);
  expect(await text(Readable.from(chunksOf(body)))).toBe(parts.join(''));
});

describe('an upstream that was not named by the operator', () => {
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const guarded = async (host: string, allowed: readonly string[]) => {
    let calls = 0;
    const server = createServer((_request, response) => {
      calls += 1;
      response.end('{}');
    });
    const port = await listen(server);
    const allowedHosts = allowed.map((place) => place.replace('PORT', String(port)));
    const upstream = httpUpstream(`http://${host}:${port}/mcp`, { allowedHosts, resolve });
    closing.push(
      () => upstream.close(),
      () => server.closeAllConnections(),
      () => server.close(),
    );
    return { upstream, calls: () => calls };
  };

  test.each(['127.0.0.1', '2130706433', '0x7f.1', 'inside.example.com', 'localhost', '[::1]'])(
    'is not reached at %s, which is inside this network',
    async (host) => {
      const { upstream, calls } = await guarded(host, []);

      await expect(upstream.send(post())).rejects.toMatchObject({ code: 'not_public' });
      expect(calls()).toBe(0);
    },
  );

  test.each([
    ['inside.example.com', 'inside.example.com'],
    ['inside.example.com', 'inside.example.com:PORT'],
    ['127.0.0.1', '127.0.0.1:PORT'],
  ])('is reached at %s once the operator named %s', async (host, place) => {
    const { upstream, calls } = await guarded(host, [place]);

    expect(await upstream.send(post())).toMatchObject({ status: 200 });
    expect(calls()).toBe(1);
  });

  test.each([
    ['inside.example.com', 'inside.example.com:80'],
    ['127.0.0.1', '127.0.0.1:80'],
  ])('is not reached at another port of %s than the operator named', async (host, place) => {
    const { upstream, calls } = await guarded(host, [place]);

    await expect(upstream.send(post())).rejects.toMatchObject({ code: 'not_public' });
    expect(calls()).toBe(0);
  });
});

describe('connections that do not open', () => {
  test('108: at most 128 are opening to one upstream, and the other requests wait for their turn', async () => {
    const { promise: resolved, resolve } = Promise.withResolvers<void>();
    let lookups = 0;
    const server = createServer((_request, response) => response.end('{}'));
    const port = await listen(server);
    const upstream = httpUpstream(`http://here.test:${port}/mcp`, {
      ...here,
      async resolve() {
        lookups += 1;
        await resolved;
        return here.resolve();
      },
    });
    closing.push(
      () => upstream.close(),
      () => server.closeAllConnections(),
      () => server.close(),
    );

    const answers = Array.from({ length: 300 }, () => upstream.send(post()));
    await new Promise(setImmediate);
    const atFirst = lookups;
    resolve();
    const statuses = (await Promise.all(answers)).map(({ status }) => status);

    expect(atFirst).toBe(128);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  test('72: a request that waits for a connection ends with its signal', async () => {
    const call = new AbortController();
    const pending = new Promise<never>(() => undefined);
    const upstream = httpUpstream('http://here.test/mcp', { ...here, resolve: () => pending });
    closing.push(() => upstream.close());

    const answer = upstream.send(post({ signal: call.signal }));
    call.abort();

    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
  });
});
