import { expect, test } from 'vitest';
import { jsonLinesLog, redact } from '#proxy/log/log';

test.each([
  `secret_${'a'.repeat(36)}`,
  `pk_live_${'b'.repeat(36)}`,
  `mcp_${'c'.repeat(36)}`,
  `code_${'d'.repeat(36)}`,
  `rt_${'e'.repeat(36)}`,
  `pat_${'f'.repeat(36)}`,
  'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl',
])('log: %s never appears in a line', (secret) => {
  const lines: string[] = [];
  const log = jsonLinesLog('debug', (line) => lines.push(line));

  log.info('something', { reason: `sent ${secret}, and Authorization: Bearer abc.def-ghi` });

  expect(lines.join('')).not.toContain(secret);
  expect(lines.join('')).not.toContain('abc.def-ghi');
});

test.each([
  'client_secret=hunter22hunter',
  '"access_token":"hunter22hunter"',
  'refresh_token=hunter22hunter&x=y',
  "client_assertion: 'hunter22hunter'",
])('log: the value of %s is masked, whatever its shape', (text) => {
  expect(redact(text)).not.toContain('hunter22');
});

test('log: a known secret of any shape is removed, and ordinary words stay', () => {
  expect(redact('the tool mcp_tools said hunter22', ['hunter22'])).toBe(
    'the tool mcp_tools said …',
  );
});

test('log: a secret after an escaped line feed is masked, too', () => {
  const echoed = JSON.stringify(`said\nmcp_${'c'.repeat(36)}\neyJhbGciOiJFZERTQSJ9.e30.c2ln`);

  expect(redact(echoed)).toBe(JSON.stringify('said\nmcp_…\neyJ…'));
});

test('log: lines below the configured level are not written', () => {
  const lines: string[] = [];
  const log = jsonLinesLog('warn', (line) => lines.push(line));

  log.info('quiet');
  log.warn('loud', { status: 502 });

  expect(lines.map((line): unknown => JSON.parse(line))).toEqual([
    { time: expect.any(String), level: 'warn', event: 'loud', status: 502 },
  ]);
});
