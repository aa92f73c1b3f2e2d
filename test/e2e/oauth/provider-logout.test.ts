import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { chromium } from '#support/chromium';
import { singleSignOn, type SingleSignOn, type SingleSignOnOptions } from '#support/single-sign-on';
import { suite } from '#support/suite';

const email = 'dana@example.com';
const password = 'correct horse battery';
const made = z.object({ id: z.string() });
let providerId = '';
/** Acme has a provider of its own, and the domain of Dana, who owns it. */
const addProvider: SingleSignOnOptions['addProvider'] = async (server, { issuer, secretFile }) => {
  await server.command(['organization', 'create', 'acme']);
  const words = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
  await server.command(words, password);
  const client = ['--client-id', 'latchkey', '--client-secret-file', secretFile];
  const place = ['--outbound-host', '127.0.0.1', '--master-key-file', server.masterKeyFile];
  const provider = ['--name', 'Acme Work ID', '--issuer', issuer, ...client, ...place, '--json'];
  const created = await server.command(['provider', 'create', 'acme', ...provider]);
  ({ id: providerId } = made.parse(JSON.parse(created)));
  await server.command(['domain', 'add', 'acme', 'example.com']);
  await server.command(['domain', 'confirm', 'acme', 'example.com']);
  return [`${server.base}/sign-in/provider/${providerId}/callback`];
};

/** Signs out on the pages of the provider, which tells Latchkey before it answers. */
async function signOutThere(context: BrowserContext, { issuer }: SingleSignOn): Promise<void> {
  const there = await context.newPage();
  await there.goto(`${issuer}/session/end`);
  await there.getByRole('button', { name: /yes/i }).click();
  await there.getByText(/Sign-out Success/i).waitFor();
}

await suite('browser', 'logout at an independent provider of an organization', () => {
  let sso: SingleSignOn;
  let browser: Browser;
  beforeAll(async () => {
    sso = await singleSignOn({
      args: ['--outbound-host', '127.0.0.1'],
      addProvider,
      logoutPath: () => `/sign-in/provider/${providerId}/backchannel-logout`,
    });
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await sso[Symbol.asyncDispose]();
  });

  const enter = async (context: BrowserContext) => {
    const page = await context.newPage();
    await page.goto(`${sso.server.base}/sign-in/organization`);
    await page.getByLabel('Work e-mail or organization').fill(email);
    await page.getByRole('button', { name: 'Continue' }).click();
    await sso.vouch(page, 'dana');
    await page.waitForURL('**/dashboard/acme');
    return page;
  };
  const whereIsIt = async (context: BrowserContext) => {
    const page = await context.newPage();
    await page.goto(`${sso.server.base}/dashboard/acme`);
    return new URL(page.url()).pathname;
  };

  test('170: ends the session of that browser at every node, and no other', async () => {
    const one = await browser.newContext();
    const two = await browser.newContext();
    await enter(one);
    await enter(two);
    const before = [await whereIsIt(one), await whereIsIt(two)];
    await signOutThere(one, sso);

    expect(before).toEqual(['/dashboard/acme', '/dashboard/acme']);
    // Each request may be answered by another node.
    for (let request = 0; request < 3; request += 1) {
      expect(await whereIsIt(one)).toBe('/sign-in');
      expect(await whereIsIt(two)).toBe('/dashboard/acme');
    }
    await one.close();
    await two.close();
  });
});

await suite('browser', 'logout at an independent provider of the installation', () => {
  let sso: SingleSignOn;
  let browser: Browser;
  beforeAll(async () => {
    sso = await singleSignOn({ logoutPath: () => '/sign-in/provider/backchannel-logout' });
    await sso.server.command(['organization', 'create', 'acme']);
    const words = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
    await sso.server.command(words, password);
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await sso[Symbol.asyncDispose]();
  });

  test('170: ends the session that it opened, and not one with a password', async () => {
    const { base } = sso.server;
    const byPassword = await browser.newContext();
    const first = await byPassword.newPage();
    await first.goto(`${base}/sign-in?next=/account`);
    await first.getByLabel('E-mail').fill(email);
    await first.getByLabel('Password').fill(password);
    await first.getByRole('button', { name: 'Sign in', exact: true }).click();
    await first.getByRole('button', { name: 'Link account' }).click();
    await sso.vouch(first, 'dana-there');
    await first.waitForURL('**/account?done=linked');
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${base}/sign-in?next=/account`);
    await page.getByRole('button', { name: 'Sign in with Acme ID' }).click();
    await sso.vouch(page, 'dana-there');
    await page.waitForURL((url) => url.pathname === '/account');
    await signOutThere(context, sso);
    await page.reload();
    await first.reload();

    expect(new URL(page.url()).pathname).toBe('/sign-in');
    expect(new URL(first.url()).pathname).toBe('/account');
  });
});
