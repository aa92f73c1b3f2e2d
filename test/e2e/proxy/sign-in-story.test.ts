import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { findOrganization } from '#server/db/organizations';
import { updateSettings } from '#server/db/settings';
import { browserHandover, type BrowserHandover } from '#support/browser-handover';
import { chromium } from '#support/chromium';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { everyCommandLine, filesBelow } from '#support/leaks';
import { nodesOfTests } from '#support/node-cluster';
import { runProgram, startProgram } from '#support/processes';
import { inherited } from '#support/programs';
import { launcher, proxyProcess } from '#support/proxy-process';
import { runningServer, type RunningServer } from '#support/running-server';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const email = 'dana@example.com';
const password = 'correct horse battery staple';
const count = { name: 'query', arguments: { sql: 'select count(*) as n from books' } };
const secretShape = /(?:secret|mcp|code|rt)_[0-9A-Za-z]{36}|eyJ[\w-]{10,}\.[\w-]+\.[\w-]+/g;

await suite(['keychain', 'browser'], 'signing in to the demo, without any preparation', () => {
  let session: KeychainSession;
  let home: TemporaryFolder;
  let server: RunningServer;
  let engine: Browser;
  let browser: BrowserHandover;
  /** Dana's browser: it stays signed in from the first login on. */
  let dana: Page;
  let url: string;
  let env: Record<string, string>;
  let setUpLink = '';
  let proxyLog = '';
  /** Everything that a command printed or a page showed. */
  let said = '';

  beforeAll(async () => {
    session = await keychainSession();
    home = await temporaryFolder('home');
    // The proxy uses the document that the server has about it, announced or not.
    const isolated = ['--no-client-metadata-documents', '--dynamic-registration'];
    server = await runningServer({ args: ['--demo', ...isolated] });
    url = `${server.base}/mcp/demo/library`;
    browser = await browserHandover();
    engine = await chromium();
    dana = await newPage();
    env = { ...session.env, ...browser.env, HOME: home.path, ...inherited };
  });
  afterAll(async () => {
    await engine.close();
    await browser[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    await session[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
  });

  const newPage = async () => {
    const context = await engine.newContext();
    context.setDefaultTimeout(60_000);
    return context.newPage();
  };
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
  const signIn = async (page: Page) => {
    await page.getByLabel('E-mail').fill(email);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await button(page, 'Sign in').click();
  };
  const latchkey = async (...args: string[]) => {
    const run = await runProgram(process.execPath, { args: [launcher, ...args], env });
    said += run.stdout + run.stderr;
    return run;
  };
  /** Decides on the page that a program opens. Returns its heading, and the text of the last page. */
  const decide = async (answer: 'Allow' | 'Deny') => {
    await dana.goto(await browser.next());
    if (new URL(dana.url()).pathname === '/sign-in') await signIn(dana);
    const asked = await dana.getByRole('heading', { name: /^Connect / }).textContent();
    await button(dana, answer).click();
    await dana.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    const page = (await dana.locator('main').textContent()) ?? '';
    said += page;
    return { asked, page };
  };
  const login = async (answer: 'Allow' | 'Deny') => {
    const running = latchkey('login', url);
    const seen = await decide(answer);
    return { ...(await running), ...seen };
  };
  const status = async () => {
    const { stdout } = await latchkey('status', url, '--json');
    return JSON.parse(stdout).connections[0];
  };
  const connected = async (more: Record<string, string> = {}) => {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [launcher, url],
      env: { ...env, ...more },
      stderr: 'pipe',
    });
    transport.stderr?.on('data', (text) => (proxyLog += String(text)));
    const client = new Client({ name: 'assistant', version: '1' });
    await client.connect(transport);
    return client;
  };
  /** What the keychain holds, as any program of this person may read it. */
  const kept = async () => {
    const { stdout } = await runProgram(process.execPath, {
      args: ['--input-type=module', '-e', listCredentials],
      env,
      cwd: join(import.meta.dirname, '../../../proxy'),
    });
    const [accessToken = ''] = /eyJ[\w-]+\.[\w-]+\.[\w-]+/.exec(stdout) ?? [];
    const [refreshToken = ''] = /rt_[0-9A-Za-z]{36}/.exec(stdout) ?? [];
    return { accessToken, refreshToken };
  };
  /** The routes that the server was asked for while `act` ran; in their order, if it is one process. */
  const routesOf = async (act: () => Promise<unknown>): Promise<string[]> => {
    const before = new Set((await flushed()).split('\n'));
    await act();
    const lines = (await flushed()).split('\n').filter((line) => !before.has(line));
    return lines
      .flatMap((line) => /"route":"([^"]+)"/.exec(line)?.[1] ?? [])
      .filter((route) => route !== '/healthz');
  };
  /** The server's log up to now: each process writes it in batches, in order. */
  const flushed = async (): Promise<string> => {
    for (let node = 1; node <= nodesOfTests; node += 1) {
      const here = { headers: { 'x-test-node': `node-${node}` } };
      const { headers } = await server.request('/healthz', here);
      const id = headers.get('x-request-id') ?? '';
      await server.program.line(new RegExp(`"id":"${id}"`), { stream: 'stderr' });
    }
    return server.program.stderr;
  };

  test('the printed link creates the owner of the demo', async () => {
    setUpLink = /http:\S+\/set-up\/\S+/.exec(server.program.stdout)?.[0] ?? '';
    const page = await newPage();
    await page.goto(setUpLink);
    await page.getByLabel('E-mail').fill(email);
    await page.getByLabel('New password', { exact: true }).fill(password);
    await page.getByLabel('Confirm new password').fill(password);
    await button(page, 'Create account').click();

    await page.waitForURL('**/dashboard/*');
    const text = await page.locator('main').textContent();
    await page.context().close();

    expect(text).toContain('First steps');
  });

  test('status and a first call say that no one is signed in, and what to do', async () => {
    const told = await latchkey('status', url);
    await using proxy = proxyProcess({ args: [url, '--sign-in', 'never'], env });
    await proxy.handshake();
    const { error } = await proxy.request('tools/call', count);

    expect(told).toMatchObject({ code: 0 });
    expect(told.stdout).toContain(`hint: latchkey login ${url}`);
    expect(error?.message).toContain(`latchkey login ${url}`);
  });

  test('a denied consent is reported in the terminal and on the page, and nothing is stored', async () => {
    const { code, stdout, stderr, page } = await login('Deny');

    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('latchkey: not signed in: ');
    expect(stderr).toContain(`hint: latchkey login ${url}`);
    expect(page).toContain('You are not signed in');
    expect(await kept()).toEqual({ accessToken: '', refreshToken: '' });
  });

  test('login opens the page, Dana allows it, and both sides confirm it', async () => {
    const { code, stdout, asked, page } = await login('Allow');

    expect(code).toBe(0);
    expect(stdout).toContain(`signed in to ${url}`);
    expect(asked).toContain('Latchkey');
    expect(page).toContain('You are signed in');
    expect(await status()).toMatchObject({
      state: 'ready',
      as: 'person',
      issuer: server.base,
      scope: 'mcp:tools:read mcp:tools:execute mcp:resources:read',
      renewable: true,
    });
    expect((await kept()).accessToken).not.toBe('');
  });

  test('an assistant lists and calls tools, and no command line contains a secret', async () => {
    const client = await connected();
    const { tools } = await client.listTools();
    const answer = await client.callTool(count);
    const commandLines = everyCommandLine();
    await client.close();
    const { accessToken, refreshToken } = await kept();

    expect(tools.map(({ name }) => name)).toContain('query');
    expect(JSON.stringify(answer)).toMatch(/\d{3,}/);
    expect(commandLines).toContain(url);
    for (const secret of [accessToken, refreshToken, password]) {
      expect(secret).not.toBe('');
      expect(commandLines).not.toContain(secret);
    }
  });

  test('another process starts from the stored token without any other request', async () => {
    const routes = await routesOf(async () => {
      const client = await connected();
      await client.listTools();
      await client.close();
    });

    // The proxy answers from its cache what a busy server has not answered yet.
    expect(routes.length).toBeGreaterThan(0);
    expect([...new Set(routes)]).toEqual(['/mcp/:organization/:server']);
  });

  test('a token that is revoked early is renewed once, unnoticed by two processes', async () => {
    const clients = [await connected(), await connected()];
    const before = await kept();
    const revoked = await server.post('/api/oauth/revoke', {
      token: before.accessToken,
      client_id: `${server.base}/oauth/clients/latchkey.json`,
    });
    const routes = await routesOf(() => Promise.all(clients.map((each) => each.callTool(count))));
    await Promise.all(clients.map((each) => each.close()));
    const after = await kept();

    expect(revoked.status).toBe(200);
    expect(routes.filter((route) => route === '/api/oauth/token')).toHaveLength(1);
    expect(after.accessToken).not.toBe(before.accessToken);
    expect(after.refreshToken).not.toBe(before.refreshToken);
  });

  test('while the organization has turned off the proxy, calls say so, and work again without a sign-in', async () => {
    const client = await connected();
    await client.callTool(count);
    const before = await kept();
    const stores = await server.openStores();
    const organization = await findOrganization(stores.db, 'demo');
    const allow = (latchkeyProxyAllowed: boolean) =>
      updateSettings(stores.db, organization?.id ?? '', { latchkeyProxyAllowed });
    await allow(false);
    const refused = await client.callTool(count).catch(String);
    const held = await kept();
    await allow(true);
    await stores.close();
    const another = await connected();
    const answer = await another.callTool(count);
    await Promise.all([client.close(), another.close()]);

    expect(refused).toContain('suspended: an administrator of this organization turned off');
    expect(refused).toContain('you need not sign in again');
    expect(held).toEqual(before);
    expect(JSON.stringify(answer)).toMatch(/\d{3,}/);
  });

  test('after Dana withdraws consent the very next call fails and says what to do', async () => {
    const client = await connected();
    await client.callTool(count);
    await dana.goto(`${server.base}/account`);
    await dana.getByRole('button', { name: 'Withdraw from Latchkey' }).first().click();
    await dana.getByText('Consent withdrawn. Latchkey no longer has access to').waitFor();

    const failure = await client.callTool(count).catch(String);
    const again = await client.callTool(count).catch(String);
    const stood = await status();
    await login('Allow');
    const answer = await client.callTool(count);
    await client.close();

    expect(failure).toContain(`latchkey login ${url}`);
    expect(again).toContain(`latchkey login ${url}`);
    expect(stood).toMatchObject({ state: 'signed_out' });
    expect(JSON.stringify(answer)).toMatch(/\d{3,}/);
  });

  test('a second login replaces the first', async () => {
    const first = await kept();
    const { code } = await login('Allow');
    const second = await kept();
    const client = await connected();
    const { tools } = await client.listTools();
    await client.close();

    expect(code).toBe(0);
    expect(second.refreshToken).not.toBe(first.refreshToken);
    expect(tools.length).toBeGreaterThan(0);
  });

  test('logout revokes the tokens at the server and deletes them here', async () => {
    const { accessToken, refreshToken } = await kept();
    const { code, stdout } = await latchkey('logout', url);
    const called = await server.request('/mcp/demo/library', {
      method: 'POST',
      headers: { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    const refreshed = await server.post('/api/oauth/token', {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: `${server.base}/oauth/clients/latchkey.json`,
    });

    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('revoked') });
    expect(called.status).toBe(401);
    expect(refreshed.json['error']).toBe('invalid_grant');
    expect(await status()).toMatchObject({ state: 'signed_out' });
    expect(await kept()).toEqual({ accessToken: '', refreshToken: '' });
    expect((await latchkey('logout', url)).stdout).toContain('you were not signed in');
  });

  test('over SSH the URL is printed and the redirect is pasted', async () => {
    const { BROWSER: _, ...none } = env;
    const ssh = { ...none, BROWSER: '', SSH_TTY: '/dev/pts/1', DISPLAY: ':0' };
    await using running = startProgram(process.execPath, {
      args: [launcher, 'login', url],
      env: ssh,
    });
    const [address] = await running.line(/^http:\S+\/oauth\/consent\S+$/m, { stream: 'stderr' });
    // A browser on another machine cannot reach the listener of this one.
    await dana.route('http://127.0.0.1:*/callback?*', (route) => route.abort());
    await dana.goto(address);
    const arriving = dana.waitForRequest(/\/callback\?/);
    await button(dana, 'Allow').click();
    running.write(`${(await arriving).url()}\n`);

    expect(await running.exited).toMatchObject({ code: 0 });
    expect(running.stdout).toContain(`signed in to ${url}`);
    await dana.unroute('http://127.0.0.1:*/callback?*');
    expect((await latchkey('logout', url)).code).toBe(0);
    said += running.stdout + running.stderr;
  });

  test('an assistant without a sign-in opens the page and waits for Dana', async () => {
    const connecting = connected({ LATCHKEY_STATE_DIR: join(home.path, 'another machine') });
    const { page } = await decide('Allow');
    const client = await connecting;
    const { tools } = await client.listTools();
    await client.close();

    expect(page).toContain('You are signed in');
    expect(tools.map(({ name }) => name)).toContain('query');
    expect((await latchkey('logout', url)).code).toBe(0);
  });

  test('setup for one assistant has the consent page name it', async () => {
    const running = latchkey('setup', url, '--assistant', 'claude-desktop');
    const { asked } = await decide('Allow');
    const { code, stdout } = await running;
    await dana.goto(`${server.base}/account`);
    const applications = await dana.locator('main').textContent();

    expect(asked).toBe('Connect Claude Desktop (via Latchkey) to library?');
    expect(code).toBe(0);
    expect(stdout).toContain('added library to Claude Desktop: ');
    expect(applications).toContain('Claude Desktop (via Latchkey)');
    expect((await latchkey('remove', 'library')).code).toBe(0);
  });

  test('no client was registered by hand', async () => {
    expect(await server.command('client', 'list', 'demo/library')).toEqual([]);
  });

  test('no file, log line or output contains a secret', async () => {
    // Nodes have no files in common: what they keep is in the database.
    const ofServer = nodesOfTests > 1 ? [] : [server.dataDir];
    const folders = [home.path, session.env['XDG_DATA_HOME'] ?? '', ...ofServer];
    const files = folders.flatMap(filesBelow);
    const texts = files.map((file) => ({ file, bytes: readFileSync(file).toString('latin1') }));
    const setUpToken = setUpLink.split('/').at(-1) ?? '-';
    const holders = texts.filter(
      ({ bytes }) =>
        bytes.match(secretShape) || bytes.includes(password) || bytes.includes(setUpToken),
    );
    const log = await flushed();

    expect(files.length).toBeGreaterThan(ofServer.length > 0 ? 3 : 0);
    expect(holders.map(({ file }) => file)).toEqual([]);
    for (const text of [proxyLog, log, said]) {
      expect(text.match(secretShape)).toBeNull();
      expect(text).not.toContain(password);
      expect(text).not.toContain(setUpToken);
    }
    expect(browser.left).toBe(0);
  });
});

const listCredentials = `
  import { findCredentials } from '@napi-rs/keyring';
  for (const { account, password } of findCredentials('latchkey')) {
    console.log(account, password);
  }`;
