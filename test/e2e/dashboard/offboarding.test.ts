import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { mcpCall } from '#support/mcp-call';
import { patient } from '#support/patient';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';

const password = 'correct horse battery';
const timeout = 120_000;

await suite('browser', 'a person who leaves', () => {
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
  const createKey = async (page: Page, name: string): Promise<string> => {
    await page.goto(dashboard('/servers/library/new-key'));
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByRole('button', { name: 'Generate API key' }).click();
    const key = (await page.locator('code.value').textContent()) ?? '';
    await page.getByLabel('I have stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();
    return key;
  };
  const call = async (key: string) =>
    (await mcpCall(`${server.base}/mcp/acme/library`, { key })).status;

  beforeAll(async () => {
    server = await serverProcess();
    await server.command(['organization', 'create', 'acme']);
    await server.command(['server', 'create', 'acme/library', '--demo']);
    for (const [name, role] of [
      ['owner', 'owner'],
      ['dana', 'admin'],
      ['kim', 'admin'],
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

  test(
    'is offboarded with two jobs handed over, which go on working, and everything else ends',
    { timeout },
    async () => {
      const [owner, dana] = [
        await signedIn('owner@example.com'),
        await signedIn('dana@example.com'),
      ];
      const nightly = await createKey(dana, 'Nightly report');
      const weekly = await createKey(dana, 'Weekly report');
      const laptop = await createKey(dana, 'Laptop');
      const before = await Promise.all([nightly, weekly, laptop].map(call));

      await owner.goto(dashboard('/people'));
      await owner.getByRole('link', { name: 'dana@example.com' }).click();
      await owner.getByText('Open to everyone in the organization').waitFor();
      expect(await owner.getByRole('row', { name: 'Nightly report' }).count()).toBe(1);
      expect(await pageProblems(owner)).toEqual([]);
      await owner.getByRole('link', { name: 'Offboard' }).click();
      await owner.getByText('3 keys, clients and agents have no other owner').waitFor();
      expect(await owner.getByText('1 browser is signed out immediately.').count()).toBe(1);
      expect(await pageProblems(owner)).toEqual([]);
      await owner
        .getByLabel('Who takes over Weekly report')
        .selectOption({ label: 'kim@example.com' });
      await owner.getByLabel('Who takes over Laptop').selectOption({ label: 'No one: revoke' });
      await owner.getByRole('button', { name: 'Offboard dana@example.com' }).click();
      await owner.getByText('Offboarded.').waitFor();

      const after = await Promise.all([nightly, weekly, laptop].map(call));
      expect([before, after]).toEqual([
        [200, 200, 200],
        [200, 200, 401],
      ]);
      // Her page is live, and shows without a reload that she is signed out.
      await dana.waitForURL('**/sign-in?next=**');
      const next = await dana.goto(dashboard('/servers'));
      expect(new URL(next?.url() ?? '').pathname).toBe('/sign-in');
      await owner.goto(dashboard('/people/needs-owner'));
      expect(await owner.getByText('Everything has an owner.').count()).toBe(1);
      const actions = async () => {
        const words = ['audit', 'list', 'acme', '--limit', '5', '--json'];
        const events: { action: string }[] = JSON.parse(await server.command(words));
        return events.map(({ action }) => action).toSorted();
      };
      // The server answers the refusal before it writes it to the audit log.
      await expect
        .poll(actions, patient)
        .toEqual([
          'call.bad-credential',
          'key.revoke',
          'leaver.hand-over',
          'leaver.hand-over',
          'person.offboard',
        ]);
    },
  );
});
