import { expect, test } from 'vitest';

import { awaitsToolResult, withoutConnectResponse } from '#server/gateway/connect-account';
import { scannedMessage } from '#support/scanned-message';

const call = (params: string) =>
  `{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":${params}}`;
const strip = (text: string) => withoutConnectResponse(scannedMessage(text));

test.each([
  [
    'all that was responded',
    '{"name":"t","inputResponses":{"latchkey-connect":{"action":"accept"}},"arguments":{"n": 1.0}}',
    '{"name":"t","arguments":{"n": 1.0}}',
  ],
  [
    'one of the responses',
    '{"name":"t","inputResponses":{"latchkey-connect":{},"theirs":{"n": 1.0}}}',
    '{"name":"t","inputResponses":{"theirs":{"n": 1.0}}}',
  ],
  [
    'spelt with escapes, and the name is there elsewhere',
    '{"name":"latchkey-connect","inputResponses":{"latchkey\\u002dconnect":{}}}',
    '{"name":"latchkey-connect"}',
  ],
])('the response to our own request is not forwarded where it is %s', (_what, sent, passed) => {
  const { body, envelope } = strip(call(sent));

  expect(body.toString()).toBe(call(passed));
  expect(envelope).toEqual(scannedMessage(call(passed)).envelope);
});

test.each([
  '{"name":"latchkey-connect"}',
  '{"name":"t","arguments":{"inputResponses":{"latchkey-connect":{}}}}',
  '{"name":"t","inputResponses":{"theirs":"latchkey-connect"}}',
])('any other message that mentions it is unchanged: %s', (params) => {
  expect(strip(call(params)).body.toString()).toBe(call(params));
});

test.each([
  ['{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}', true],
  [
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"task":{}}}}',
    true,
  ],
  [
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","ta\\u0073k":{"ttl":1}}}',
    false,
  ],
  ['{"jsonrpc":"2.0","id":1,"method":"tools/list"}', false],
  ['{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}', false],
])('the result of a failed tool can answer it: %s, %s', (text, expected) => {
  expect(awaitsToolResult(scannedMessage(text))).toBe(expected);
});
