import { expect, test } from 'vitest';
import { mirroredParameters } from '#server/gateway/mirrored-parameters';

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

test('a schema without annotations, or none at all, wants nothing', () => {
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
