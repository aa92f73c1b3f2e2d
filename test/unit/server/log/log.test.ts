import { expect, test } from 'vitest';
import { jsonLog } from '#server/log/log';

const random = 'abcdefghijklmnopqrstuvwxyz0123456789';

function logged(log: (line: ReturnType<typeof jsonLog>) => void): string {
  let text = '';
  log(jsonLog('info', { write: (line) => (text += line) }));
  return text;
}

test.each([
  ['deep inside', { a: { b: [{ c: `secret_${random}` }] } }],
  ['in the message of an error', { err: new Error(`no such key mcp_${random}`) }],
  ['in the cause of an error', { err: new Error('x', { cause: new Error(`rt_${random}`) }) }],
])('a line of the log shows no secret: %s', (_, member) => {
  const line = logged((log) => log.info(member, 'said'));

  expect(line).toContain('[redacted]');
  expect(line).not.toContain(random);
  expect(JSON.parse(line)).toMatchObject({ msg: 'said', level: 30 });
});

test('a line of the log shows no secret of its message', () => {
  expect(logged((log) => log.info(`got mcp_${random}`))).toContain('got mcp_[redacted]');
});
