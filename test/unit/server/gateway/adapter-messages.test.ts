import { expect, test } from 'vitest';

import { messageOf } from '#mcp/message';
import { Inbox } from '#server/gateway/adapter-messages';

const notification = (data: string) =>
  messageOf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"${data}"}}`);
const response = messageOf('{"jsonrpc":"2.0","id":1,"result":{}}');

/** How many of the messages are added while nobody reads. */
function added(inbox: Inbox, messages: readonly ReturnType<typeof messageOf>[]): number {
  return messages.filter((message) => inbox.push(message)).length;
}

test('107: inbox: at most a thousand messages wait for a reader, and a response that follows them', async () => {
  const inbox = new Inbox();

  const count = added(inbox, Array(1100).fill(notification('x')));

  expect([count, inbox.push(response)]).toEqual([1000, true]);
  expect(inbox.rest()).toHaveLength(1001);
});

test('107: inbox: at most a mebibyte of messages waits for a reader, and a response that follows them', async () => {
  const inbox = new Inbox();
  const large = notification('x'.repeat(100_000));

  const count = added(inbox, Array(1000).fill(large));
  const last = inbox.push(response);
  await inbox.next();

  expect([count, last]).toEqual([10, true]);
  expect([inbox.push(large), inbox.push(large)]).toEqual([true, false]);
});

test('inbox: a message of any length is added while none waits', async () => {
  const inbox = new Inbox();
  const long = notification('x'.repeat(3_000_000));

  expect([inbox.push(long), inbox.push(notification('x'))]).toEqual([true, false]);
  await inbox.next();
  expect(inbox.push(long)).toBe(true);
  expect([inbox.rest().length, inbox.push(long)]).toEqual([1, true]);
});
