import { expect, test } from 'vitest';

import { shownResult } from '#server/console/shown-result';
import { laidOutJson } from '#server/gateway/laid-out-json';
import { toolDefinition } from '#server/tools/tool-definition';

test.each([
  [null],
  ['a "text"\n'],
  [-1.5],
  [[]],
  [{}],
  [[[], {}, [1, 'b', [null]]]],
  [{ b: { d: [true, { e: 1 }], c: '' }, a: undefined, 'x"y': {} }],
])('%j is laid out as JSON.stringify does', (value) => {
  expect(laidOutJson(value, 1000)).toBe(JSON.stringify(value, undefined, 2));
});

test('members come in the order of their names where that is asked for', () => {
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
])('what %s is begun alone, as it would have been whole', (_what, value) => {
  const text = laidOutJson(value, 1000);

  expect(text.length).toBeGreaterThan(1000);
  expect(text.length).toBeLessThan(5000);
  expect(laidOutJson(value, 2000).startsWith(text.slice(0, 1000))).toBe(true);
});

test('an answer nested without end is shown by its beginning', () => {
  const result = { content: [], structuredContent: deepList(20_000, 1) };
  const { parts } = shownResult({ outcome: 'result', result });

  expect(parts).toMatchObject([{ title: 'Structured content', isCut: true }]);
});

test('a tool is told apart by what its text leaves out, however deep', () => {
  const tool = (last: number) => {
    const inputSchema = { type: 'object', x: deepList(50, 9000), y: last };
    return toolDefinition({ name: 'deep', inputSchema });
  };

  expect(tool(1)?.text.endsWith('…')).toBe(true);
  expect(tool(1)?.text).toBe(tool(2)?.text);
  expect(tool(1)?.digest).not.toBe(tool(2)?.digest);
});
