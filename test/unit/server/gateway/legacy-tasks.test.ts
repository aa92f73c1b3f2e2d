import { expect, test } from 'vitest';

import { messageOf } from '#mcp/message';
import { LegacyTasks, TaskMap, TaskTokens } from '#server/gateway/legacy-tasks';

const beginning = (progressToken: string) =>
  messageOf(
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 't', task: {}, _meta: { progressToken, of: 'a' } },
    }),
  );

test('tasks: what is remembered is bounded, however many tasks there are and however long their ids', () => {
  const tasks = new LegacyTasks();
  const tokens = new TaskMap<string>();
  for (let place = 0; place <= 1000; place += 1) {
    tasks.note(`t-${place}`);
    tokens.set(`${place}`, '"token"');
  }
  tasks.note('x'.repeat(1025));
  tokens.set('long', `"${'x'.repeat(1025)}"`);

  expect(['t-0', 't-1', 't-1000', 'x'.repeat(1025)].map((id) => tasks.has(id))).toEqual([
    false,
    true,
    true,
    false,
  ]);
  expect([tokens.size, tokens.has('long')]).toEqual([1000, false]);
});

test('tasks: long ids and tokens leave room for fewer of them', () => {
  const tokens = new TaskMap<string>();
  for (let place = 0; place < 1000; place += 1) tokens.set(`${place}`, 'x'.repeat(1000));
  const before = tokens.size;
  for (const name of tokens.keys()) tokens.delete(name);
  for (let place = 0; place < 1000; place += 1) tokens.set(`${place}`, 'x');

  expect(before).toBe(65);
  expect(tokens.size).toBe(1000);
});

test('tasks: a token of ours replaces the caller’s in the request, and the caller’s returns in progress', () => {
  const tokens = new TaskTokens();
  const sent = tokens.sent(beginning('mine'));
  const { progressToken = '' } = sent.envelope;
  const long = beginning('x'.repeat(1025));
  const progressOf = (token: string) =>
    messageOf(
      `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":1}}`,
    );

  expect(progressToken).not.toBe('"mine"');
  expect(JSON.parse(sent.body.toString()).params).toMatchObject({ task: {}, _meta: { of: 'a' } });
  expect(JSON.parse(tokens.told(progressOf(progressToken))?.body.toString() ?? '')).toEqual(
    JSON.parse(progressOf('"mine"').body.toString()),
  );
  expect(tokens.told(progressOf('"mine"'))).toBeUndefined();
  expect(tokens.sent(long)).toBe(long);
});
