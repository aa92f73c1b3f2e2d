import { expect, test } from 'vitest';

import { messageOf } from '#mcp/message';
import { messageIn, post } from '#server/gateway/upstream';

const list = messageOf('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');
const call = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}');
const { signal } = new AbortController();

test('request to an upstream: its message is the one that was scanned', () => {
  expect(messageIn(post(list, {}, signal))).toBe(list);
});

test('request to an upstream: a body that was rewritten is scanned again', () => {
  expect(messageIn({ ...post(list, {}, signal), body: call })?.envelope.method).toBe('tools/call');
});

test.each([
  ['a body that two parsers could read differently', Buffer.from('{"id":1,"id":2}')],
  ['no body', undefined],
])('request to an upstream: %s is no message', (_, body) => {
  const request = { method: 'POST', headers: {}, signal, ...(body && { body }) } as const;

  expect(messageIn(request)).toBeUndefined();
});
