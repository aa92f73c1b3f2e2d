import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect } from 'node:net';

import { afterEach, expect, test, vi } from 'vitest';

import { breakOff, whenClosed } from '#server/http/closed-response';
import { listen } from '#support/loopback';

const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** The responses to two requests that arrive at once on one connection: the second waits behind the first. */
async function pipelined() {
  const responses: ServerResponse[] = [];
  const both = Promise.withResolvers<void>();
  const server = createServer((_, response) => {
    if (responses.push(response) === 2) both.resolve();
  });
  const client = connect(await listen(server), '127.0.0.1');
  closing.push(
    () => client.destroy(),
    () => server.close(),
  );
  client.on('error', () => undefined);
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2));
  await both.promise;
  const [first, second] = responses;
  if (!first || !second) throw new Error('no responses');
  return { client, first, second };
}

test('closed response: one that waits behind another is told when the connection closes, whether or not Node tells it', async () => {
  const { client, first, second } = await pipelined();
  // Node emits `close` here since version 24; this suppresses the event.
  vi.spyOn(second, 'emit').mockReturnValue(false);
  const told = vi.fn();
  whenClosed(first, () => told('first'));
  whenClosed(second, () => told('second'));
  const stop = whenClosed(second, () => told('stopped'));
  stop();
  const closed = once(second.req.socket, 'close');
  client.destroy();
  await closed;
  whenClosed(second, () => told('late'));

  expect(told.mock.calls.flat().map(String).toSorted()).toEqual(['first', 'late', 'second']);
});

test('closed response: one that was sent is told once, and its connection does not tell it again', async () => {
  const { client, first } = await pipelined();
  const told = vi.fn();
  whenClosed(first, told);
  first.end('done');
  await once(client, 'data');
  const closed = once(first.req.socket, 'close');
  client.destroy();
  await closed;

  expect(told).toHaveBeenCalledTimes(1);
});

test('closed response: breaking off one that waits closes the connection', async () => {
  const { client, second } = await pipelined();
  const closed = once(client, 'close');
  breakOff(second);

  await closed;
  expect(second.destroyed).toBe(true);
});
