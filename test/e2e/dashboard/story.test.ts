import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import {
  becomeOwner,
  dashboardVisitor,
  password,
  signInAs,
  type DashboardVisitor,
} from '#support/dashboard-visitor';
import { proxyProcess } from '#support/proxy-process';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

// Six pictures and two runs of axe for each page take long on a machine that is also busy otherwise.
vi.setConfig({ testTimeout: 180_000 });

const memory = { LATCHKEY_SECRET_STORE: 'memory' };

await suite('browser', 'dashboard in a browser', () => {
  let server: ServerProcess;
  let browser: Browser;
  let dana: DashboardVisitor;

  beforeAll(async () => {
    server = await serverProcess();
    browser = await chromium();
    dana = await dashboardVisitor(browser, server);
    await becomeOwner(dana, server);
  });
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
  });

  const inspect = async (page: Page) => {
    expect(await pageProblems(page)).toEqual([]);
    expect((await page.content()).length).toBeLessThan(100_000);
    await page.setViewportSize({ width: 1200, height: 800 });
  };
  const call = async (key: string) => {
    const answer = await fetch(`${server.base}/mcp/acme/sales`, {
      method: 'POST',
      headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    });
    return answer.status;
  };
  const configuration = async ({ page }: DashboardVisitor, assistant: string) => {
    if ((await page.locator('details.other[open]').count()) === 0)
      await page.getByText('Other', { exact: true }).click();
    await page.getByText(assistant, { exact: true }).click();
    const region = page.getByRole('region', { name: `Configuration for ${assistant}` });
    return JSON.parse((await region.textContent()) ?? '');
  };

  test('a first owner creates a server, with errors beside their fields', async () => {
    const { page, follow, fill, press } = dana;
    await page.goto(server.base);
    await page.waitForURL('**/dashboard/acme');
    await page.getByRole('link', { name: 'Servers', exact: true }).first().click();
    await page.waitForURL('**/dashboard/acme/servers');
    await inspect(page);
    await follow('Create server');
    await page.getByLabel('Name', { exact: true }).fill('Not a Name');
    await press('Create server');

    await inspect(page);
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Not a Name');
    await page.locator('.summary:focus').waitFor();

    await fill({ Name: 'sales' });
    await page.getByLabel('Demo library').check();
    await press('Create server');
    await page.waitForURL('**/servers/sales?done=created');
    await inspect(page);
    await follow('Settings');
    await inspect(page);
  });

  test('the copied configuration of a new OAuth client works in the real proxy', async () => {
    await using folder = await temporaryFolder('dashboard');
    const { page, open, follow, fill, press } = dana;
    await open('/servers/sales/clients');
    await inspect(page);
    await follow('Create OAuth client');
    await inspect(page);
    await fill({ Name: 'Claude', 'Redirect URIs': 'http://evil.example/callback' });
    await press('Create OAuth client');
    const wrong = await page.locator('#redirectUris-error').textContent();
    await fill({ 'Redirect URIs': 'http://127.0.0.1/callback' });
    await press('Create OAuth client');

    await inspect(page);
    const desktop = (await configuration(dana, 'Claude Desktop')).mcpServers.sales;
    const plain = await configuration(dana, 'oauth object');
    // The program itself is what npx runs from the server's own copy, which another test installs.
    const [, , copy, ...words] = desktop.args;
    await using started = proxyProcess({
      args: words,
      env: { ...desktop.env, ...memory },
    });
    const file = join(folder.path, 'assistant.json');
    await writeFile(file, JSON.stringify(plain));
    await using named = proxyProcess({ args: ['sales', '--config', file], env: memory });
    await started.handshake();
    await named.handshake();

    expect(wrong).toContain('http://evil.example/callback');
    expect(JSON.stringify((await started.request('tools/list')).result)).toContain('list_tables');
    expect(JSON.stringify((await named.request('tools/list')).result)).toContain('list_tables');
    expect(desktop.args.join(' ')).not.toContain('secret_');
    expect(copy).toContain('/download/latchkey-');
  });

  test('a client secret is shown once: after a reload only its hint remains', async () => {
    const { page } = dana;
    const secret = await dana.shownSecret();
    await page.getByLabel('I have stored it').check();

    await page.reload();

    expect(page.url()).toContain('/clients/client_');
    const html = await page.content();
    expect(html).not.toContain(secret);
    expect(html).toContain(`secret_…${secret.slice(-4)}`);
    await inspect(page);
  });

  let old = '';
  test('a new key is shown once and works, and a second window lists it without a reload', async () => {
    const { page, context, open, follow, fill, press } = dana;
    const second = await context.newPage();
    await open('/servers/sales/keys', second);
    await open('/servers/sales/keys');
    await follow('Generate API key');
    await inspect(page);
    await fill({ Name: 'Nightly ליל 🔑' });
    const answered = page.waitForResponse((answer) => answer.request().method() === 'POST');
    await press('Generate API key');
    old = await dana.shownSecret();

    expect((await answered).headers()['cache-control']).toBe('no-store');
    await second.getByText('Nightly ליל 🔑').waitFor();
    expect(await call(old)).toBe(200);
    await inspect(page);
    await second.close();
    await dana.store();
    await page.waitForURL('**/keys?done=made');
    expect(await page.content()).not.toContain(old);
  });

  test('a key is rotated: both are valid, the first use appears live, and the old one is removed', async () => {
    const { page, context, open, follow, press } = dana;
    const second = await context.newPage();
    await open('/servers/sales/keys', second);
    await open('/servers/sales/keys');
    await follow(/^Rotate/);
    await press('Create new key');
    await page.getByText('has not been used yet').waitFor();
    const made = await dana.shownSecret();
    const both = [await call(old), await call(made)];
    await page.getByText('The new key works.').waitFor();
    await inspect(page);
    await page.getByLabel('I have stored it').check();
    await follow(/^Revoke/);
    await page.getByRole('dialog').waitFor();
    expect(await pageProblems(page)).toEqual([]);
    await press('Revoke key');
    await page.waitForURL('**/keys?done=revoked');

    await second.locator('.badge', { hasText: 'Revoked' }).waitFor();
    expect(await second.getByRole('status').allTextContents()).toContainEqual(
      expect.stringMatching(/changed/),
    );
    expect(both).toEqual([200, 200]);
    expect([await call(old), await call(made)]).toEqual([401, 200]);
    await second.close();
    await inspect(page);
  });

  test('a key revoked on the command line is shown as revoked in the open page', async () => {
    const { page, open } = dana;
    await open('/servers/sales/keys?state=active');
    const row = page.getByRole('row', { name: /Nightly/ });
    const { 0: id = '' } = /key_\w+/.exec((await row.getAttribute('id')) ?? '') ?? [];

    await server.command(['key', 'revoke', id]);

    await row.waitFor({ state: 'detached' });
    expect(await page.getByText('No API keys match.').count()).toBe(1);
  });

  test('a client secret is rotated with both valid until the old one is revoked', async () => {
    const { page, open, follow, press } = dana;
    await open('/servers/sales/clients');
    await inspect(page);
    const clientId = (await page.locator('td code').first().getAttribute('title')) ?? '';
    const token = async (secret: string) => {
      const body = { grant_type: 'client_credentials', client_id: clientId, client_secret: secret };
      const answer = await fetch(`${server.base}/api/oauth/token`, {
        method: 'POST',
        body: new URLSearchParams(body),
      });
      return answer.status;
    };
    await follow(/^Rotate/);
    await press('Create new secret');
    const first = await dana.shownSecret();
    await token(first);
    await page.getByText('The new secret works.').waitFor();
    await inspect(page);
    await page.getByLabel('I have stored it').check();
    await open(`/servers/sales/clients/${clientId}/rotate`);
    await press('Create new secret');
    const next = await dana.shownSecret();
    const both = [await token(first), await token(next)];
    await page.getByLabel('I have stored it').check();
    await follow(`Revoke secret_…${first.slice(-4)}`);
    await press('Revoke secret');
    await page.waitForURL('**?done=secret-revoked');

    expect(both).toEqual([200, 200]);
    expect([await token(first), await token(next)]).toEqual([401, 200]);
  });

  test('an agent’s key is shown once, and a confirmation counts what is deleted with it', async () => {
    const { page, open, follow, fill, press } = dana;
    await open('/agents');
    await inspect(page);
    await follow('Create agent');
    await inspect(page);
    await fill({ Name: 'head-office' });
    await press('Create agent');
    const key = await dana.shownSecret();
    await inspect(page);
    await dana.store();
    await page.waitForURL('**/agents/head-office?done=made');
    await inspect(page);

    expect(key).toMatch(/^pk_live_\w{36}$/);
    expect(await page.content()).not.toContain(key);

    await follow('Revoke agent');
    await page.getByText('1 key stops working immediately').waitFor();
    await press('Revoke agent');
    await page.waitForURL('**/agents?done=revoked');
    await inspect(page);
  });

  test('a confirmation works with the keyboard, and Escape returns to where it was opened', async () => {
    const { page, open } = dana;
    await open('/servers/sales/settings');
    await page.getByRole('link', { name: 'Delete', exact: true }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await inspect(page);
    await page.keyboard.press('Escape');

    await page.getByRole('dialog').waitFor({ state: 'detached' });
    const focused = () => page.evaluate('document.activeElement.textContent');
    await expect.poll(focused, patient).toBe('Delete');
  });

  test('a viewer sees servers, clients and keys, and can change nothing', async () => {
    const create = ['user', 'create', 'vic@example.com', '--organization', 'acme'];
    await server.command([...create, '--role', 'viewer'], `${password}\n`);
    const vic = await dashboardVisitor(browser, server);
    await signInAs(vic, server, 'vic@example.com');
    const links: string[] = [];
    for (const path of ['/servers', '/servers/sales', '/servers/sales/clients']) {
      await vic.open(path);
      links.push(...(await vic.page.getByRole('main').getByRole('link').allTextContents()));
    }
    await vic.open('/servers/sales/keys');
    await inspect(vic.page);

    const refused = await vic.page.goto(`${server.base}/dashboard/acme/servers/sales/new-key`);

    expect(
      links.filter((text) => /^\s*(create|generate|rotate|revoke|change)\b/i.test(text)),
    ).toEqual([]);
    expect(refused?.status()).toBe(403);
    await inspect(vic.page);
    await vic.context.close();
  });

  test('an open page shows nothing more after its person signed out elsewhere', async () => {
    const eve = await dashboardVisitor(browser, server);
    await signInAs(eve, server, 'dana@example.com');
    await eve.open('/servers/sales/keys');
    const other = await eve.context.newPage();
    await other.goto(`${server.base}/account`);

    await other.getByRole('button', { name: 'Sign out', exact: true }).click();

    await eve.page.waitForURL('**/sign-in?**');
    expect(await eve.page.getByText('Nightly').count()).toBe(0);
    await eve.context.close();
  });
});

