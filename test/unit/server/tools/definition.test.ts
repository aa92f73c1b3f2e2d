import { describe, expect, test } from 'vitest';
import { toResultView } from '#server/console/call-server';
import { exactJson } from '#server/tools/exact-json';
import { laidOutJson, toolDefinition } from '#server/tools/definition';

describe('a tool definition', () => {
  const tool = { name: 'echo', description: 'Echoes.', inputSchema: { type: 'object', a: 1 } };
  const digest = (but: object) => toolDefinition({ ...tool, ...but })?.digest;

  test('the order of members makes no difference', () => {
    const turned = { inputSchema: { a: 1, type: 'object' }, description: 'Echoes.', name: 'echo' };

    expect(toolDefinition(turned)?.digest).toBe(toolDefinition(tool)?.digest);
  });

  test.each([
    { description: 'Echoes!' },
    { title: 'Echo' },
    { inputSchema: { type: 'object', a: 2 } },
    { inputSchema: { type: 'object', a: '1' } },
    { outputSchema: {} },
    { annotations: { readOnlyHint: true } },
    { _meta: { ui: { resourceUri: 'ui://other/page' } } },
    { icons: [] },
    { icons: [{ src: 'https://example.com/icon.png' }] },
    { execution: { taskSupport: 'required' } },
    { unknown: null },
    JSON.parse('{ "__proto__": { "description": "Lies." } }'),
  ])('110: %j is another tool, and its difference is readable', (but) => {
    const [before, after] = [toolDefinition(tool), toolDefinition({ ...tool, ...but })];

    expect(after?.digest).not.toBe(before?.digest);
    expect(after?.text).not.toBe(before?.text);
  });

  test('110: a difference deep inside any member makes another tool', () => {
    const of = (uri: string) => digest({ _meta: { a: [{ b: [{ uri }] }] } });

    expect(of('ui://one')).not.toBe(of('ui://other'));
  });

  test.each([
    ['9007199254740992', '9007199254740993'],
    ['0.1', '0.10000000000000000001'],
    ['1e400', '-1e400'],
    ['1e400', 'null'],
    ['0', '-0'],
  ])('110: %s and %s make two tools, and people can read why', (one, other) => {
    const of = (number: string) =>
      toolDefinition(exactJson(`{"name":"pay","inputSchema":{"a":[{"maximum":${number}}]}}`));

    expect(of(one)?.digest).not.toBe(of(other)?.digest);
    expect(of(one)?.text).toContain(`"maximum": ${one}`);
    expect(of(other)?.text).toContain(`"maximum": ${other}`);
  });

  test('a name that is too long is not accepted', () => {
    expect(toolDefinition({ ...tool, name: 'x'.repeat(200) })).toBeDefined();
    expect(toolDefinition({ ...tool, name: 'x'.repeat(201) })).toBeUndefined();
  });

  test.each(['a\0', 'a\ud800'])(
    'a name that databases store differently, %j, is not accepted',
    (name) => {
      expect(toolDefinition({ ...tool, name })).toBeUndefined();
    },
  );

  test.each([undefined, null, 'echo', {}, { name: '' }, { name: 1 }])('%j is no tool', (value) => {
    expect(toolDefinition(value)).toBeUndefined();
  });

  test('a long definition is cut for people, and still differs by its end', () => {
    const long = (end: string) =>
      toolDefinition({ ...tool, description: 'x'.repeat(99_999) + end });

    expect(long('a')?.text.length).toBeLessThan(17_000);
    expect(long('a')?.digest).not.toBe(long('b')?.digest);
  });
});

describe('JSON for people to read', () => {
  test.each([
    [null],
    ['a "text"\n'],
    [-1.5],
    [[]],
    [{}],
    [[[], {}, [1, 'b', [null]]]],
    [{ b: { d: [true, { e: 1 }], c: '' }, a: undefined, 'x"y': {} }],
  ])('%j is formatted as by JSON.stringify', (value) => {
    expect(laidOutJson(value, 1000)).toBe(JSON.stringify(value, undefined, 2));
  });

  test('members are in the order of their names on request', () => {
    const value = { b: [{ z: 1, y: 2 }], a: 1 };

    expect(laidOutJson(value, 1000, { sorted: true })).toBe(
      JSON.stringify({ a: 1, b: [{ y: 2, z: 1 }] }, undefined, 2),
    );
  });

  /** A list of `width` numbers within `depth` lists. */
  const deepList = (depth: number, width: number): unknown =>
    JSON.parse('['.repeat(depth) + Array(width).fill('1').join(',') + ']'.repeat(depth));

  test.each([
    ['is nested deeply', deepList(20_000, 1)],
    ['is wide, deep within', deepList(60, 100_000)],
  ])('a long text that %s is cut after its beginning', (_what, value) => {
    const text = laidOutJson(value, 1000);

    expect(text.length).toBeGreaterThan(1000);
    expect(text.length).toBeLessThan(5000);
    expect(laidOutJson(value, 2000).startsWith(text.slice(0, 1000))).toBe(true);
  });

  test('an answer nested without end is shown by its beginning', () => {
    const result = { content: [], structuredContent: deepList(20_000, 1) };
    const { parts } = toResultView({ outcome: 'result', result });

    expect(parts).toMatchObject([{ title: 'Structured content', isCut: true }]);
  });

  test('tools differ by what their shown text omits, however deep', () => {
    const tool = (last: number) => {
      const inputSchema = { type: 'object', x: deepList(50, 9000), y: last };
      return toolDefinition({ name: 'deep', inputSchema });
    };

    expect(tool(1)?.text.endsWith('…')).toBe(true);
    expect(tool(1)?.text).toBe(tool(2)?.text);
    expect(tool(1)?.digest).not.toBe(tool(2)?.digest);
  });
});
