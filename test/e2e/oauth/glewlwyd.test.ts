import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { openStores } from '#server/app/stores';
import { chromium } from '#support/chromium';
import { glewlwyd, type Glewlwyd } from '#support/glewlwyd';
import { patient } from '#support/patient';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const email = 'dana@example.com';
const password = 'correct horse battery';
const made = z.object({ id: z.string(), redirect_uri: z.string() });

await suite('glewlwyd', 'company sign-in with Glewlwyd', () => {
  let folder: TemporaryFolder;
  let provider: Glewlwyd;
  let server: ServerProcess;
  let browser: Browser;
  /** Acme has Glewlwyd as its provider, and the domain of Dana, who is a member. */
  beforeAll(async () => {
    folder = await temporaryFolder('idp');
    provider = await glewlwyd();
    server = await serverProcess({ args: ['--outbound-host', '127.0.0.1'] });
    browser = await chromium();
    await server.command(['organization', 'create', 'acme']);
    const words = ['user', 'create', email, '--organization', 'acme', '--role', 'member'];
    await server.command(words, password);
    const file = join(folder.path, 'secret');
    writeFileSync(file, provider.clientSecret);
    const client = ['--client-id', 'latchkey', '--client-secret-file', file];
    const place = ['--outbound-host', '127.0.0.1', '--master-key-file', server.masterKeyFile];
    // Glewlwyd sends no email_verified: only its administrators set addresses.
    const trust = ['--trust-email', 'yes', '--base-url', server.base, '--json'];
    const asked = ['--name', 'Glewlwyd', '--issuer', provider.issuer, ...client, ...place];
    const created = await server.command(['provider', 'create', 'acme', ...asked, ...trust]);
    const { id, redirect_uri: redirectUri } = made.parse(JSON.parse(created));
    const logoutUri = `${server.base}/sign-in/provider/${id}/backchannel-logout`;
    await provider.addClient({ redirectUri, logoutUri });
    await provider.addUser('dana', email, password);
    await server.command(['domain', 'add', 'acme', 'example.com']);
    await server.command(['domain', 'confirm', 'acme', 'example.com']);
  });
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });

  /** Signs in on the pages of Glewlwyd, and allows Latchkey to know the person. */
  const enter = async (context: BrowserContext) => {
    const page = await context.newPage();
    await page.goto(`${server.base}/sign-in/organization`);
    await page.getByLabel('Work e-mail or organization').fill(email);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.locator('#username').fill('dana');
    await page.locator('input[type=password]').fill(password);
    await page.locator('button[type=submit]').click();
    await page.getByLabel('email').check();
    await page.getByRole('button', { name: 'Grant access' }).click();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForURL('**/dashboard/acme');
    return page;
  };

  test('a person signs in on its pages, is checked again there with its refresh token, and loses access once it refuses that for good', async () => {
    const context = await browser.newContext();
    const hosts = new Set<string>();
    context.on('request', (request) => hosts.add(new URL(request.url()).hostname));
    const page = await enter(context);
    const stores = await openStores(server.dataDir);
    const { db } = stores;
    const checked = async () => {
      const asked = { checked_at: 0, next_at: 0 };
      await db.updateTable('provider_check').set(asked).execute();
      return vi.waitFor(async () => {
        const columns = ['checked_at', 'next_at', 'failure'] as const;
        const check = db.selectFrom('provider_check').select(columns);
        const found = await check.executeTakeFirst();
        if (!found) return 'removed';
        const { checked_at: at, next_at: nextAt, failure } = found;
        expect(nextAt > 0 && (at > 0 || failure !== null)).toBe(true);
        return failure;
      }, patient);
    };
    const known = await checked();
    await provider.changeSecret('another secret of latchkey there');
    const misconfigured = [await checked(), await checked()];
    await provider.changeSecret(provider.clientSecret);
    const corrected = await checked();
    await provider.removeUser('dana');
    const removed = [await checked(), await checked()];
    await stores.close();
    // The page also navigates away on its own, which ends a reload that is under way.
    await page.reload().catch(() => undefined);
    await page.waitForURL(/\/sign-in/);

    // Whatever is wrong with a refresh token or the client, Glewlwyd answers 400 without a body, unlike RFC 6749 §5.2.
    expect([known, ...misconfigured, corrected]).toEqual([null, 'not-openid', 'not-openid', null]);
    expect(removed).toEqual(['refused', 'removed']);
    expect(new URL(page.url()).pathname).toBe('/sign-in');
    expect([...hosts]).toEqual(['127.0.0.1']);
    await context.close();
  });
});
