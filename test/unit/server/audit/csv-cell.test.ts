import { expect, test } from 'vitest';
import { csvCell } from '#server/audit/export-audit';

test.each([
  ['key.create', '"key.create"'],
  ['', '""'],
  ['a "b", c', '"a ""b"", c"'],
  ['日本語', '"日本語"'],
  ['=1+1', `"'=1+1"`],
  ['+1', `"'+1"`],
  ['-1', `"'-1"`],
  ['@SUM(1)', `"'@SUM(1)"`],
  [' =1', `"' =1"`],
  ['＝1+1', `"'＝1+1"`],
  ['＠SUM(1)', `"'＠SUM(1)"`],
  ['\n-1', String.raw`"\u000a-1"`],
  ['\tx', String.raw`"\u0009x"`],
  ['\u001b[2J\u009b\u202e\u2028', String.raw`"\u001b[2J\u009b\u202e\u2028"`],
])('%j is the cell %s', (text, cell) => {
  expect(csvCell(text)).toBe(cell);
});
