import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { runProgram } from '#support/processes';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const launcher = join(import.meta.dirname, '../../server/bin/latchkey-server.js');
const run = (...args: string[]) => runProgram(process.execPath, { args: [launcher, ...args] });

let folder: TemporaryFolder;
beforeAll(async () => {
  folder = await temporaryFolder('commands');
});
afterAll(() => folder[Symbol.asyncDispose]());

test('a mistyped data folder is said to be none, and stays none', async () => {
  const dataDir = join(folder.path, 'mistyped');

  const { code, stderr } = await run('key', 'list', 'acme', '--data-dir', dataDir);

  expect(code).toBe(1);
  expect(stderr).toContain(`there is no database in ${dataDir}`);
  expect(stderr).toMatch(/^hint: .*--data-dir.*organization create ORG$/m);
  expect(existsSync(dataDir)).toBe(false);
});

test('the first organization begins a data folder, and every other command works there then', async () => {
  const dataDir = join(folder.path, 'begun');

  const made = await run('organization', 'create', 'acme', '--data-dir', dataDir);
  const listed = await run('key', 'list', 'acme', '--data-dir', dataDir);

  expect([made.code, listed.code]).toEqual([0, 0]);
  expect(listed.stdout).toContain('no MCP keys yet');
});

test.each([
  [['server', '--help'], 0, 'server create ORG/SERVER'],
  [['server', '-h'], 0, 'server create ORG/SERVER'],
  [['server', 'list', '--help'], 0, 'usage: latchkey-server server list ORG'],
  [['--help'], 0, 'usage: latchkey-server COMMAND'],
  [['servers', '--help'], 2, "'servers' is not a command"],
])('%j answers with %i: %s', async (words, code, told) => {
  const answer = await run(...words);

  expect(answer.code).toBe(code);
  expect(answer.stdout + answer.stderr).toContain(told);
});
