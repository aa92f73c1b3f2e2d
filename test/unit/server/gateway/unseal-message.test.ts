import { describe, expect, test } from 'vitest';
import { scanMessage } from '#server/gateway/json-scan';
import { principalSeal } from '#server/gateway/principal-seal';
import { unsealMessage } from '#server/gateway/unseal-message';
import { fakeMac } from '#support/fake-mac';

const ann = principalSeal('key:ann srv_1', fakeMac);
const bob = principalSeal('key:bob srv_1', fakeMac);

function unsealed(text: string) {
  const body = Buffer.from(text);
  const scan = scanMessage(body);
  if (scan.outcome === 'refused') throw new Error(scan.reason);
  return unsealMessage({ body, envelope: scan.envelope }, ann).body.toString();
}

const message = (method: string, params: string) =>
  `{"jsonrpc":"2.0", "id":1,"method":"${method}","params":{${params}}}`;
const related = (id: string) =>
  `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"${id}"}}`;
const places: [string, 'task' | 'state', (value: string) => string][] = [
  ['the task that is asked for', 'task', (id) => message('tasks/get', `"taskId":"${id}"`)],
  ['it under an escaped name', 'task', (id) => message('tasks/get', `"t\\u0061skId":"${id}"`)],
  ['the task that a request is about', 'task', (id) => message('ping', related(id))],
  ['the state of a call', 'state', (value) => message('tools/call', `"requestState":"${value}"`)],
  [
    'it under an escaped name ',
    'state',
    (value) => message('tools/call', `"request\\u0053tate":"${value}"`),
  ],
];

describe('the upstream gets its own words for', () => {
  test.each(places)('%s', (_, kind, place) => {
    expect(unsealed(place(ann.seal(kind, 'x')))).toBe(place('x'));
  });
});

describe('not found is, when somebody else or nobody was given it,', () => {
  test.each(places)('%s', (_, kind, place) => {
    for (const value of [bob.seal(kind, 'x'), 'x', '']) {
      expect(() => unsealed(place(value))).toThrow(expect.objectContaining({ code: 'not_theirs' }));
    }
  });

  test('a state that is no string', () => {
    expect(() => unsealed(message('tools/call', '"requestState":{"a":1}'))).toThrow(
      expect.objectContaining({ code: 'not_theirs' }),
    );
  });
});

describe('untouched is', () => {
  test.each([
    ['what a tool calls a task of its own', message('tools/call', '"arguments":{"taskId":"x"}')],
    [
      'a task of the caller in its response',
      '{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"x"}}}',
    ],
    ['one it mentions there', `{"jsonrpc":"2.0","id":1,"result":{${related('x')}}}`],
  ])('%s', (_, text) => {
    expect(unsealed(text)).toBe(text);
  });
});
