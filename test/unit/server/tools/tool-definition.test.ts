import { expect, test } from 'vitest';
import { toolDefinition } from '#server/tools/tool-definition';

const tool = { name: 'echo', description: 'Echoes.', inputSchema: { type: 'object', a: 1 } };
const digest = (but: object) => toolDefinition({ ...tool, ...but })?.digest;

test('the order of members is no difference, and neither is what no assistant acts on', () => {
  const turned = { inputSchema: { a: 1, type: 'object' }, description: 'Echoes.', name: 'echo' };

  expect(toolDefinition(turned)?.digest).toBe(toolDefinition(tool)?.digest);
  expect(digest({ icons: [], _meta: { x: 1 } })).toBe(digest({}));
});

test.each([
  { description: 'Echoes!' },
  { title: 'Echo' },
  { inputSchema: { type: 'object', a: 2 } },
  { inputSchema: { type: 'object', a: '1' } },
  { outputSchema: {} },
  { annotations: { readOnlyHint: true } },
])('%j is another tool', (but) => {
  expect(digest(but)).not.toBe(digest({}));
});

test('a name that is too long to be accepted is no tool’s', () => {
  expect(toolDefinition({ ...tool, name: 'x'.repeat(1000) })).toBeDefined();
  expect(toolDefinition({ ...tool, name: 'x'.repeat(1001) })).toBeUndefined();
});

test.each([undefined, null, 'echo', {}, { name: '' }, { name: 1 }])('%j is no tool', (value) => {
  expect(toolDefinition(value)).toBeUndefined();
});

test('a long definition is cut for people, and still told apart by its end', () => {
  const long = (end: string) => toolDefinition({ ...tool, description: 'x'.repeat(99_999) + end });

  expect(long('a')?.text.length).toBeLessThan(17_000);
  expect(long('a')?.digest).not.toBe(long('b')?.digest);
});
