import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { freePort } from '#support/loopback';
import { patient } from '#support/patient';
import { openStores } from '#server/app/stores';
import { recordCalls } from '#support/made-calls';
import { runProgram, startProgram } from '#support/processes';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { serverLauncher } from '#support/programs';

const launcher = serverLauncher;
const run = (...args: string[]) => runProgram(process.execPath, { args: [launcher, ...args] });
/** Runs a command in `cwd`, with an environment that names no data folder unless `env` does. */
const runIn = (cwd: string, args: string[], env: Record<string, string> = {}) =>
  runProgram(process.execPath, {
    args: [launcher, ...args],
    cwd,
    env: { LATCHKEY_DATA_DIR: undefined, ...env },
  });

let folder: TemporaryFolder;
beforeAll(async () => {
  folder = await temporaryFolder('commands');
});
afterAll(() => folder[Symbol.asyncDispose]());

test('data folder: a mistyped one is an error and is not created', async () => {
  const dataDir = join(folder.path, 'mistyped');

  const { code, stderr } = await run('key', 'list', 'acme', '--data-dir', dataDir);

  expect(code).toBe(1);
  expect(stderr).toContain(`there is no database in ${dataDir}`);
  expect(stderr).toMatch(/^hint: .*--data-dir or LATCHKEY_DATA_DIR.*latchkey-server start/m);
  expect(existsSync(dataDir)).toBe(false);
});

test('data folder: creating the first organization creates it, and then every command works there', async () => {
  const dataDir = join(folder.path, 'begun');

  const made = await run('organization', 'create', 'acme', '--data-dir', dataDir);
  const listed = await run('key', 'list', 'acme', '--data-dir', dataDir);

  expect([made.code, listed.code]).toEqual([0, 0]);
  expect(made.stderr).toBe(`created a new database in ${dataDir}\n`);
  expect(listed.stderr).toBe(`data folder: ${dataDir}\n`);
  expect(listed.stdout).toContain('no API keys yet');
});

test.each([
  'organization create acme',
  'user create dana@example.com --organization acme --role owner',
  'signing-key rotate',
  'backup latchkey.backup',
])('data folder: %s creates no database where no folder was named', async (line) => {
  await using place = await temporaryFolder('elsewhere');

  const { code, stdout, stderr } = await runIn(place.path, line.split(' '));

  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(`there is no database in ${join(place.path, 'data')}`);
  expect(stderr).toMatch(/^hint: .*--data-dir or LATCHKEY_DATA_DIR/m);
  expect(await readdir(place.path)).toEqual([]);
});

test('data folder: an empty database file counts as none', async () => {
  await using place = await temporaryFolder('hollow');
  await mkdir(join(place.path, 'data'));
  await writeFile(join(place.path, 'data', 'latchkey.db'), '');

  const { code, stderr } = await runIn(place.path, ['organization', 'list']);

  expect(code).toBe(1);
  expect(stderr).toContain('there is no database');
});

test('data folder: one from the environment is created with the first organization, and named on stderr', async () => {
  await using place = await temporaryFolder('named');
  const env = { LATCHKEY_DATA_DIR: 'kept' };
  const words = ['organization', 'create', 'acme', '--json'];

  const first = await runIn(place.path, words, env);
  const second = await runIn(place.path, ['organization', 'list', '--json'], env);

  expect(first.stderr).toBe(`created a new database in ${join(place.path, 'kept')}\n`);
  expect(JSON.parse(first.stdout)).toMatchObject({ name: 'acme' });
  expect(second.stderr).toBe(`data folder: ${join(place.path, 'kept')}\n`);
  expect(JSON.parse(second.stdout)).toMatchObject([{ name: 'acme' }]);
});

test('data folder: without one commands use the database of a server that was started without one', async () => {
  await using place = await temporaryFolder('usual');
  const env = { LATCHKEY_DATA_DIR: undefined };
  await using server = startProgram(process.execPath, {
    args: [launcher, 'start', '--port', '0'],
    cwd: place.path,
    env,
  });
  await server.line(/^listening on /m);

  const made = await runIn(place.path, ['organization', 'create', 'acme']);

  expect(server.stdout).toContain(`data folder: ${join(place.path, 'data')} (new)\n`);
  expect([made.code, made.stderr]).toEqual([0, `data folder: ${join(place.path, 'data')}\n`]);
});

