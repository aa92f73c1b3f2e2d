import { expect, test } from 'vitest';

import { csvSeparator, readCsv } from '#server/model/csv';

const cells = (text: string) => readCsv(text).records.map((record) => record.cells);

test('csv: cells are trimmed, and empty lines are skipped', () => {
  expect(cells('a, b ,c\n\n , ,\nd')).toEqual([['a', 'b', 'c'], ['d']]);
});

test('csv: a quoted cell keeps separators, line breaks, spaces and doubled quotation marks', () => {
  expect(cells('"a,b"," c ","d ""e""","f\r\ng"')).toEqual([['a,b', ' c ', 'd "e"', 'f\ng']]);
});

test('csv: a quotation mark within a cell is part of it', () => {
  expect(cells('5" pipe,x')).toEqual([['5" pipe', 'x']]);
});

test('csv: a byte order mark and line ends of every kind are understood', () => {
  expect(cells('\ufeffa\r\nb\rc\nd')).toEqual([['a'], ['b'], ['c'], ['d']]);
});

test('csv: a record has the number of the line that it begins in', () => {
  const { records } = readCsv('a\n\n"b\nc"\nd');

  expect(records.map(({ line }) => line)).toEqual([1, 3, 5]);
});

test('csv: a quotation mark that is never closed is reported with its line', () => {
  expect(readCsv('a\n"b\nc')).toMatchObject({ open: 2 });
  expect(readCsv('a\n"b"')).toMatchObject({ open: undefined });
});

test.each([
  ['a;b\nc;d', ';'],
  ['a;b,c', ','],
  ['a\tb;c', '\t'],
  ['"a,b";c', ';'],
  ['a', ','],
])('csv: %j is separated by %j', (text, separator) => {
  expect(csvSeparator(text)).toBe(separator);
});

test('187: a hostile file is read in linear time', () => {
  const { records, open } = readCsv('"a'.repeat(500_000));

  expect([records.length, open]).toEqual([1, undefined]);
});
