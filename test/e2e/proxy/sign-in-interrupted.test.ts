import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { browserHandover, type BrowserHandover } from '#support/browser-handover';
import { allow, signInTo } from '#support/consenting-person';
import { cookieBrowser } from '#support/cookie-browser';
import { countedServer } from '#support/counted-server';
import { startProgram } from '#support/processes';
import { launcher, proxyProcess } from '#support/proxy-process';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const dana = { email: 'dana@example.com', password: 'correct horse battery staple' };

let server: ServerProcess;
let home: TemporaryFolder;
let browser: BrowserHandover;
let env: Record<string, string>;
beforeAll(async () => {
  home = await temporaryFolder('home');
  browser = await browserHandover();
  server = await serverProcess({ args: ['--demo'] });
  const add = ['user', 'create', dana.email, '--organization', 'demo', '--role', 'member'];
  await server.command(add, `${dana.password}\n`);
  const keyFile = join(home.path, 'key');
  writeFileSync(keyFile, 'k'.repeat(44), { mode: 0o600 });
  env = {
    ...browser.env,
    HOME: home.path,
    LATCHKEY_STATE_DIR: home.path,
    LATCHKEY_SECRET_STORE: 'file',
    LATCHKEY_SECRET_STORE_KEY_FILE: keyFile,
  };
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await browser[Symbol.asyncDispose]();
  await home[Symbol.asyncDispose]();
});

const login = (url: string) =>
  startProgram(process.execPath, { args: [launcher, 'login', url], env });

test('login: a server restart while the page is open, and one before the first call, lose nothing', async () => {
  const url = `${server.base}/mcp/demo/library`;
  await using running = login(url);
  const cookies = cookieBrowser();
  const page = await cookies.follow(await browser.next());
  const back = await allow(page, dana, { beforeDeciding: () => server.restart() });
  const told = await (await cookies.open(back)).text();
  const { code } = await running.exited;
  await server.restart();
  await using proxy = proxyProcess({ args: [url], env });
  await proxy.handshake();
  const before = await proxy.request('tools/list');
  await server.restart();
  const after = await proxy.request('tools/list');

  expect({ code, stderr: running.stderr }).toMatchObject({ code: 0 });
  expect(told).toContain('You are signed in');
  expect(before.result?.['tools']).toEqual(after.result?.['tools']);
  expect(after.result?.['tools']).toBeTruthy();
});

test('login: Ctrl-C ends one that waits for the browser, with one line', async () => {
  await using running = login(`${server.base}/mcp/demo/library`);
  await browser.next();
  await running.line(/press Ctrl-C to cancel/, { stream: 'stderr' });
  running.kill('SIGINT');

  expect(await running.exited).toMatchObject({ code: 1 });
  expect(running.stderr.split('\n').at(-2)).toBe(
    'latchkey: not signed in: the sign-in was cancelled',
  );
});

test('login: Ctrl-C ends it immediately even while the server does not answer', async () => {
  let arrived = () => {};
  const asked = new Promise<void>((resolve) => (arrived = resolve));
  await using silent = await countedServer(() => arrived());
  await using running = login(`${silent.origin}/mcp/acme/sales`);
  await asked;
  running.kill('SIGINT');
  const { code } = await running.exited;

  expect(code).toBe(1);
  expect(running.stderr).toBe('latchkey: not signed in: the sign-in was cancelled\n');
});

test('login: a URL that is not a resource of the server is an error that names the right URL', async () => {
  const url = `${server.base}/mcp/demo`;
  await using running = login(url);
  const cookies = cookieBrowser();
  const { answer } = await signInTo(await cookies.follow(await browser.next()), dana);
  await cookies.open(answer.headers.get('location') ?? '');

  expect(await running.exited).toMatchObject({ code: 1 });
  expect(running.stderr).toContain(`resource must be ${server.base}/mcp/ORGANIZATION/SERVER`);
  expect(running.stderr).toContain(`hint: check the URL of ${url}`);
});
