import { expect, test } from 'vitest';
import type { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { ownAnswer } from '#server/gateway/own-answer';
import type { UpstreamAnswer } from '#server/gateway/upstream';
import { chunksOf, eventStream } from '#support/fake-upstream';

const result = (id: string) => `{"jsonrpc":"2.0","id":${id},"result":{}}`;
const error = (id: string) => `{"jsonrpc":"2.0","id":${id},"error":{"code":-1,"message":"no"}}`;

async function passed(answer: Partial<UpstreamAnswer> & { text: string }, id?: string) {
  const { text, ...rest } = answer;
  const whole = {
    status: 200,
    mediaType: 'application/json',
    sessionId: undefined,
    retryAfterSeconds: undefined,
    body: Buffer.from(text),
    ...rest,
  };
  const own = await ownAnswer(
    whole,
    id === undefined ? { kind: 'notification' } : { kind: 'request', id },
  );
  let body = '';
  for await (const chunk of chunksOf(own.body)) body += Buffer.from(chunk).toString();
  return { ...own, body };
}

test.each([
  ['its own result', result('7'), '7'],
  ['its own result, with the number as a string', result('"7"'), '7'],
  ['its own result, with the number in another form', result('7.0'), '7'],
  ['its own result, with a letter escaped', result(String.raw`"\u0061"`), '"a"'],
  ['an error for another request', error('8'), '7'],
  ['an error that names no request', error('null'), '7'],
])('%s passes, as JSON and as an event', async (_, text, id) => {
  const events = eventStream(text);

  expect((await passed({ text }, id)).body).toBe(text);
  expect((await passed({ text: events, mediaType: 'text/event-stream' }, id)).body).toBe(events);
});

test.each([
  ['a result for another request', result('8')],
  ['a result that can be read in two ways', '{"jsonrpc":"2.0","id":7,"result":{},"result":{}}'],
  ['a batch', `[${result('7')}]`],
])('%s is refused where it is all there is', async (_, text) => {
  await expect(passed({ text }, '7')).rejects.toMatchObject({
    code: 'upstream_failed',
  } satisfies Partial<GatewayRefusal>);
});

test('a stream goes on without results for others', async () => {
  const told = '{"jsonrpc":"2.0","method":"notifications/message"}';
  const text = `: hello\n\n${eventStream(told, result('8'), result('7'), result('9'))}`;

  const { body } = await passed({ text, mediaType: 'text/event-stream' }, '7');

  expect(body).toBe(`: hello\n\n${eventStream(told, result('7'))}`);
});

test('a result for what is no request is none', async () => {
  expect((await passed({ text: result('8') })).status).toBe(202);
  expect(
    (await passed({ text: eventStream(result('8')), mediaType: 'text/event-stream' })).body,
  ).toBe('');
});

test('of an HTTP error only a JSON-RPC error is its body', async () => {
  const refused = await passed({ status: 404, text: error('7') }, '7');
  const other = await passed({ status: 404, text: result('7') }, '7');

  expect([refused.mediaType, refused.body]).toEqual(['application/json', error('7')]);
  expect([other.status, other.mediaType, other.body]).toEqual([404, '', '']);
});

/** An answer of more than a mebibyte, in chunks, whose id comes last; counts what was taken of it. */
function long(id: string, { before = '', after = '' } = {}) {
  const taken = { chunks: 0 };
  async function* body() {
    const text = 'x'.repeat(64 * 1024);
    yield Buffer.from(`{"jsonrpc":"2.0",${before}"result":{"text":"\\"id\\": 1 {`);
    for (; taken.chunks < 40; taken.chunks += 1) yield Buffer.from(text);
    yield Buffer.from(`"},"i`);
    yield Buffer.from(`d" : ${id}`);
    yield Buffer.from(`}${after}`);
  }
  return { taken, answer: { text: '', body: body() } };
}

async function read(body: UpstreamAnswer['body']): Promise<string> {
  let text = '';
  for await (const chunk of chunksOf(body)) text += Buffer.from(chunk).toString();
  return text;
}

const asked = { kind: 'request', id: '7' } as const;
const json = {
  status: 200,
  mediaType: 'application/json',
  sessionId: undefined,
  retryAfterSeconds: undefined,
};

test('a long answer goes on as it comes', async () => {
  const { taken, answer } = long('7');

  const own = await ownAnswer({ ...json, body: answer.body }, asked);
  const takenBefore = taken.chunks;
  const text = await read(own.body);

  expect(takenBefore).toBeLessThan(20);
  expect(text).toBe(await read(long('7').answer.body));
});

test.each([
  ['for another request', long('8')],
  ['with two ids', long('7', { before: '"id":8,' })],
  ['with an id in another case', long('7', { before: '"Id":8,' })],
  ['with an id whose name is escaped', long('7', { before: String.raw`"\u0069d":8,` })],
  ['with something behind it', long('7', { after: '{}' })],
])('a long answer %s breaks off before it is whole', async (_, { answer }) => {
  const own = await ownAnswer({ ...json, body: answer.body }, asked);
  let text = '';
  const reading = (async () => {
    for await (const chunk of chunksOf(own.body)) text += Buffer.from(chunk).toString();
  })();

  await expect(reading).rejects.toMatchObject({ code: 'upstream_failed' });
  expect(() => JSON.parse(text)).toThrow(SyntaxError);
});
