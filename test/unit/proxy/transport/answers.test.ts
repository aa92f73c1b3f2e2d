import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { readMessage } from 'latchkey-mcp/raw-message';
import { readAnswer, readBody } from '#proxy/transport/answers';

/** A response that has only a body. */
function response(): PassThrough & IncomingMessage {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return new PassThrough() as unknown as PassThrough & IncomingMessage;
}

test('body: its parts are joined to one buffer', async () => {
  const body = response();
  const read = readBody(body, 100);

  body.write('one ');
  body.end('two');

  expect(String(await read)).toBe('one two');
});

test('body: beyond the limit it is undefined, and the rest is discarded', async () => {
  const body = response();
  const read = readBody(body, 4);

  body.write('12345');

  await expect(read).resolves.toBeUndefined();
  expect(body.destroyed).toBe(true);
});

test('body: an interruption is an error, even before the read', async () => {
  const midway = response();
  const read = readBody(midway, 100);
  midway.write('half');
  midway.destroy();
  const before = response();
  before.destroy();

  await expect(read).rejects.toThrow('ended early');
  await expect(readBody(before, 100)).rejects.toThrow('ended early');
});

test('answer: a 421 for another host is an error with the server’s public URL', async () => {
  const request = readMessage(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}'));
  const answer = (body: object) => {
    const sent = Object.assign(response(), { statusCode: 421, headers: {} });
    sent.end(JSON.stringify(body));
    return readAnswer(sent, request, 10_000);
  };

  await expect(answer({ error: 'x', public_url: 'https://mcp.example.com' })).rejects.toMatchObject(
    {
      code: 'redirected',
      message: expect.stringMatching(
        /^the server answered 421: .* is https:\/\/mcp\.example\.com$/,
      ),
      remedy: expect.stringContaining('begins with https://mcp.example.com'),
    },
  );
  await expect(answer({ public_url: 'javascript:alert(1)' })).rejects.toMatchObject({
    code: 'status',
    status: 421,
  });
});
