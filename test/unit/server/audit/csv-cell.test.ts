import { expect, test } from 'vitest';

import { csvCell } from '#server/audit/csv-cell';

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
  ['\n-1', `"'\n-1"`],
  ['\tx', `"'\tx"`],
])('%j is the cell %s', (text, cell) => {
  expect(csvCell(text)).toBe(cell);
});
