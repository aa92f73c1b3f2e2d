import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { singleSignOn, type SingleSignOn } from '#support/single-sign-on';
import { suite } from '#support/suite';

const email = 'dana@example.com';
const password = 'correct horse battery';
const account = (url: URL) => url.pathname === '/account';

await suite('browser', 'single sign-on with an independent provider', () => {
  let sso: SingleSignOn;
  let browser: Browser;

  beforeAll(async () => {
    sso = await singleSignOn();
    await sso.server.command(['organization', 'create', 'acme']);
    const words = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
    await sso.server.command(words, password);
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await sso[Symbol.asyncDispose]();
  });

  test('a linked account signs in, with and without scripts', async () => {
    const { base } = sso.server;
    const first = await browser.newPage({ javaScriptEnabled: false });
    await first.goto(`${base}/sign-in?next=/account`);
    await first.getByLabel('E-mail').fill(email);
    await first.getByLabel('Password').fill(password);
    await first.getByRole('button', { name: 'Sign in', exact: true }).click();
    await first.getByRole('button', { name: 'Link account' }).click();
    await sso.vouch(first, 'dana-there');
    await first.waitForURL('**/account?done=linked');

    const second = await browser.newPage();
    await second.goto(`${base}/sign-in?next=/account`);
    const problems = await pageProblems(second);
    await second.getByRole('button', { name: 'Sign in with Acme ID' }).click();
    await sso.vouch(second, 'dana-there');
    await second.waitForURL(account);

    expect(problems).toEqual([]);
    expect(await second.getByRole('button', { name: 'Unlink account' }).count()).toBe(1);
  });
});
