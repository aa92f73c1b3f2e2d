import { getEventListeners, once } from 'node:events';
import { IncomingMessage } from 'node:http';
import { connect, Socket } from 'node:net';
import fastify from 'fastify';
import { describe, expect, test } from 'vitest';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { readBody as readNow, takeRawBodies } from '#server/http/body';

/** `readNow` as a promise, whether or not the body has already arrived. */
const readBody = async (...given: Parameters<typeof readNow>) => readNow(...given);

/** A request whose body is pushed by hand. */
function arriving(headers: Record<string, string> = {}): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  Object.assign(request.headers, headers);
  return request;
}

test('a body is read whole, in one piece or in several', async () => {
  for (const chunks of [['{}'], ['{', '"é"', ':1}'], []]) {
    const request = arriving();
    for (const chunk of chunks) request.push(chunk);
    request.push(null);

    expect((await readBody(request, 100)).toString()).toBe(chunks.join(''));
  }
});

test('a body of exactly the limit is accepted, and one of a byte more is not', async () => {
  const fits = arriving({ 'content-length': '4' });
  fits.push('1234');
  fits.push(null);
  const tooLong = arriving();
  tooLong.push('123');
  tooLong.push('45');

  expect((await readBody(fits, 4)).toString()).toBe('1234');
  await expect(readBody(tooLong, 4)).rejects.toMatchObject({ code: 'too_large' });
});

test('107: a body in very many short chunks is refused, and one in chunks of 64 bytes is not', async () => {
  const push = (request: IncomingMessage, chunk: string, times: number) => {
    for (let n = 0; n < times; n += 1) request.emit('data', Buffer.from(chunk));
  };
  const short = arriving();
  const refused = readBody(short, 100_000);
  push(short, ' ', 1100);
  const long = arriving();
  const read = readBody(long, 1_000_000);
  push(long, ' '.repeat(64), 5000);
  long.push(null);

  await expect(refused).rejects.toMatchObject({ code: 'too_many_chunks' });
  expect((await read).length).toBe(320_000);
});

test('a body whose declared length is over the limit is refused before it arrives', async () => {
  await expect(readBody(arriving({ 'content-length': '5' }), 4)).rejects.toMatchObject({
    code: 'too_large',
    details: { detail: 'at most 4 bytes are accepted' },
  });
});

test('a caller that disconnects before the end of the body has cancelled', async () => {
  const gone = arriving();
  gone.push('12');
  const reading = readBody(gone, 4);
  gone.destroy();

  await expect(reading).rejects.toMatchObject({ code: 'cancelled' });
});

test('a body that has arrived already is read as it is, within the limit', async () => {
  for (const [body, limit] of [
    ['{"a":1}', 7],
    ['', 0],
  ] as const) {
    const request = arriving();
    if (body !== '') request.push(body);
    request.push(null);
    request.complete = true;

    expect((await readBody(request, limit)).toString()).toBe(body);
  }
  const tooLong = arriving();
  tooLong.push('12345');
  tooLong.push(null);
  tooLong.complete = true;

  await expect(readBody(tooLong, 4)).rejects.toMatchObject({ code: 'too_large' });
});

test('a caller that disconnected before the body was read has cancelled, whatever it sent', async () => {
  for (const complete of [true, false]) {
    const gone = arriving();
    gone.push('12');
    gone.complete = complete;
    gone.destroy();
    await new Promise((resolve) => setImmediate(resolve));

    await expect(readBody(gone, 4)).rejects.toMatchObject({ code: 'cancelled' });
  }
});

test.each([true, false])(
  'each part of a body is reported, and reading ends when memory is exhausted (arrived already: %s)',
  async (isWhole) => {
    const refusal = new GatewayRefusal('too_many_requests');
    let held = 0;
    const take = (bytes: number) => {
      held += bytes;
      if (held > 4) throw refusal;
    };
    const fits = arriving();
    fits.push('1234');
    fits.push(null);
    const next = arriving();
    next.push('5');
    if (isWhole) next.push(null);

    expect((await readBody(fits, 100, take)).toString()).toBe('1234');
    await expect(readBody(next, 100, take)).rejects.toBe(refusal);
    expect(held).toBe(5);
  },
);

test.each(['read', 'refused'])(
  '107: once a body is %s, its request keeps nothing of it',
  async (how) => {
    const request = arriving();
    const reading = readBody(request, 4);
    request.push(how === 'read' ? '1234' : '12345');
    request.push(null);
    await reading.catch(() => undefined);

    const counts = ['data', 'end', 'close'].map((event) => request.listenerCount(event));
    expect(counts).toEqual([0, 0, 0]);
  },
);

test('a body that has arrived is not kept by the signal of its call, which ends one that has not', async () => {
  const ending = new AbortController();
  const [whole, part] = [arriving(), arriving()];
  const reading = readBody(whole, 100, undefined, ending.signal);
  const waiting = readBody(part, 100, undefined, ending.signal);
  whole.push('12');
  whole.push(null);
  part.push('1');

  expect((await reading).toString()).toBe('12');
  expect(getEventListeners(ending.signal, 'abort')).toHaveLength(1);

  const refusal = new GatewayRefusal('too_many_requests');
  ending.abort(refusal);
  await expect(waiting).rejects.toBe(refusal);
});

describe('raw bodies', () => {
  /** The answer of a route that accepts up to 4,000 bytes to a POST in chunks. */
  async function answerTo(...chunks: readonly string[]) {
    const app = fastify();
    takeRawBodies(app, 4000);
    app.post('/', async ({ body }) => `read ${String(body)}`);
    const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
    const socket = connect(Number(port), '127.0.0.1');
    socket.on('error', () => undefined);
    const body = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`);
    socket.write(
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n',
    );
    socket.write(`${body.join('')}0\r\n\r\n`);
    const [data]: Buffer[] = await once(socket, 'data');
    socket.destroy();
    await app.close();
    return String(data);
  }

  test('a body in several chunks is read whole', async () => {
    expect(await answerTo('{', '"e"', '}')).toContain('read {"e"}');
  });

  test.each([
    ['107: a body over the limit', ['x'.repeat(4001)], 413],
    ['107: a body in very many short chunks', Array.from({ length: 2000 }, () => 'x'), 400],
  ])('%s is refused, and its connection is closed', async (_, chunks, status) => {
    const answer = await answerTo(...chunks);

    expect(answer).toContain(`HTTP/1.1 ${status} `);
    expect(answer.toLowerCase()).toContain('connection: close');
  });
});
