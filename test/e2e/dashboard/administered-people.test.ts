import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Secret, TOTP } from 'otpauth';

import { chromium, pageProblems } from '#support/chromium';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';

const password = 'correct horse battery';

/** Each test opens several pages, which axe checks twice, on a machine that may be busy. */
const timeout = 120_000;

await suite('browser', 'people, groups and audit log in a browser', () => {
  let server: ServerProcess;
  let browser: Browser;
  let owner: Page;

  const newPage = async (options: { javaScriptEnabled?: boolean } = {}): Promise<Page> => {
    const context = await browser.newContext(options);
    context.setDefaultTimeout(60_000);
    return context.newPage();
  };
  const dashboard = (path: string) => `${server.base}/dashboard/acme${path}`;
  const inspect = async (page: Page) => {
    expect(await pageProblems(page)).toEqual([]);
    await page.setViewportSize({ width: 1200, height: 800 });
  };
  const signIn = async (page: Page, email: string) => {
    await page.goto(`${server.base}/sign-in`);
    await page.getByLabel('E-mail', { exact: true }).fill(email);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  };

  beforeAll(async () => {
    server = await serverProcess();
    await server.command(['organization', 'create', 'acme']);
    await server.command(['server', 'create', 'acme/sales', '--demo']);
    const words = ['user', 'create', 'owner@example.com', '--organization', 'acme'];
    await server.command([...words, '--role', 'owner'], password);
    browser = await chromium();
    owner = await newPage();
    await signIn(owner, 'owner@example.com');
  });
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
  });

  test(
    'an owner creates a group, restricts a server to it, and invites a person into it',
    { timeout },
    async () => {
      await owner.goto(dashboard('/groups'));
      await inspect(owner);
      await owner.getByLabel('Name', { exact: true }).fill('Sales');
      await owner.getByRole('button', { name: 'Create group' }).click();
      await owner.getByLabel('Group name at the provider').fill('idp-sales');
      await owner.getByRole('button', { name: 'Add mapping' }).click();
      await owner.getByText('idp-sales').waitFor();
      await inspect(owner);

      await owner.goto(dashboard('/servers/sales/access'));
      await owner.getByLabel('Only members of these groups').check();
      await owner.getByLabel('Sales', { exact: true }).check();
      await owner.getByRole('button', { name: 'Save' }).click();
      await owner.getByText('the groups have no members').waitFor();
      await inspect(owner);
      await owner.getByRole('button', { name: 'Change access' }).click();
      await owner.getByText('Saved.').waitFor();
      await inspect(owner);

      await owner.goto(dashboard('/people/invite'));
      await inspect(owner);
      await owner.getByLabel('Recipient').fill('Viola');
      await owner.getByLabel('Viewer', { exact: true }).check();
      await owner.getByLabel('Sales', { exact: true }).check();
      await owner.getByRole('button', { name: 'Create link' }).click();
      const link = await owner.locator('code.value').textContent();
      await inspect(owner);
      await owner.getByLabel('I have stored it').check();
      await owner.getByRole('button', { name: 'Done' }).click();

      const viewer = await newPage({ javaScriptEnabled: false });
      const looked = await newPage();
      await looked.goto(link ?? '');
      await inspect(looked);
      await viewer.goto(link ?? '');
      await viewer.getByLabel('E-mail', { exact: true }).fill('viola@example.com');
      await viewer.getByLabel('New password', { exact: true }).fill(password);
      await viewer.getByLabel('Confirm new password').fill(password);
      await viewer.getByRole('button', { name: 'Create account and join' }).click();
      await viewer.waitForURL(/\/dashboard\/acme/);
      const used = await viewer.goto(link ?? '');
      const hidden = await viewer.goto(dashboard('/audit'));
      const people = await viewer.goto(dashboard('/people'));
      expect([used?.status(), hidden?.status(), people?.status()]).toEqual([410, 403, 403]);
      expect(await viewer.getByText('Invite people').count()).toBe(0);

      await viewer.goto(dashboard('/servers'));
      const seen = await viewer.getByRole('main').getByRole('link').allTextContents();
      const guard = await viewer.locator('[name=csrf_token]').first().inputValue();
      const refused = await viewer.request.post(dashboard('/new-server'), {
        form: { csrf_token: guard, name: 'hers', kind: 'demo' },
        headers: { Origin: server.base },
      });
      await viewer.goto(dashboard('/servers'));
      expect(seen.map((text) => text.trim())).toContain('sales');
      expect(seen.filter((text) => /\b(create|change|delete)\b/i.test(text))).toEqual([]);
      expect(refused.status()).toBe(403);
      expect(await refused.text()).toContain('Your role does not allow this');
      expect(await viewer.getByText('hers', { exact: true }).count()).toBe(0);
    },
  );

  test('a role change takes effect, and a removed person is signed out', { timeout }, async () => {
    await owner.goto(dashboard('/people'));
    await inspect(owner);
    await owner.getByRole('link', { name: 'viola@example.com' }).click();
    await inspect(owner);
    await owner.getByLabel('Member', { exact: true }).check();
    await owner.getByRole('button', { name: 'Change role' }).click();
    await owner.getByText('Role changed').waitFor();
    await owner.goto(`${owner.url().split('?')[0]}/offboard`);
    await owner.getByRole('button', { name: 'Offboard viola@example.com' }).click();
    await owner.getByText('Offboarded.').waitFor();
    const viewer = await newPage();
    await signIn(viewer, 'viola@example.com');
    await viewer.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
    const gone = await viewer.goto(dashboard('/people'));

    expect(gone?.status()).toBe(404);
  });

  test(
    '83: an authenticator app is set up and required, and the organization can require it of everyone',
    { timeout },
    async () => {
      await owner.goto(`${server.base}/account`);
      await owner.getByRole('button', { name: 'Set up an authenticator app' }).click();
      await inspect(owner);
      const secret = (await owner.locator('main .field code').first().textContent()) ?? '';
      const code = (step: number) =>
        TOTP.generate({
          secret: Secret.fromBase32(secret.replaceAll(' ', '')),
          timestamp: Date.now() + step * 30_000,
        });
      await owner.getByLabel('Code from the app').fill(code(0));
      await owner.getByRole('button', { name: 'Turn on' }).click();
      const codes = await owner.locator('.codes code').allTextContents();
      const [recovery = ''] = codes;
      await inspect(owner);
      await owner.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await owner.getByRole('button', { name: 'Copy the recovery codes' }).click();
      await owner.locator('button[data-copy]', { hasText: 'Copied' }).waitFor();
      expect(await owner.evaluate('navigator.clipboard.readText()')).toBe(codes.join('\n'));
      await owner.getByRole('button', { name: 'I have stored them' }).click();
      await inspect(owner);

      await owner.goto(dashboard('/settings'));
      await inspect(owner);
      await owner.getByLabel('Require a second factor').check();
      await owner.getByRole('button', { name: 'Save' }).click();
      await owner.getByText('Saved.').waitFor();

      const again = await newPage();
      await signIn(again, 'owner@example.com');
      await inspect(again);
      await again.getByLabel('Code from your authenticator app').fill('000000');
      await again.getByRole('button', { name: 'Sign in' }).click();
      await again.getByLabel('Code from your authenticator app').fill(recovery);
      await again.getByRole('button', { name: 'Sign in' }).click();
      await again.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
      expect((await again.goto(dashboard('/people')))?.status()).toBe(200);
    },
  );

  test(
    '88: the audit log shows who did what to what, and can be exported',
    { timeout },
    async () => {
      await owner.goto(dashboard('/audit'));
      await inspect(owner);
      await owner.goto(dashboard('/audit?action=person.offboard'));
      const rows = owner.locator('tbody tr');
      expect(await rows.count()).toBe(1);
      expect(await rows.first().textContent()).toContain('owner@example.com');
      const csv = await owner.request.get(dashboard('/audit/export?format=csv'));
      expect(csv.headers()['content-disposition']).toContain('attachment; filename="audit-acme-');
      expect(await csv.text()).toContain('"invitation.take"');
      await owner.goto(dashboard('/consents'));
      await inspect(owner);
    },
  );
});
