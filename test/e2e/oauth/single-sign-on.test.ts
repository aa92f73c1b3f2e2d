import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { chromium, pageProblems } from '#support/chromium';
import { singleSignOn, type SingleSignOn, type SingleSignOnOptions } from '#support/single-sign-on';
import { suite } from '#support/suite';

const email = 'dana@example.com';
const password = 'correct horse battery';
const made = z.object({ id: z.string() });
/** Acme has a provider of its own, and the domain of Dana, who owns it. */
const addProvider: SingleSignOnOptions['addProvider'] = async (server, { issuer, secretFile }) => {
  await server.command(['organization', 'create', 'acme']);
  const words = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
  await server.command(words, password);
  const client = ['--client-id', 'latchkey', '--client-secret-file', secretFile];
  const place = ['--outbound-host', '127.0.0.1', '--master-key-file', server.masterKeyFile];
  const provider = ['--name', 'Acme Work ID', '--issuer', issuer, ...client, ...place, '--json'];
  const { id } = made.parse(
    JSON.parse(await server.command(['provider', 'create', 'acme', ...provider])),
  );
  await server.command(['domain', 'add', 'acme', 'example.com']);
  await server.command(['domain', 'confirm', 'acme', 'example.com']);
  return [`${server.base}/sign-in/provider/${id}/callback`];
};
const account = (url: URL) => url.pathname === '/account';

await suite('browser', 'single sign-on with an independent provider', () => {
  let sso: SingleSignOn;
  let browser: Browser;

  beforeAll(async () => {
    sso = await singleSignOn({ args: ['--outbound-host', '127.0.0.1'], addProvider });
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

  test('an owner tests the provider of the organization, signs in with it, and sees that organization only', async () => {
    const { base } = sso.server;
    const owner = await browser.newPage();
    await owner.goto(`${base}/sign-in?next=/dashboard/acme/sign-in`);
    await owner.getByLabel('E-mail').fill(email);
    await owner.getByLabel('Password').fill(password);
    await owner.getByRole('button', { name: 'Sign in', exact: true }).click();
    const problems = await pageProblems(owner);
    await owner.getByRole('link', { name: 'Acme Work ID' }).click();
    await owner.getByRole('button', { name: 'Test sign-in' }).click();
    await sso.vouch(owner, 'dana');
    const result = await owner.locator('main .notice').innerText();

    const context = await browser.newContext({ javaScriptEnabled: false });
    const member = await context.newPage();
    await member.goto(`${base}/sign-in`);
    await member.getByRole('link', { name: 'Sign in with your work account' }).click();
    await member.getByLabel('Work e-mail or organization').fill(email);
    await member.getByRole('button', { name: 'Continue' }).click();
    await sso.vouch(member, 'dana');
    await member.waitForURL('**/dashboard/acme');
    await member.goto(`${base}/account`);
    const asked = await member.locator('main').innerText();
    await context.close();

    expect(problems).toEqual([]);
    expect(result).toContain('Single sign-on works');
    expect(asked).toContain('opens only that organization');
  });
});
