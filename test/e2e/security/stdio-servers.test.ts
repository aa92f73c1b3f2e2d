import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { mcpCall, rpc } from '#support/mcp-call';
import { runProgram } from '#support/processes';
import { runCommandInProcess } from '#support/run-command-in-process';
import { launcher, runningServer, type RunningServer } from '#support/running-server';
import { temporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

const child = join(import.meta.dirname, '../../support/local-server/stdio-child.ts');
const made = z.object({ id: z.string(), key: z.string() });
const stack = new AsyncDisposableStack();
let server: RunningServer;
let file: string;
let events: string;

beforeAll(async () => {
  const { path: dataDir } = stack.use(await temporaryFolder('stdio'));
  file = join(dataDir, 'stdio.json');
  events = join(dataDir, 'events');
  const command = {
    command: process.execPath,
    args: [child],
    env: { CHILD_EVENTS: events, OWN: 'its own' },
  };
  await writeFile(file, JSON.stringify({ servers: { 'acme/files': command } }), { mode: 0o600 });
  await runCommandInProcess(['organization', 'create', 'acme', '--data-dir', dataDir]);
  process.env['LATCHKEY_OIDC_NAME'] = 'of the server alone';
  server = stack.use(await runningServer({ dataDir, args: ['--stdio-servers', file] }));
});
afterAll(async () => {
  delete process.env['LATCHKEY_OIDC_NAME'];
  await stack.disposeAsync();
});

const makeKey = async () =>
  made.parse(await server.command('key', 'create', 'acme/files', '--name', 'k'));
const newKey = async () => (await makeKey()).key;
const call = (key: string, name: string, args: object = {}) =>
  mcpCall(`${server.base}/mcp/acme/files`, {
    key,
    body: rpc('tools/call', { name, arguments: args }),
  });

test('78: stdio server: a command of the operator serves it, in its own environment', async () => {
  const { status, text } = await call(await newKey(), 'environment');

  expect(status).toBe(200);
  expect(text).toContain('its own');
  expect(text).not.toContain('LATCHKEY');
  expect(text).not.toContain('of the server alone');
});

test('78: stdio server: two callers never share a child process', async () => {
  const before = await started();
  for (const key of [await newKey(), await newKey()]) {
    expect((await call(key, 'environment')).status).toBe(200);
  }
  const pids = (await started()).slice(before.length);

  expect(new Set(pids).size).toBeGreaterThanOrEqual(2);
});

test('78: stdio server: a caller’s child process ends when their key is revoked', async () => {
  const before = await started();
  const { id, key } = await makeKey();
  expect((await call(key, 'environment')).status).toBe(200);
  const pids = (await started()).slice(before.length);
  expect(pids.filter(isAlive)).toHaveLength(1);

  await server.command('key', 'revoke', id);

  await expect.poll(() => pids.filter(isAlive), patient).toEqual([]);
});

test('78: stdio server: only the operator can choose the command', async () => {
  const words = ['server', 'create', 'acme/other', '--stdio', 'true', '--data-dir', server.dataDir];
  const { code } = await runProgram(process.execPath, { args: [launcher, ...words] });
  expect(code).toBe(2);
  const url = [
    'server',
    'create',
    'acme/other',
    '--http-url',
    'stdio:',
    '--data-dir',
    server.dataDir,
  ];
  expect((await runProgram(process.execPath, { args: [launcher, ...url] })).code).toBe(2);
});

test('78: stdio server: no child process is left when the server stops', async () => {
  const pids = await started();
  await server.program.end();

  expect(pids.length).toBeGreaterThan(0);
  expect(pids.filter(isAlive)).toEqual([]);
});

test('78: stdio server: a file that others can write to is refused', async () => {
  await chmod(file, 0o622);
  const args = [launcher, 'start', '--port', '0', '--data-dir', server.dataDir];
  const { code, stderr } = await runProgram(process.execPath, {
    args: [...args, '--stdio-servers', file],
  });

  expect(code).toBe(2);
  expect(stderr).toContain('other users can write to');
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function started(): Promise<number[]> {
  const lines = (await readFile(events, 'utf8')).matchAll(/^started (\d+)$/gm);
  return [...lines].map(([, pid]) => Number(pid));
}
