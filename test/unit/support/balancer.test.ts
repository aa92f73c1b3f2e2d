import { createServer, type RequestListener } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { balance } from '#support/balancer';
import { listen } from '#support/loopback';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one[Symbol.asyncDispose]();
});

async function served(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  const port = await listen(server);
  open.push(server);
  return port;
}

/** A balancer in front of these nodes, which get its attempts in turn; `received` lists what each node got. */
async function balanced(...nodes: RequestListener[]) {
  const received: string[] = [];
  const ports = await Promise.all(
    nodes.map((listener, node) =>
      served((request, response) => {
        let body = '';
        request.on('data', (part: Buffer) => (body += part.toString()));
        request.on('end', () => {
          received.push(`${node} ${request.method} ${body}`);
          listener(request, response);
        });
      }),
    ),
  );
  let sent = 0;
  const port = await served(
    (request, response) => void balance(request, response, () => ports[sent++] ?? 0),
  );
  return { url: `http://127.0.0.1:${port}/`, received };
}

const busy: RequestListener = (_, response) =>
  void response.writeHead(503, { 'Retry-After': '0' }).end('busy');
const good: RequestListener = (_, response) => void response.end('good');

test('balancer: a request that a node refuses for now is sent again, with its body', async () => {
  const { url, received } = await balanced(busy, busy, good);

  const answer = await fetch(url, { method: 'POST', body: 'hello' });

  expect([answer.status, await answer.text()]).toEqual([200, 'good']);
  expect(received).toEqual(['0 POST hello', '1 POST hello', '2 POST hello']);
});

test.each([
  ['X-Test-Once', { headers: { 'x-test-once': '1' } }, busy],
  ['an answer without Retry-After', {}, (_, response) => void response.writeHead(503).end('busy')],
  [
    'a time that is too long',
    {},
    (_, response) => void response.writeHead(503, { 'Retry-After': '3600' }).end('busy'),
  ],
] satisfies [string, RequestInit, RequestListener][])(
  'balancer: with %s, the first answer is the one',
  async (_, init, first) => {
    const { url, received } = await balanced(first, good);

    const answer = await fetch(url, init);

    expect([answer.status, await answer.text()]).toEqual([503, 'busy']);
    expect(received).toHaveLength(1);
  },
);

test('balancer: an answer passes as it comes, with its headers', async () => {
  const over = Promise.withResolvers<void>();
  const { url } = await balanced((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'X-Own': 'yes' });
    response.write('data: one\n\n');
    void over.promise.then(() => response.end('data: two\n\n'));
  });

  const answer = await fetch(url);
  const reader = answer.body?.getReader();
  const first = await reader?.read();
  over.resolve();
  const second = await reader?.read();

  expect(answer.headers.get('x-own')).toBe('yes');
  expect([first, second].map((part) => Buffer.from(part?.value ?? []).toString())).toEqual([
    'data: one\n\n',
    'data: two\n\n',
  ]);
});

test('balancer: a caller that leaves takes its request at the node along', async () => {
  const left = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const { url } = await balanced((_, response) => {
    response.once('close', () => left.resolve());
    asked.resolve();
  });
  const leaving = new AbortController();
  const answer = fetch(url, { signal: leaving.signal });
  await asked.promise;

  leaving.abort('enough');

  await expect(answer).rejects.toBe('enough');
  await left.promise;
});

test('balancer: a node that breaks off breaks the connection of the caller off', async () => {
  const { url } = await balanced((request) => request.socket.destroy());

  await expect(fetch(url)).rejects.toThrow('fetch failed');
});
