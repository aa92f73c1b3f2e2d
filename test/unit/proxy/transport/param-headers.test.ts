import { expect, test } from 'vitest';
import { mirroredParameters } from '#mcp/headers';
import { readMessage } from '#mcp/raw-message';
import { paramHeaders } from '#proxy/transport/modern-headers';

const schema = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const string = (header: unknown) => ({ type: 'string', 'x-mcp-header': header });

test('parameter headers: annotated properties are found at any depth', () => {
  const found = mirroredParameters(
    schema({
      region: string('Region'),
      plain: { type: 'string' },
      inner: schema({ count: { type: 'integer', 'x-mcp-header': 'Count' } }),
    }),
  );

  expect(found).toEqual([
    { path: ['region'], header: 'mcp-param-region' },
    { path: ['inner', 'count'], header: 'mcp-param-count' },
  ]);
});

test.each([
  ['an empty name', schema({ a: string('') })],
  ['a name that is no text', schema({ a: string(1) })],
  ['a name with a blank', schema({ a: string('My Region') })],
  ['a name with a line break', schema({ a: string('A\r\nB') })],
  ['a name beyond ASCII', schema({ a: string('Région') })],
  ['an object', schema({ a: { type: 'object', 'x-mcp-header': 'A' } })],
  ['a number', schema({ a: { type: 'number', 'x-mcp-header': 'A' } })],
  ['several types', schema({ a: { type: ['string', 'null'], 'x-mcp-header': 'A' } })],
  ['one name twice', schema({ a: string('Region'), b: string('region') })],
  ['elements of a list', schema({ a: { type: 'array', items: string('A') } })],
  ['one of several schemas', schema({}, { anyOf: [schema({ a: string('A') })] })],
  ['a schema that is referred to', schema({}, { $defs: { a: string('A') } })],
  ['the whole', { ...string('A'), type: 'string' }],
])('parameter headers: an invalid annotation makes a tool unusable: %s', (_, inputSchema) => {
  expect(mirroredParameters(inputSchema)).toBeUndefined();
});

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

  expect(paramHeaders(readMessage(Buffer.from(call)), parameters)).toEqual(
    value === undefined ? {} : { 'mcp-param-a': value },
  );
});

test('parameter headers: an omitted argument has none', () => {
  const call = readMessage(Buffer.from('{"id":1,"method":"tools/call","params":{"name":"x"}}'));

  expect(paramHeaders(call, [{ path: ['a'], header: 'mcp-param-a' }])).toEqual({});
});
