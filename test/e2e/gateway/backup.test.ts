import {
  copyFile,
  mkdir,
  readFile,
  readdir,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { acmeServer, bearer } from '#support/acme-server';
import { startProgram } from '#support/processes';
import { launcher, runningServer } from '#support/running-server';
import { temporaryFolder } from '#support/temporary-folder';

const server = await acmeServer();
const folder = await temporaryFolder('backup');
const file = join(folder.path, 'latchkey.backup');
const masterKeyFile = join(server.dataDir, 'master.key');
const { key } = await server.key();
const token = await server.token(await server.client());

beforeAll(() => server.command('backup', file));
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

/** Runs `restore` with `typed` on its stdin. Returns its exit code and its output. */
async function restore(dataDir: string, args: readonly string[] = [], typed = '') {
  const words = [launcher, 'restore', ...args, '--data-dir', dataDir];
  const program = startProgram(process.execPath, { args: words });
  program.write(typed);
  program.endInput();
  const { code } = await program.exited;
  return { code, stdout: program.stdout, stderr: program.stderr };
}

const empty = async (name: string) => {
  const path = join(folder.path, name);
  await mkdir(path);
  return path;
};

test('backup: of a running server, one complete file that only its owner can read', async () => {
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readdir(folder.path)).toContain('latchkey.backup');
  expect((await readdir(folder.path)).filter((name) => name.includes('latchkey.backup.'))).toEqual(
    [],
  );
  await expect(server.command('backup', file)).rejects.toThrow('already exists');
});

test('restore: refused without the right master key', async () => {
  const dataDir = await empty('keyless');
  const other = Buffer.alloc(32, 1).toString('base64url');

  const none = await restore(dataDir, [file]);
  const wrong = await restore(dataDir, [file], other);
  await writeFile(join(dataDir, 'other.key'), other, { mode: 0o600 });
  const named = await restore(dataDir, [file, '--master-key-file', join(dataDir, 'other.key')]);

  expect([none.code, wrong.code, named.code]).toEqual([1, 1, 1]);
  expect(none.stderr + wrong.stderr).toContain('the master key does not match this backup');
  expect(named.stderr).toContain('does not match this backup');
  expect(wrong.stderr).not.toContain(other);
  expect(await readdir(dataDir)).toEqual(['other.key']);
});

test('restore: an existing database is replaced only with --force, and kept aside', async () => {
  await using old = await runningServer();
  const running = await restore(old.dataDir, [file, '--force', '--master-key-file', masterKeyFile]);
  await old.program.end();

  const unforced = await restore(old.dataDir, [file, '--master-key-file', masterKeyFile]);
  const forced = await restore(old.dataDir, [file, '--force', '--master-key-file', masterKeyFile]);

  expect([running.code, unforced.code, forced.code]).toEqual([1, 1, 0]);
  expect(running.stderr).toContain('stop the server');
  expect(unforced.stderr).toContain('--force');
  expect(forced.stdout).toContain(`latchkey-server start --master-key-file ${masterKeyFile}`);
  const files = await readdir(old.dataDir);
  expect(files).toEqual(expect.arrayContaining(['latchkey.db', 'latchkey.db.replaced-1']));
  expect(files.filter((name) => name.startsWith('restoring'))).toEqual([]);
});

test('restore: a file that is not a backup, or half of one, is refused and changes nothing', async () => {
  const dataDir = await empty('untouched');
  const text = join(folder.path, 'text');
  await writeFile(text, 'This is a letter and no database. '.repeat(200));
  const half = join(folder.path, 'half');
  await copyFile(file, half);
  await truncate(half, Math.floor((await stat(file)).size / 2));

  const answers = [];
  for (const name of [text, half, join(folder.path, 'absent')]) {
    answers.push(await restore(dataDir, [name], await readFile(masterKeyFile, 'utf8')));
  }

  expect(answers.map(({ code }) => code)).toEqual([1, 1, 1]);
  for (const { stderr } of answers) expect(stderr).toMatch(/hint: name/);
  expect(await readdir(dataDir)).toEqual([]);
  await rm(half);
});

test('restore: keys and tokens from before the backup are valid, and no later ones', async () => {
  const later = await server.key();
  const dataDir = await empty('restored');
  const answer = await restore(dataDir, [file], await readFile(masterKeyFile, 'utf8'));
  await server.program.end();
  const place = ['--port', String(server.port)];

  await using restored = await runningServer({ dataDir, args: place });
  const call = async (headers: Readonly<Record<string, string>>) => {
    const init = { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' };
    const json = { 'Content-Type': 'application/json' };
    const { status } = await restored.request('/mcp/acme/fixture', {
      ...init,
      headers: { ...json, ...headers },
    });
    return status;
  };

  expect(answer).toMatchObject({ code: 0, stderr: '' });
  expect(answer.stdout).toContain('revoke them again');
  expect((await stat(join(dataDir, 'master.key'))).mode & 0o777).toBe(0o600);
  expect(await call({ 'X-API-Key': key })).toBe(200);
  expect(await call(bearer(token))).toBe(200);
  expect(await call({ 'X-API-Key': later.key })).toBe(401);
});
