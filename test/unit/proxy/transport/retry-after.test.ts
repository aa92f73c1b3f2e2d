import { expect, test } from 'vitest';
import { retryAfterSeconds } from '#proxy/transport/retry-after';

const now = Date.parse('2026-11-20T09:00:00Z') / 1000;

test.each([
  ['7', 7],
  [' 0 ', 0],
  ['Fri, 20 Nov 2026 09:01:30 GMT', 90],
  ['Fri, 20 Nov 2026 08:00:00 GMT', 0],
  ['Friday, 20-Nov-26 09:00:10 GMT', 10],
  ['soon', undefined],
  ['-5', undefined],
  ['1.5', undefined],
  ['', undefined],
  [undefined, undefined],
])('Retry-After: %s is %s seconds', (header, seconds) => {
  expect(retryAfterSeconds(header, now)).toBe(seconds);
});
