import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { addPasskeyDevice, chromium, pageProblems } from '#support/chromium';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';

const email = 'dana@example.com';
const password = 'correct horse battery';
const account = (url: URL) => url.pathname === '/account';

await suite('browser', 'the first owner in a browser', () => {
  let server: ServerProcess;
  let browser: Browser;

  beforeAll(async () => {
    server = await serverProcess({ host: 'localhost' });
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
  });

  const setUpLink = () => /http:\S+\/set-up\/\S+/.exec(server.program.stdout)?.[0] ?? '';
  const newPage = async (options: { javaScriptEnabled?: boolean } = {}): Promise<Page> => {
    const context = await browser.newContext(options);
    context.setDefaultTimeout(60_000);
    return context.newPage();
  };
  const fill = async (page: Page, fields: Record<string, string>) => {
    for (const [label, value] of Object.entries(fields)) {
      await page.getByLabel(label, { exact: true }).fill(value);
    }
  };
  const signIn = async (page: Page, typed = password) => {
    await page.goto(`${server.base}/sign-in?next=/account`);
    await fill(page, { 'E-mail': email, Password: typed });
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  };
  /** Checks a page with axe in both colour schemes, and that it fits a phone. */
  const inspect = async (page: Page) => {
    expect(await pageProblems(page)).toEqual([]);
  };

  test('the printed link creates the first owner, with errors beside their fields on the way', async () => {
    const page = await newPage();
    await page.goto(setUpLink());
    await inspect(page);
    await fill(page, { Organization: 'Not a Name', 'E-mail': 'dana', 'New password': 'short' });
    await page.getByRole('button', { name: 'Create account' }).click();

    await inspect(page);
    expect(await page.getByLabel('E-mail').inputValue()).toBe('dana');
    expect(await page.getByLabel('New password', { exact: true }).inputValue()).toBe('');
    await page.locator('.summary:focus').waitFor();

    await fill(page, {
      Organization: 'acme',
      'E-mail': email,
      'New password': password,
      'Confirm new password': password,
    });
    await page.getByRole('button', { name: 'Create account' }).click();

    await page.waitForURL('**/dashboard/*');
    await expect(page.getByRole('heading', { name: 'First steps' }).count()).resolves.toBe(1);
    await inspect(page);
  });

  test('the link works once', async () => {
    const page = await newPage();

    const answer = await page.goto(setUpLink());

    expect(answer?.status()).toBe(410);
    await inspect(page);
  });

  test('signing out leads to the sign-in page, and the password back in', async () => {
    const page = await newPage();
    await signIn(page, 'wrong password');
    await inspect(page);
    expect(await page.getByLabel('E-mail').inputValue()).toBe(email);

    await fill(page, { Password: password });
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.waitForURL(account);
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();

    await page.waitForURL('**/sign-in?done=signed-out');
    await inspect(page);
    await page.goBack();
    await page.goto(`${server.base}/account`);
    expect(new URL(page.url()).pathname).toBe('/sign-in');
  });

  test('everything works with the keyboard alone', async () => {
    const page = await newPage();
    await page.goto(`${server.base}/sign-in?next=/account`);
    // The page focuses its first field, possibly after it has loaded.
    await page.locator('input:focus').waitFor();
    await page.keyboard.type(email);
    await page.keyboard.press('Tab');
    await page.keyboard.type(password);
    await page.keyboard.press('Enter');
    await page.waitForURL(account);
    await page.getByRole('heading', { level: 1 }).waitFor();

    const stops: string[] = [];
    for (let turn = 0; turn < 12; turn += 1) {
      await page.keyboard.press('Tab');
      stops.push(
        String(
          await page.evaluate('document.activeElement.textContent || document.activeElement.id'),
        ),
      );
    }

    expect(stops.map((stop) => stop.trim())).toEqual(
      expect.arrayContaining(['Skip to the content', email, 'Sign out', 'Add passkey', 'current']),
    );
  });

  test('without scripts a person can sign in, change the password and end sessions', async () => {
    const other = await newPage({ javaScriptEnabled: false });
    await signIn(other);
    const page = await newPage({ javaScriptEnabled: false });
    await signIn(page);
    await page.waitForURL(account);
    await page
      .getByRole('button', { name: /^Sign out .* at/ })
      .first()
      .click();
    await page.waitForURL('**/account?done=session');

    const next = 'another horse battery';
    await fill(page, {
      'Current password': password,
      'New password': next,
      'Confirm new password': next,
    });
    await page.getByRole('button', { name: 'Change password' }).click();
    await page.waitForURL('**/account?done=password');
    await other.goto(`${server.base}/account`);
    expect(new URL(other.url()).pathname).toBe('/sign-in');

    await fill(page, {
      'Current password': next,
      'New password': password,
      'Confirm new password': password,
    });
    await page.getByRole('button', { name: 'Change password' }).click();
    await page.waitForURL('**/account?done=password');
  });

  test('a passkey is added, signs in alone, and is removed', async () => {
    const page = await newPage();
    await addPasskeyDevice(page);
    await signIn(page);
    await page.waitForURL(account);
    await page.getByLabel('Passkey name').fill('Laptop <b>\u202e');
    await page.getByRole('button', { name: 'Add passkey' }).click();
    await page.waitForURL('**/account?done=passkey');
    // In a tab of its own: a second debugging session on the same one ends the virtual authenticator.
    const beside = await page.context().newPage();
    await beside.goto(`${server.base}/account?done=passkey`);
    await inspect(beside);
    await beside.close();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();

    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL('**/dashboard/**');
    await page.goto(`${server.base}/account`);
    expect(await page.getByText('last used just now').count()).toBe(1);

    await page.getByRole('button', { name: /^Remove Laptop/ }).click();
    await page.waitForURL('**/account?done=passkey-removed');
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();

    await expect(page.getByText('was not recognized').textContent()).resolves.toContain('passkey');
  });
});
