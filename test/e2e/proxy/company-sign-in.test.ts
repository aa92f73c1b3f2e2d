import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { assertionProvider, type AssertionProvider } from '#support/assertion-provider';
import { browserHandover, type BrowserHandover } from '#support/browser-handover';
import { chromium } from '#support/chromium';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { everyCommandLine, filesBelow } from '#support/leaks';
import { legacyMcp } from '#support/legacy-mcp';
import { freePort } from '#support/loopback';
import { managedFront, type ManagedFront } from '#support/managed-front';
import { runProgram } from '#support/processes';
import { inherited } from '#support/programs';
import { launcher, proxyProcess } from '#support/proxy-process';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const cursor = '.cursor/mcp.json';
const gemini = '.gemini/settings.json';
const assertionShape = /eyJ[\w-]{10,}\.[\w-]+\.[\w-]+/;

await suite(['keychain', 'browser'], 'company sign-in on one computer', () => {
  let session: KeychainSession;
  let home: TemporaryFolder;
  let company: AssertionProvider;
  let front: ManagedFront;
  let engine: Browser;
  let page: Page;
  let browser: BrowserHandover;
  let env: Record<string, string>;
  let accepts = true;
  let commands = 0;
  let clicks = 0;
  let said = '';
  let commandLines = '';

  beforeAll(async () => {
    session = await keychainSession();
    home = await temporaryFolder('home');
    const port = await freePort();
    company = await assertionProvider({ redirectUris: [`http://127.0.0.1:${port}/callback`] });
    front = await managedFront(legacyMcp().handle, { provider: company, accepts: () => accepts });
    company.register(front.origin, front.clientId);
    browser = await browserHandover();
    engine = await chromium();
    page = await engine.newPage();
    for (const file of [cursor, gemini])
      mkdirSync(dirname(join(home.path, file)), { recursive: true });
    const managed = join(home.path, 'managed.json');
    const { issuer, clientId } = company;
    const clientSecret = 'env:ACME_CLIENT_SECRET';
    const servers = [front.origin];
    writeFileSync(
      managed,
      JSON.stringify({
        identityProviders: [{ issuer, clientId, clientSecret, redirectPort: port, servers }],
      }),
    );
    env = {
      ...inherited,
      ...session.env,
      ...browser.env,
      HOME: home.path,
      LATCHKEY_MANAGED_FILE: managed,
      ACME_CLIENT_SECRET: company.clientSecret,
    };
  });
  afterAll(async () => {
    await engine.close();
    await browser[Symbol.asyncDispose]();
    await front[Symbol.asyncDispose]();
    await company[Symbol.asyncDispose]();
    await session[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
  });

  const latchkey = async (...args: string[]) => {
    commands += 1;
    const done = await runProgram(process.execPath, { args: [launcher, ...args], env });
    said += done.stdout + done.stderr;
    return done;
  };
  /** A command during which Dana acts on the page that it opens. */
  const withPage = async (act: () => Promise<string>, ...args: string[]) => {
    const running = latchkey(...args);
    const early = running.then(({ stderr }): string => {
      throw new Error(`no page: ${stderr}`);
    });
    const shown = await Promise.race([act(), early]);
    return { ...(await running), shown };
  };
  const click = async (name: string) => {
    clicks += 1;
    await page.getByRole('button', { name }).click();
  };
  /** Dana signs in on the page that a command opened. */
  const signIn = async () => {
    await page.goto(await browser.next());
    await page.locator('input[name=login]').fill('dana');
    await page.locator('input[name=password]').fill('x');
    await click('Sign-in');
    await click('Continue');
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    const shown = (await page.locator('main').textContent()) ?? '';
    said += shown;
    return shown;
  };
  /** The provider still knows her browser. */
  const signedInAlready = async () => {
    await page.goto(await browser.next());
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    return '';
  };
  const entry = (file: string, name: string): { command: string; args: string[] } =>
    JSON.parse(readFileSync(join(home.path, file), 'utf8')).mcpServers[name];
  const toolsThrough = async (file: string, name: string) => {
    await using proxy = proxyProcess({ ...entry(file, name), env });
    await proxy.handshake();
    const { result } = await proxy.request('tools/list');
    commandLines += everyCommandLine();
    said += proxy.stderr();
    return JSON.stringify(result);
  };

  test('three endpoints in two assistants: three commands, one sign-in, no consent page', async () => {
    const done = await withPage(signIn, 'setup', front.url('sales'), '--yes');
    const rest = [
      await latchkey('setup', front.url('support'), '--yes'),
      await latchkey('setup', front.url('finance'), '--yes'),
    ];

    expect(done.shown).toContain('You are signed in as dana@example.com');
    expect([done, ...rest].map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      Array.from({ length: 3 }, () => ({ code: 0, stderr: expect.any(String) })),
    );
    expect(done.stdout).toContain(`by the company sign-in of ${company.issuer}`);
    for (const { stdout } of rest) {
      expect(stdout).toContain('signed in as dana@example.com');
      expect(stdout).toMatch(/^\w+: \d+ tools$/m);
    }
    expect({ commands, clicks, pages: browser.left }).toEqual({ commands: 3, clicks: 2, pages: 0 });
    for (const file of [cursor, gemini])
      for (const name of ['sales', 'support', 'finance'])
        expect(await toolsThrough(file, name)).toContain('"echo"');
    expect(company.exchanges).toHaveLength(3);
    expect(front.admitted).toEqual(
      ['sales', 'support', 'finance'].map((name) => ({ login: 'dana', resource: front.url(name) })),
    );
  });

  test('the keychain has one entry of the provider, and no refresh token of a server', async () => {
    const accounts = [...(await session.contents()).keys()];

    expect(accounts.filter((account) => account.startsWith('identity provider'))).toHaveLength(1);
    expect(accounts.filter((account) => account.startsWith('access token'))).toHaveLength(3);
    expect(accounts.filter((account) => account.startsWith('refresh'))).toEqual([]);
  });

  test('status and doctor name the provider', async () => {
    const { stdout } = await latchkey('status', 'sales', '--json');
    const doctor = await latchkey('doctor', 'sales');

    expect(JSON.parse(stdout).connections[0]).toMatchObject({
      state: 'ready',
      provider: company.issuer,
      renewable: true,
    });
    expect(doctor.stdout).toContain(`signed in at ${company.issuer} as dana@example.com`);
  });

  test('several proxies whose tokens the server no longer accepts need no page', async () => {
    front.revokeAll();
    const before = company.exchanges.length;

    const lists = await Promise.all(
      [cursor, gemini].flatMap((file) =>
        ['sales', 'support', 'finance'].map((name) => toolsThrough(file, name)),
      ),
    );

    for (const list of lists) expect(list).toContain('"echo"');
    expect(browser.left).toBe(0);
    // Both proxies of an endpoint share its token.
    expect(company.exchanges.length - before).toBe(3);
  });

  test('a refusal of the provider is not answered with a page, and says who can help', async () => {
    company.refuse({ error: 'access_denied' });
    const { code, stdout, stderr } = await latchkey('login', 'sales');
    company.refuse(undefined);

    expect({ code, stdout, pages: browser.left }).toEqual({ code: 1, stdout: '', pages: 0 });
    expect(stderr).toContain(`${company.issuer} gives you no access to ${front.url('sales')}`);
    expect(stderr).toContain('hint: ask the administrators of your company for access');
  });

  test('logout ends the shared sign-in, and the next login opens a page again', async () => {
    const out = await latchkey('logout', 'sales');
    const provider = [...(await session.contents()).keys()].filter((account) =>
      account.startsWith('identity provider'),
    );
    const done = await withPage(signedInAlready, 'login', 'sales');

    expect(out.stdout).toContain(`signed out of ${company.issuer}, too`);
    expect(provider).toEqual([]);
    expect(done.stdout).toContain('signed in as dana@example.com');
  });

  test('a server that does not offer it is signed in to in its own way, with a sentence that says why', async () => {
    accepts = false;
    const { stderr } = await latchkey('login', 'support');

    expect(stderr).toContain(
      `support cannot use the company sign-in of ${company.issuer}: ${front.origin} does not offer it`,
    );
    // It has no page of its own.
    expect(stderr).toContain('announces no authorization endpoint');
  });

  test('no output, log, command line or file contains an assertion, token or secret', () => {
    const files = filesBelow(home.path).map((file) => readFileSync(file, 'latin1'));

    for (const text of [said, commandLines, ...files]) {
      expect(text).not.toMatch(assertionShape);
      expect(text).not.toContain(company.clientSecret);
      expect(text).not.toMatch(/token-[0-9a-f]{24}/);
    }
  });
});
