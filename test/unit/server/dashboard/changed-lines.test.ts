import { expect, test } from 'vitest';
import { changedLines } from '#server/dashboard/changed-lines';

const shown = (before: string, after: string) =>
  changedLines(before, after).map(({ sign, text }) => sign + text);

test('lines that stay stand beside those that went and came', () => {
  expect(shown('{\n  a\n  b\n}', '{\n  a\n  c\n}')).toEqual([' {', '   a', '−  b', '+  c', ' }']);
});

test('texts with little in common are shown one after the other', () => {
  const lines = (word: string) => Array.from({ length: 3_000 }, (_, i) => word + i).join('\n');
  const result = shown(lines('a'), lines('b'));

  expect(result).toHaveLength(6_000);
  expect([result[0], result[3_000]]).toEqual(['−a0', '+b0']);
});
