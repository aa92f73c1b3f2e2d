import { expect, test } from 'vitest';
import { readMessage } from '#mcp/raw-message';
import { modernHeaders } from '#proxy/transport/modern-headers';

const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
const headers = (method: string, params: object) =>
  modernHeaders(readMessage(Buffer.from(JSON.stringify({ method, params: { ...params, _meta } }))));

test.each([
  ['tools/call', { name: 'query' }, 'query'],
  ['resources/read', { uri: 'file:///a b' }, 'file:///a b'],
  ['tasks/get', { taskId: '7' }, '7'],
  ['tools/call', { name: ' padded ' }, '=?base64?IHBhZGRlZCA=?='],
  ['tools/call', { name: '=?base64?eA==?=' }, '=?base64?PT9iYXNlNjQ/ZUE9PT89?='],
  ['tools/call', { name: 'a\nb' }, '=?base64?YQpi?='],
  ['tools/call', { name: '' }, '=?base64??='],
])('modern headers: %s of %j carries the name %s', (method, params, name) => {
  expect(headers(method, params)).toEqual({
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    'mcp-name': name,
  });
});

test('modern headers: a method without a name has none, and a legacy message no headers at all', () => {
  expect(headers('tools/list', { name: 'x' })).not.toHaveProperty('mcp-name');
  expect(modernHeaders(readMessage(Buffer.from('{"method":"ping","id":1}')))).toBeUndefined();
});
