import { afterEach, expect, test } from 'vitest';

import { InterruptedCalls } from '#server/eras/interrupted-calls';
import { LegacyCall } from '#server/eras/legacy-call';
import { LegacyLink } from '#server/eras/legacy-link';
import { messageOf } from '#server/eras/message';
import { fakeUpstream } from '#support/fake-upstream';
import { mapSteps } from '#support/map-steps';

const link = new LegacyLink({
  upstream: fakeUpstream(() => ({ status: 202 })),
  client: { capabilities: '{}', clientInfo: undefined, logLevel: undefined },
  initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
  sessionId: undefined,
});
const question = messageOf('{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}');
const made: LegacyCall[] = [];

afterEach(() => {
  for (const call of made.splice(0)) call.over();
});

function interrupted(owner: string) {
  const call = new LegacyCall('1', () => {});
  made.push(call);
  return { owner, link, call, question };
}

test('the hundred and first call of an owner that waits ends its oldest, and nobody else’s', () => {
  const calls = new InterruptedCalls();
  const other = interrupted('b');
  const theirs = calls.keep(other);
  const first = interrupted('a');
  const states = [first, ...Array.from({ length: 100 }, () => interrupted('a'))].map((call) =>
    calls.keep(call),
  );

  expect(calls.size).toBe(101);
  expect(first.call.ended.aborted).toBe(true);
  expect(calls.take(states[0] ?? '', 'a')).toBeUndefined();
  expect(calls.take(states[1] ?? '', 'b')).toBeUndefined();
  expect(calls.take(states[1] ?? '', 'a')).toBeDefined();
  expect(calls.take(theirs, 'b')).toMatchObject(other);
});

test('what is kept for one owner does not grow with the calls of all others', () => {
  const calls = new InterruptedCalls();
  for (let index = 0; index < 2000; index += 1) calls.keep(interrupted(`other ${index}`));
  for (let index = 0; index < 100; index += 1) calls.keep(interrupted('mine'));
  const one = interrupted('mine');

  expect(mapSteps(() => calls.keep(one))).toBeLessThan(20);
  expect(calls.size).toBe(2100);
});
