import { describe, expect, test } from 'vitest';
import type { GatewayAnswer } from '#server/gateway/exchange';
import { principalSeal } from '#server/gateway/principal-seal';
import { sealAnswer } from '#server/gateway/seal-answer';
import { fakeMac } from '#support/fake-mac';
import { bodyText } from '#support/gateway-answer';

const seal = principalSeal('key:ann srv_1', fakeMac);
const task = seal.seal('task', 't-1');
const state = seal.seal('state', 's"1');
const related = (id: string) =>
  `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"${id}"}}`;
const result = (members: string) =>
  `{"jsonrpc":"2.0", "id":12345678901234567890,"result":{${members}}}`;

const json = (body: NonNullable<GatewayAnswer['body']>): GatewayAnswer => ({
  status: 200,
  headers: { 'Content-Type': 'application/json' },
  body,
});
const events = (...chunks: string[]): GatewayAnswer => ({
  status: 200,
  headers: { 'Content-Type': 'text/event-stream' },
  body: inChunks(chunks),
});
async function* inChunks(chunks: readonly string[]) {
  for (const chunk of chunks) yield Buffer.from(chunk);
}
const sealed = (answer: GatewayAnswer) => bodyText(sealAnswer(answer, seal));

describe('the caller’s own name of a task that it keeps comes back', () => {
  const own = seal.seal('ownTask', 'mine');
  const asked = (method: string, params: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{${params}}}`;

  test.each<[string, (id: string) => string]>([
    ['where the upstream asks for it', (id) => asked('tasks/get', `"taskId":"${id}"`)],
    ['where it mentions it', (id) => asked('elicitation/create', related(id))],
  ])('%s', async (_, place) => {
    expect(await sealed(json(inChunks([place(own)])))).toBe(place('mine'));
  });

  test('and an id that nobody sealed stays where the upstream asks for it', async () => {
    const text = asked('tasks/get', '"taskId":"mine"');

    expect(await sealed(json(inChunks([text])))).toBe(text);
  });
});

describe('sealed for its caller, with every other byte as it came, is', () => {
  test.each([
    [
      'a request state',
      result(`"requestState":"s\\"1"`),
      result(`"requestState":"${state.replace('"', '\\"')}"`),
    ],
    [
      'the id of a new task',
      result('"task":{"taskId":"t-1","n":1.0}'),
      result(`"task":{"taskId":"${task}","n":1.0}`),
    ],
    ['the id of a task that is told', result('"taskId":"t-1"'), result(`"taskId":"${task}"`)],
    [
      'an id under an escaped name',
      result('"taskId":1,"task":{"\\u0074askId":"t-1"}'),
      result(`"taskId":1,"task":{"\\u0074askId":"${task}"}`),
    ],
    ['the task that a result is of', result(related('t-1')), result(related(task))],
    [
      'the task that a notification is about',
      '{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t-1"}}',
      `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"${task}"}}`,
    ],
    [
      'the task for which the upstream asks',
      `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{${related('t-1')}}}`,
      `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{${related(task)}}}`,
    ],
  ])('%s', async (_, came, goes) => {
    expect(await sealed(json(Buffer.from(came)))).toBe(goes);
    expect(await sealed(json(inChunks([came.slice(0, 40), came.slice(40)])))).toBe(goes);
  });
});

describe('left alone is', () => {
  test.each([
    [
      'what a tool calls a task of its own',
      result('"structuredContent":{"taskId":"t-1","requestState":"s"}'),
    ],
    [
      'text that speaks of one',
      result('"content":[{"type":"text","text":"{\\"taskId\\":\\"t-1\\"}"}]'),
    ],
    [
      'a task that the caller keeps',
      '{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"mine"}}',
    ],
    ['what is no message', '{"taskId":"t-1"}'],
  ])('%s', async (_, body) => {
    expect(await sealed(json(Buffer.from(body)))).toBe(body);
  });
});

test('in a stream events are sealed as they come, wherever they are cut, with their ids', async () => {
  const stream = `: hi\n\nid: 7\nevent: message\ndata: ${result('"requestState":"s"')}\n\ndata: {}\n\n`;
  const goes = stream.replace('"requestState":"s"', `"requestState":"${seal.seal('state', 's')}"`);

  expect(await sealed(events(...stream.split('')))).toBe(goes);
  expect(await sealed(events(stream))).toBe(goes);
});

test('an answer of several megabytes goes on in its own chunks', async () => {
  const chunk = 'x'.repeat(300_000);
  const body = sealAnswer(
    json(inChunks([`{"a":"${chunk}`, chunk, chunk, chunk, chunk, '"}'])),
    seal,
  ).body;
  const lengths: number[] = [];
  if (typeof body === 'object' && !(body instanceof Uint8Array)) {
    for await (const { length } of body) lengths.push(length);
  }

  expect(lengths).toEqual([300_006, 300_000, 300_000, 300_000, 300_000, 2]);
});
