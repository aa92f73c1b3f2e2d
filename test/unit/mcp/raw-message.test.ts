import { expect, test } from 'vitest';
import {
  answerTo,
  errorAnswer,
  idKey,
  modernHeaders,
  modernVersion,
  readMessage,
  stringAt,
  textAt,
} from '#mcp/raw-message';

const read = (text: string) => readMessage(Buffer.from(text));

test('message: it keeps its own bytes, with large integers and unknown members', () => {
  const text = '{"jsonrpc":"2.0","id":9007199254740993,"method":"x","params":{"n":1e400},"y":1.0}';

  const message = read(text);

  expect(message.bytes.toString()).toBe(text);
  expect(message).toMatchObject({ kind: 'request', id: '9007199254740993', method: 'x' });
});

test('message: line breaks between values become spaces, those in strings stay escaped', () => {
  const message = read('{\r\n  "method": "a\\nb",\n  "id": "1"\n}');

  expect(message.bytes.toString()).toBe('{    "method": "a\\nb",   "id": "1" }');
  expect(message.method).toBe('a\nb');
});

test.each([
  ['{"id":1,"method":"m"}', 'request'],
  ['{"method":"m"}', 'notification'],
  ['{"id":1,"result":null}', 'response'],
  ['{"id":null,"error":{"code":1,"message":""}}', 'response'],
])('message: %s is a %s', (text, kind) => {
  expect(read(text).kind).toBe(kind);
});

test.each([
  '',
  '{',
  'nonsense',
  '{"id":1,}',
  '{"id":01,"method":"m"}',
  '{"method":"m"} x',
  '{"a":"\t"}',
  '{"id":1,"method":"\\x"}',
  '{"id":1,"method":"\\u12g4"}',
  '{"a":[1,]}',
  '{"a":tru}',
  '{"a":1.}',
  '{"a":-}',
  '{"a" 1}',
  '{"method":"a","method":"b"}',
  `{"method":"m","params":${'['.repeat(9999)}`,
])('message: %s is not JSON', (text) => {
  expect(() => read(text)).toThrow(expect.objectContaining({ code: -32700 }));
});

test.each([
  '[]',
  '1',
  '{}',
  '{"id":1}',
  '{"id":null,"method":"m"}',
  '{"id":{},"method":"m"}',
  '{"id":1,"result":1,"error":{}}',
  '{"method":5,"id":1}',
])('message: %s is JSON but not a message', (text) => {
  expect(() => read(text)).toThrow(expect.objectContaining({ code: -32600 }));
});

test('message: bytes that are not UTF-8 are refused', () => {
  const bytes = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);

  expect(() => readMessage(bytes)).toThrow(expect.objectContaining({ code: -32700 }));
});

test('message: nested members are read by path, and strings only if they are strings', () => {
  const message = read(
    '{"method":"m","params":{"\\u0061":{"b":"é\\u00e9"},"n":12345678901234567890}}',
  );

  expect(stringAt(message, 'params', 'a', 'b')).toBe('éé');
  expect(stringAt(message, 'params', 'n')).toBeUndefined();
  expect(textAt(message, 'params', 'n')).toBe('12345678901234567890');
  expect(textAt(message, 'params', 'x', 'y')).toBeUndefined();
});

test('message: ids that name the same request have the same key', () => {
  expect(new Set(['1', '1.0', '1e0'].map(idKey)).size).toBe(1);
  expect(new Set(['"a"', '"\\u0061"'].map(idKey)).size).toBe(1);
  expect(idKey('1')).not.toBe(idKey('"1"'));
});

test('message: an answer carries the id of the request, digit by digit', () => {
  const answer = read('{"jsonrpc":"2.0","id":9007199254740992,"result":{"big":9007199254740993}}');

  expect(answerTo('9007199254740993', answer).bytes.toString()).toBe(
    '{"jsonrpc":"2.0","id":9007199254740993,"result":{"big":9007199254740993}}',
  );
});

test('message: a failure becomes a JSON-RPC error', () => {
  const answer = errorAnswer('"x"', { code: -32603, message: 'no', data: { status: 502 } });

  expect(JSON.parse(answer.bytes.toString())).toEqual({
    jsonrpc: '2.0',
    id: 'x',
    error: { code: -32603, message: 'no', data: { status: 502 } },
  });
});

test('message: only a version in _meta makes it modern', () => {
  const key = 'io.modelcontextprotocol/protocolVersion';

  expect(modernVersion(read(`{"method":"m","params":{"_meta":{"${key}":"2026-07-28"}}}`))).toBe(
    '2026-07-28',
  );
  expect(modernVersion(read(`{"method":"m","params":{"text":"${key}"}}`))).toBeUndefined();
});

test('message: a member is found whatever the white space around it', () => {
  const spaced = read('{ "id": 1, "method": "m", "params": { "name": "x" } }');

  expect(stringAt(spaced, 'params', 'name')).toBe('x');
});

const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
const headers = (method: string, params: object) =>
  modernHeaders(readMessage(Buffer.from(JSON.stringify({ method, params: { ...params, _meta } }))));

test.each([
  ['tools/call', { name: 'query' }, 'query'],
  ['resources/read', { uri: 'file:///a b' }, 'file:///a b'],
  ['tasks/get', { taskId: '7' }, '7'],
  ['tools/call', { name: ' padded ' }, '=?base64?IHBhZGRlZCA=?='],
  ['tools/call', { name: '=?base64?eA==?=' }, '=?base64?PT9iYXNlNjQ/ZUE9PT89?='],
  ['tools/call', { name: '=?BASE64?eA==?=' }, '=?base64?PT9CQVNFNjQ/ZUE9PT89?='],
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
