import { expect, test } from 'vitest';
import { strictJson, wanted } from '#mcp/json';
import { toolFields, typedArguments } from '#server/console/tool-fields';

const inputSchema = {
  type: 'object',
  properties: {
    sql: { type: 'string', description: 'One SELECT' },
    limit: { type: 'integer' },
    ratio: { type: 'number' },
    dry: { type: 'boolean' },
    order: { type: 'string', enum: ['up', 'down'] },
    filter: { type: 'object' },
    any: true,
    either: { type: ['string', 'null'] },
  },
  required: ['sql'],
};

test('plain values get plain fields, everything else is entered as JSON', () => {
  const fields = toolFields({ inputSchema });

  expect(fields.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
    'sql text',
    'limit integer',
    'ratio number',
    'dry boolean',
    'order choice',
    'filter json',
    'any json',
    'either json',
  ]);
  expect(fields[0]).toMatchObject({ required: true, description: 'One SELECT' });
  expect(fields[4]).toMatchObject({ required: false, options: ['up', 'down'] });
});

test.each([[{}], [{ properties: 'none' }], [{ properties: {}, required: 7 }]])(
  'the schema %j needs no field',
  (schema) => {
    expect(toolFields({ inputSchema: schema })).toEqual([]);
  },
);

test('a form has at most forty fields', () => {
  const properties = Object.fromEntries(
    Array.from({ length: 100 }, (_, index) => [`field${index}`, { type: 'string' }]),
  );

  expect(toolFields({ inputSchema: { properties } })).toHaveLength(40);
});

const typed = (entries: Record<string, string>) =>
  typedArguments(toolFields({ inputSchema }), new Map(Object.entries(entries)));

test('entered values become what the tool expects, and empty fields are omitted', () => {
  const { values, problems } = typed({
    sql: '12',
    limit: '12',
    ratio: '0.5',
    dry: 'false',
    order: 'up',
    filter: '{"a":[1]}',
  });

  expect(problems).toEqual([]);
  expect(JSON.parse(JSON.stringify(values))).toEqual({
    sql: '12',
    limit: 12,
    ratio: 0.5,
    dry: false,
    order: 'up',
    filter: { a: [1] },
  });
});

test('numbers in JSON are sent as they were typed, integers beyond 2^53 too', () => {
  const filter = '{"order":9007199254740993,"price":1.50}';

  expect(JSON.stringify(typed({ sql: '', filter }).values)).toContain(`"filter":${filter}`);
});

test('all problems are reported together, by argument', () => {
  const { problems } = typed({ limit: '1.5', ratio: 'half', filter: '{a}' });

  expect(problems).toEqual([
    { name: 'sql', message: 'sql is required.' },
    { name: 'limit', message: 'limit is not a whole number.' },
    { name: 'ratio', message: 'ratio is not a number.' },
    { name: 'filter', message: 'filter is not valid JSON. Put text in double quotes.' },
  ]);
});

test('an argument may be called __proto__ and changes nothing but itself', () => {
  const schema = JSON.parse('{"properties":{"__proto__":{"type":"string"}}}');
  const { values } = typedArguments(
    toolFields({ inputSchema: schema }),
    new Map([['__proto__', 'x']]),
  );

  expect(Object.getPrototypeOf(values)).toBe(Object.prototype);
});

test('JSON nested deeper than a call may be is a problem of its argument', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  const message = 'filter is nested deeper than 61 levels.';

  expect(typed({ sql: '', filter: nested(61) }).problems).toEqual([]);
  for (const levels of [62, 20_000]) {
    const { values, problems } = typed({ sql: '', filter: nested(levels) });
    expect(problems).toEqual([{ name: 'filter', message }]);
    expect(values).not.toHaveProperty('filter');
  }
});

test('the deepest JSON that may be entered makes a call that the gateway accepts, and deeper JSON is refused', () => {
  const outcome = (levels: number) => {
    const inner = `{"filter":${'['.repeat(levels)}${']'.repeat(levels)}}`;
    const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":${inner}}}`;
    return strictJson(Buffer.from(call), wanted({})).outcome;
  };

  expect([outcome(61), outcome(62)]).toEqual(['json', 'refused']);
});
