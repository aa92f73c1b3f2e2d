import { PassThrough } from 'node:stream';
import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { readBody } from '#proxy/http/read-body';

/** A response as far as its body goes. */
function response(): PassThrough & IncomingMessage {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return new PassThrough() as unknown as PassThrough & IncomingMessage;
}

test('a body in parts is one buffer', async () => {
  const body = response();
  const read = readBody(body, 100);

  body.write('one ');
  body.end('two');

  expect(String(await read)).toBe('one two');
});

test('a body that is too long is nothing, and the rest is dropped', async () => {
  const body = response();
  const read = readBody(body, 4);

  body.write('12345');

  await expect(read).resolves.toBeUndefined();
  expect(body.destroyed).toBe(true);
});

test('a body that breaks off is an error, also when it broke before', async () => {
  const midway = response();
  const read = readBody(midway, 100);
  midway.write('half');
  midway.destroy();
  const before = response();
  before.destroy();

  await expect(read).rejects.toThrow('broke off');
  await expect(readBody(before, 100)).rejects.toThrow('broke off');
});
