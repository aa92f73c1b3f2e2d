import { chmodSync, existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { jsonLinesLog, openLogFile } from '#proxy/log/log';
import { temporaryFolder } from '#support/temporary-folder';

test('log file: lines are appended without secrets, in a file and folder that only the owner can read', async () => {
  await using folder = await temporaryFolder('log');
  const path = join(folder.path, 'new', 'latchkey.log');
  jsonLinesLog('warn', openLogFile(path)).warn('no answer', {
    authorization: 'Bearer abcdefgh12345',
  });
  jsonLinesLog('warn', openLogFile(path)).warn('again');

  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line).event)).toEqual(['no answer', 'again']);
  expect(lines.join()).not.toContain('abcdefgh12345');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder.path, 'new')).mode & 0o777).toBe(0o700);
});

test('log file: an existing file that others could read becomes private, and keeps its content', async () => {
  await using folder = await temporaryFolder('log');
  const path = join(folder.path, 'latchkey.log');
  writeFileSync(path, 'before\n');
  chmodSync(path, 0o644);
  openLogFile(path)('after\n');

  expect(readFileSync(path, 'utf8')).toBe('before\nafter\n');
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('log file: when the disk is full, only the line is lost', async () => {
  await using folder = await temporaryFolder('log');
  const path = join(folder.path, 'full');
  symlinkSync('/dev/full', path);
  const append = openLogFile(path);

  expect(() => append('lost\n')).not.toThrow();
});

test('log file: opening a folder is an error', async () => {
  await using folder = await temporaryFolder('log');

  expect(() => openLogFile(folder.path)).toThrow('EISDIR');
});

test.skipIf(!existsSync('/proc/self'))(
  'log file: in /proc, where nothing can be created, it is refused and does not hang',
  () => {
    expect(() => openLogFile('/proc/latchkey/log/latchkey.log')).toThrow('ENOENT');
  },
);

test('log file: a folder inside a file is refused', async () => {
  await using folder = await temporaryFolder('log');
  const file = join(folder.path, 'file');
  writeFileSync(file, '');

  expect(() => openLogFile(join(file, 'log', 'latchkey.log'))).toThrow('ENOTDIR');
});
