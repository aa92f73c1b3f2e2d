import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { readBody } from '#proxy/transport/answers';

/** A response as far as its body goes. */
function response(): PassThrough & IncomingMessage {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return new PassThrough() as unknown as PassThrough & IncomingMessage;
}

test('body: parts become one buffer', async () => {
  const body = response();
  const read = readBody(body, 100);

  body.write('one ');
  body.end('two');

  expect(String(await read)).toBe('one two');
});

test('body: one over the limit is undefined, and the rest is discarded', async () => {
  const body = response();
  const read = readBody(body, 4);

  body.write('12345');

  await expect(read).resolves.toBeUndefined();
  expect(body.destroyed).toBe(true);
});

test('body: an interrupted one is an error, even if it was interrupted before the read', async () => {
  const midway = response();
  const read = readBody(midway, 100);
  midway.write('half');
  midway.destroy();
  const before = response();
  before.destroy();

  await expect(read).rejects.toThrow('ended early');
  await expect(readBody(before, 100)).rejects.toThrow('ended early');
});
