import { expect, test } from 'vitest';
import { callWords } from '#server/pages/usage-words';

test.each([
  [0, '0'],
  [7, '7'],
  [999, '999'],
  [1000, '1,000'],
  [1234, '1,234'],
  [9009, '9,009'],
  [9999, '9,999'],
  [10_000, '10K'],
  [12_345, '12.3K'],
  [1_000_000, '1M'],
])('%s calls are %s', (calls, words) => {
  expect(callWords(calls)).toBe(words);
});