test.skipIf(process.platform !== 'linux').each([
  [undefined, ['--max-semi-space-size=8', '--min-semi-space-size=8']],
  ['--max-semi-space-size=32', []],
])(
  'start: with NODE_OPTIONS %s the memory for short-lived objects is limited by %s',
  async (nodeOptions, added) => {
    await using place = await temporaryFolder('memory');
    await using server = startProgram(process.execPath, {
      args: [launcher, 'start', '--port', '0'],
      cwd: place.path,
      env: { LATCHKEY_DATA_DIR: undefined, NODE_OPTIONS: nodeOptions },
    });
    await server.line(/^listening on /m);

    const running = readFileSync(`/proc/${server.pid}/cmdline`, 'utf8').split('\0');

    expect(running.filter((word) => word.includes('semi-space'))).toEqual(added);
    expect(await server.end()).toMatchObject({ code: 0 });
  },
);

test('start: compiled code is written while the server runs', async () => {
  await using place = await temporaryFolder('compile-cache');
  const cache = join(place.path, 'compile-cache');
  await using server = startProgram(process.execPath, {
    args: [launcher, 'start', '--port', '0'],
    cwd: place.path,
    env: { LATCHKEY_DATA_DIR: undefined, NODE_COMPILE_CACHE: cache },
  });
  await server.line(/^listening on /m);

  const written = async () => (await readdir(cache, { recursive: true })).length;
  await expect.poll(written, patient).toBeGreaterThan(10);
});

const notPretenured = '--no-allocation-site-pretenuring';
test.each([
  ['grows by three quarters', [], ['--heap-growing-percent=75', notPretenured]],
  ['grows as the operator says', ['--heap-growing-percent=50'], [notPretenured]],
  [
    'gets what V8 chooses, if the operator says so',
    ['--allocation-site-pretenuring'],
    ['--heap-growing-percent=75'],
  ],
])('start: memory for long-lived objects %s', async (_, options, set) => {
  await using place = await temporaryFolder('memory');
  const spy = join(place.path, 'spy.mjs');
  await writeFile(
    spy,
    `import v8 from 'node:v8';
     const set = v8.setFlagsFromString;
     v8.setFlagsFromString = (flag) => { process.stdout.write('set ' + flag + '\\n'); set(flag); };`,
  );
  await using server = startProgram(process.execPath, {
    args: [...options, launcher, 'start', '--port', '0'],
    cwd: place.path,
    env: { LATCHKEY_DATA_DIR: undefined, NODE_OPTIONS: `--import=${spy}` },
  });
  await server.line(/^listening on /m);

  expect([...server.stdout.matchAll(/^set (.*)$/gm)].map(([, flag]) => flag)).toEqual(set);
  expect(await server.end()).toMatchObject({ code: 0 });
});

test.each([
  [['server', '--help'], 0, 'server create ORG/SERVER'],
  [['server', '-h'], 0, 'server create ORG/SERVER'],
  [['server', 'list', '--help'], 0, 'usage: latchkey-server server list ORG'],
  [['--help'], 0, 'usage: latchkey-server COMMAND'],
  [['servers', '--help'], 2, "'servers' is not a command"],
])('command line: %j answers with %i: %s', async (words, code, told) => {
  const answer = await run(...words);

  expect(answer.code).toBe(code);
  expect(answer.stdout + answer.stderr).toContain(told);
});

test('server create: a URL that nothing answers is named in a hint, and the server is created', async () => {
  const place = ['--data-dir', join(folder.path, 'dead')];
  const host = `127.0.0.1:${await freePort()}`;
  await run('organization', 'create', 'acme', ...place);
  const create = ['server', 'create', 'acme/sales', '--http-url', `http://${host}/mcp`];

  const { code, stdout } = await run(...create, ...place);
  const listed = await run('server', 'list', 'acme', ...place);

  expect(code).toBe(0);
  expect(stdout).toContain(
    `hint: the MCP server did not pass a test: connection refused at ${host}\n`,
  );
  expect(listed.stdout).toContain('acme/sales');
});

test('call list --follow ends quietly when its reader disconnects', async () => {
  const dataDir = join(folder.path, 'followed');
  await run('organization', 'create', 'acme', '--data-dir', dataDir);
  const stores = await openStores(dataDir);
  const program = `"${process.execPath}" "${launcher}" call list acme --follow --data-dir "${dataDir}"`;
  const script = `${program} | head -n 1; echo "ended with \${PIPESTATUS[0]}"`;
  await using following = startProgram('bash', { args: ['-c', script] });

  await vi.waitFor(async () => {
    await recordCalls(stores.db, Date.now() - 4000, [{}]);
    expect(following.stdout).toContain('ended with');
  }, patient);
  await stores.close();

  expect(following.stdout).toMatch(/^\{"at":"[^"]*Z".*\}\nended with 0\n$/);
  expect(following.stderr).toBe(`data folder: ${dataDir}\n`);
});
