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

test('untouched is what a tool calls a task of its own', () => {
  const text = message('tools/call', '"arguments":{"taskId":"x"}');

  expect(unsealed(text)).toBe(text);
});

const told = (method: string, params: string) =>
  `{"jsonrpc":"2.0","method":"${method}","params":{${params}}}`;
const answered = (result: string) => `{"jsonrpc":"2.0","id":1,"result":{${result}}}`;

describe('the id of a task that the caller may keep itself is none of the upstream’s', () => {
  const owned: [string, (id: string) => string][] = [
    ['in its response', (id) => answered(`"task":{"taskId":"${id}"}`)],
    ['as what it tells of it', (id) => answered(`"taskId":"${id}","status":"working"`)],
    ['where a response mentions it', (id) => answered(related(id))],
    ['in its status', (id) => told('notifications/tasks/status', `"taskId":"${id}"`)],
    ['where a notification mentions it', (id) => told('notifications/progress', related(id))],
    ['where no notification has one', (id) => told('notifications/x', `"taskId":"${id}"`)],
  ];

  test.each(owned)('%s', (_, place) => {
    const own = unsealed(place('x'));

    expect(own).toBe(place(ann.seal('ownTask', 'x')));
    // Not even what was sealed for somebody else is turned into it.
    expect(unsealed(place(bob.seal('task', 'x')))).toBe(
      place(ann.seal('ownTask', bob.seal('task', 'x'))),
    );
  });

  test('and its own word for one of the upstream’s is', () => {
    const id = ann.seal('task', 'x');

    expect(unsealed(told('notifications/progress', related(id)))).toBe(
      told('notifications/progress', related('x')),
    );
  });
});

test('a state in a notification is refused like one in a request', () => {
  const place = (value: string) => told('notifications/x', `"requestState":"${value}"`);

  expect(unsealed(place(ann.seal('state', 'x')))).toBe(place('x'));
  for (const value of ['x', bob.seal('state', 'x')]) {
    expect(() => unsealed(place(value))).toThrow(expect.objectContaining({ code: 'not_theirs' }));
  }
});

const relatedName = '"io.modelcontextprotocol/related-task"';

test.each([
  ...['["x"]', '7', 'null', '{"toString":"x"}'].map((id) => `{"taskId":${id}}`),
  '["x"]',
  '[{"taskId":"x"}]',
  '7',
])('a task that is mentioned by no string is refused: %s', (about) => {
  const params = `"_meta":{${relatedName}:${about}}`;
  for (const text of [message('ping', params), told('notifications/progress', params)]) {
    expect(() => unsealed(text)).toThrow(expect.objectContaining({ code: 'bad_params' }));
  }
});

test('a task that is mentioned by a name that differs in case only is no message', () => {
  const text = message('ping', `"_meta":{${relatedName}:{"taskID":"x"}}`);

  expect(() => unsealed(text)).toThrow('case only');
});
