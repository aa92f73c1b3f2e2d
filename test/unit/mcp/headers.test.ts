import type { IncomingHttpHeaders } from 'node:http';

import { describe, expect, test } from 'vitest';

import {
  headerLines,
  legacyHeaders,
  mirroredParameters,
  modernHeaders,
  parameterHeaders,
  traceHeaders,
} from '#mcp/headers';
import { readMessage, textAt } from '#mcp/raw-message';
import { scannedRequest } from '#support/scanned-message';

/** Headers that a caller may send, good and bad. */
const everything: IncomingHttpHeaders = {
  authorization: 'Bearer token',
  'x-api-key': 'mcp_key',
  cookie: 'session=1',
  'proxy-authorization': 'Basic x',
  'x-forwarded-for': '192.0.2.1',
  forwarded: 'for=192.0.2.1',
  host: 'latchkey.example.com',
  origin: 'https://example.com',
  referer: 'https://example.com/secret',
  'user-agent': 'assistant/1',
  accept: '*/*',
  'content-type': 'text/plain',
  'content-length': '2',
  'content-encoding': 'gzip',
  'transfer-encoding': 'chunked',
  connection: 'x-secret',
  te: 'trailers',
  traceparent: '00-1',
  'mcp-session-id': 'session-of-ours',
  'last-event-id': '4',
  'mcp-method': 'tools/list',
  'mcp-name': 'other',
};

const post = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};

test('a legacy request carries its version and the session of the upstream, and nothing else', () => {
  const callers = { ...everything, 'mcp-protocol-version': '2025-06-18' };

  expect(legacyHeaders(callers, 'session-of-theirs')).toEqual({
    ...post,
    'mcp-protocol-version': '2025-06-18',
    'mcp-session-id': 'session-of-theirs',
  });
});

test('a legacy request without version and session carries neither, above all not our session', () => {
  expect(legacyHeaders(everything)).toEqual(post);
});

test('a modern request carries what its body says, and only Mcp-Param-* of the caller', () => {
  const params = {
    name: 'search',
    _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' },
  };
  const { envelope } = scannedRequest('tools/call', params);
  const callers = { ...everything, 'mcp-param-region': 'eu', 'mcp-parameter': 'x' };

  expect(modernHeaders(envelope, callers)).toEqual({
    ...post,
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'search',
    'mcp-param-region': 'eu',
  });
});

test('a name that a header cannot carry goes encoded, so that it adds no header of its own', () => {
  const { envelope } = scannedRequest('tools/call', { name: 'a\r\nX-Evil: 1' });

  expect(modernHeaders(envelope)['mcp-name']).toBe('=?base64?YQ0KWC1FdmlsOiAx?=');
});

test('a request that the gateway makes modern names the newest version', () => {
  const { envelope } = scannedRequest('tools/list');

  expect(modernHeaders(envelope)).toEqual({
    ...post,
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/list',
  });
});

const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

