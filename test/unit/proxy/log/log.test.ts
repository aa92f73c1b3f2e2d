import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';

test('log: lines below the configured level are not written', () => {
  const lines: string[] = [];
  const log = jsonLinesLog('warn', (line) => lines.push(line));

  log.info('quiet');
  log.warn('loud', { status: 502 });

  expect(lines.map((line): unknown => JSON.parse(line))).toEqual([
    { time: expect.any(String), level: 'warn', event: 'loud', status: 502 },
  ]);
});
