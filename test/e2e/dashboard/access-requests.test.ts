import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';

const password = 'correct horse battery';
const timeout = 120_000;

await suite('browser', 'a person who asks for access', () => {
  let server: ServerProcess;
  let browser: Browser;

  const dashboard = (path: string) => `${server.base}/dashboard/acme${path}`;
  const signedIn = async (email: string): Promise<Page> => {
    const context = await browser.newContext();
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    await page.goto(`${server.base}/sign-in`);
    await page.getByLabel('E-mail', { exact: true }).fill(email);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.waitForURL(/\/dashboard\/acme/);
    return page;
  };

  beforeAll(async () => {
    server = await serverProcess();
    await server.command(['organization', 'create', 'acme']);
    for (const name of ['sales', 'payroll', 'secret']) {
      await server.command(['server', 'create', `acme/${name}`, '--demo']);
      await server.command(['group', 'create', 'acme', name]);
      const requests = name === 'secret' ? 'off' : 'on';
      const groups = ['server', 'set-groups', `acme/${name}`, '--group', name];
      await server.command([...groups, '--requests', requests]);
    }
    for (const [name, role] of [
      ['owner', 'owner'],
      ['dana', 'member'],
    ] as const) {
      const words = ['user', 'create', `${name}@example.com`, '--organization', 'acme'];
      await server.command([...words, '--role', role], password);
    }
    browser = await chromium();
  }, timeout);
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
  });

  const ask = async (page: Page, name: string, reason: string) => {
    await page.getByRole('link', { name: `Ask for access to ${name}` }).click();
    await page.getByLabel('Why do you need it?').fill(reason);
    expect(await pageProblems(page)).toEqual([]);
    await page.getByRole('button', { name: 'Send request' }).click();
    await page.getByText('Request sent.').waitFor();
  };

  test(
    'sees what may be asked for, is granted one through a group and declined the other, without reloading the page',
    { timeout },
    async () => {
      const [owner, dana] = [
        await signedIn('owner@example.com'),
        await signedIn('dana@example.com'),
      ];
      const before = await dana.getByRole('main').textContent();
      await ask(dana, 'sales', 'The quarter ends');
      await ask(dana, 'payroll', 'Curious');
      expect(await pageProblems(dana)).toEqual([]);

      await owner.goto(dashboard('/people/requests'));
      await owner.getByText('The quarter ends').waitFor();
      expect(await pageProblems(owner)).toEqual([]);
      await owner.getByRole('link', { name: 'Grant dana@example.com for sales' }).click();
      await owner.getByLabel('sales').check();
      expect(await pageProblems(owner)).toEqual([]);
      await owner.getByRole('button', { name: 'Grant access' }).click();
      await owner.getByText('Granted.').waitFor();
      await dana.getByRole('link', { name: 'Connect to sales' }).waitFor();

      await owner.getByRole('link', { name: 'Decline dana@example.com for payroll' }).click();
      await owner.getByLabel('Reason').fill('Ask Eve');
      await owner.getByRole('button', { name: 'Decline request' }).click();
      await owner.getByText('Declined.').waitFor();
      await dana.getByText('owner@example.com declined just now: Ask Eve').waitFor();

      expect(before).toContain('You can ask for access');
      expect(before).not.toContain('secret');
      await owner.getByRole('link', { name: 'Decided requests' }).click();
      await owner.getByText('Group sales').waitFor();
      expect(await owner.getByText('Ask Eve').count()).toBe(1);
      const listed = await server.command(['access-request', 'list', 'acme', '--json']);
      expect(listed).toBe('[]\n');
    },
  );
});