await suite('browser', 'dashboard without scripts', () => {
  test('creating a server and creating, rotating and revoking a key need no script', async () => {
    await using server = await serverProcess();
    const browser = await chromium();
    try {
      const dana = await dashboardVisitor(browser, server, { scripts: false });
      const { page, open, follow, fill, press } = dana;
      await becomeOwner(dana, server);
      await open('/new-server');
      await fill({ Name: 'sales' });
      await page.getByLabel('Demo library').check();
      await press('Create server');
      await follow('API keys');
      await follow('Generate API key');
      await fill({ Name: 'Nightly' });
      await press('Generate API key');
      await dana.shownSecret();
      await press('Done');
      const isHeld = await page.locator('code.value').count();
      await dana.store();
      await follow(/^Rotate/);
      await press('Create new key');
      const made = await dana.shownSecret();
      await dana.store();
      await page.waitForURL('**/rotation/**');
      await fetch(`${server.base}/mcp/acme/sales`, {
        method: 'POST',
        headers: { 'X-API-Key': made, 'Content-Type': 'application/json' },
        body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      });
      await expect
        .poll(async () => {
          await page.reload();
          return page.getByText('The new key works.').count();
        }, patient)
        .toBe(1);
      await follow(/^Revoke/);
      await press('Revoke key');

      await page.waitForURL('**/keys?done=revoked');
      expect(isHeld).toBe(1);
      expect(await page.locator('.badge', { hasText: 'Revoked' }).count()).toBe(1);
    } finally {
      await browser.close();
    }
  });
});