describe('the trace of a request is continued', () => {
  test.each([
    'congo=t61rcWkgMzE',
    'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
    ' 0tenant@system=a b!~ ,\ta=1,,',
    Array.from({ length: 32 }, (_, n) => `k${n}=v`).join(),
    `${'k'.repeat(256)}=${'v'.repeat(256)}`,
  ])('with its state: %s', (tracestate) => {
    expect(traceHeaders({ ...everything, traceparent, tracestate })).toEqual({
      traceparent,
      tracestate,
    });
  });

  test.each([
    '',
    ',',
    'congo',
    'Congo=1',
    'congo=',
    '=1',
    'a=1,a=2',
    'a=b=c',
    'a=\u00e9',
    'a=1\r\nx-evil: 1',
    Array.from({ length: 33 }, (_, n) => `k${n}=v`).join(),
    `${'k'.repeat(257)}=v`,
    `k=${'v'.repeat(257)}`,
  ])('without a state that is none: %j', (tracestate) => {
    expect(traceHeaders({ traceparent, tracestate })).toEqual({ traceparent });
  });

  test.each([
    undefined,
    '',
    '00-1',
    traceparent.toUpperCase(),
    traceparent.replace('00-', 'ff-'),
    traceparent.replace('00-', '01-'),
    `${traceparent}-01`,
    `${traceparent}, ${traceparent}`,
    `${traceparent}\r\nx-evil: 1`,
    `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
    `00-4bf92f3577b34da6a3ce929d0e0e4736-${'0'.repeat(16)}-01`,
  ])('and not where it is none: %j', (parent) => {
    expect(traceHeaders({ traceparent: parent, tracestate: 'a=1' })).toEqual({});
  });

  test('in a modern request, and baggage in none', () => {
    const { envelope } = scannedRequest('tools/list');
    const callers = { ...everything, traceparent, tracestate: 'a=1', baggage: 'user=dana' };

    expect(modernHeaders(envelope, callers)).toEqual({
      ...modernHeaders(envelope),
      traceparent,
      tracestate: 'a=1',
    });
  });
});

const schema = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const text = (header: unknown) => ({ type: 'string', 'x-mcp-header': header });

test('annotated properties are found at any depth, and a property may be called like the annotation', () => {
  const count = { type: 'integer', 'x-mcp-header': 'Count' };
  const inputSchema = schema({
    region: text('Region'),
    plain: { type: 'string', default: { 'x-mcp-header': 'no schema' } },
    inner: schema({ count }),
    'x-mcp-header': { type: 'string' },
  });

  expect(mirroredParameters(inputSchema)).toEqual([
    { path: ['region'], header: 'mcp-param-region' },
    { path: ['inner', 'count'], header: 'mcp-param-count' },
  ]);
});

test('a schema without annotations, or no schema, requires no header', () => {
  expect(mirroredParameters(schema({ a: { type: 'string' } }))).toEqual([]);
  expect(mirroredParameters(undefined)).toEqual([]);
});

test.each([
  ['an empty name', schema({ a: text('') })],
  ['a name that is no text', schema({ a: text(1) })],
  ['a name with a line break', schema({ a: text('A\r\nB') })],
  ['a name beyond ASCII', schema({ a: text('Région') })],
  ['a number', schema({ a: { type: 'number', 'x-mcp-header': 'A' } })],
  ['several types', schema({ a: { type: ['string', 'null'], 'x-mcp-header': 'A' } })],
  ['one name twice', schema({ a: text('Region'), b: schema({ c: text('region') }) })],
  ['elements of a list', schema({ a: { type: 'array', items: text('A') } })],
  ['a property of elements', schema({ a: { type: 'array', items: schema({ b: text('A') }) } })],
  ['one of several schemas', schema({}, { anyOf: [schema({ a: text('A') })] })],
  ['a schema that is referred to', schema({}, { $defs: { a: text('A') } })],
  ['the whole', text('A')],
])('an annotation of %s makes a tool unusable', (_, inputSchema) => {
  expect(mirroredParameters(inputSchema)).toBeUndefined();
});

const objectSchema = (properties: object, more: object = {}) => ({
  type: 'object',
  properties,
  ...more,
});
const annotated = (header: unknown) => ({ type: 'string', 'x-mcp-header': header });

test('parameter headers: annotated properties are found at any depth', () => {
  const found = mirroredParameters(
    objectSchema({
      region: annotated('Region'),
      plain: { type: 'string' },
      inner: objectSchema({ count: { type: 'integer', 'x-mcp-header': 'Count' } }),
    }),
  );

  expect(found).toEqual([
    { path: ['region'], header: 'mcp-param-region' },
    { path: ['inner', 'count'], header: 'mcp-param-count' },
  ]);
});

test.each([
  ['an empty name', objectSchema({ a: annotated('') })],
  ['a name that is no text', objectSchema({ a: annotated(1) })],
  ['a name with a blank', objectSchema({ a: annotated('My Region') })],
  ['a name with a line break', objectSchema({ a: annotated('A\r\nB') })],
  ['a name beyond ASCII', objectSchema({ a: annotated('Région') })],
  ['an object', objectSchema({ a: { type: 'object', 'x-mcp-header': 'A' } })],
  ['a number', objectSchema({ a: { type: 'number', 'x-mcp-header': 'A' } })],
  ['several types', objectSchema({ a: { type: ['string', 'null'], 'x-mcp-header': 'A' } })],
  ['one name twice', objectSchema({ a: annotated('Region'), b: annotated('region') })],
  ['elements of a list', objectSchema({ a: { type: 'array', items: annotated('A') } })],
  ['one of several schemas', objectSchema({}, { anyOf: [objectSchema({ a: annotated('A') })] })],
  ['a schema that is referred to', objectSchema({}, { $defs: { a: annotated('A') } })],
  ['the whole', { ...annotated('A'), type: 'string' }],
])('parameter headers: an invalid annotation makes a tool unusable: %s', (_, inputSchema) => {
  expect(mirroredParameters(inputSchema)).toBeUndefined();
});

function headersOf(call: string, parameters: Parameters<typeof parameterHeaders>[0]) {
  const message = readMessage(Buffer.from(call));
  return parameterHeaders(parameters, (path) => textAt(message, 'params', 'arguments', ...path));
}

test.each([
  ['"us-west1"', 'us-west1'],
  ['"us west"', 'us west'],
  ['" padded"', '=?base64?IHBhZGRlZA==?='],
  ['"world: 世"', '=?base64?d29ybGQ6IOS4lg==?='],
  ['"a\\r\\nb"', '=?base64?YQ0KYg==?='],
  ['""', '=?base64??='],
  ['42', '42'],
  ['1e2', '100'],
  ['true', 'true'],
  ['null', undefined],
  ['[1]', undefined],
  ['12345678901234567890', undefined],
])('parameter headers: the argument %s is sent as %s', (json, value) => {
  const call = `{"id":1,"method":"tools/call","params":{"arguments":{"in":{"a":${json}}}}}`;
  const parameters = [{ path: ['in', 'a'], header: 'mcp-param-a' }];

  expect(headersOf(call, parameters)).toEqual(value === undefined ? {} : { 'mcp-param-a': value });
});

test('parameter headers: an omitted argument has none', () => {
  const call = '{"id":1,"method":"tools/call","params":{"name":"x"}}';

  expect(headersOf(call, [{ path: ['a'], header: 'mcp-param-a' }])).toEqual({});
});

test('header lines: every line with one of the names is found, in whatever case', () => {
  const raw = [
    'X-API-Key',
    'a',
    'Host',
    'h',
    'x-api-keys',
    'b',
    'AUTHORIZATION',
    'c',
    'x-aPi-key',
    'd',
  ];

  expect(headerLines(raw, 'x-api-key', 'authorization')).toEqual([
    { name: 'x-api-key', value: 'a' },
    { name: 'authorization', value: 'c' },
    { name: 'x-api-key', value: 'd' },
  ]);
  expect(headerLines(raw, 'origin')).toEqual([]);
});
