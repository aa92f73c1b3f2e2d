import type { Browser, BrowserContext, Page } from 'playwright-core';

import { chromium } from './chromium.ts';
import { serverProcess, type ServerProcess } from './server-process.ts';

export const email = 'dana@example.com';
export const password = 'correct horse battery';

/** A browser of an administrator of `acme`, and its pages. */
export interface DashboardVisitor {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Opens a page of acme, such as `/servers`. */
  readonly open: (path: string, page?: Page) => Promise<void>;
  readonly press: (name: string) => Promise<void>;
  readonly follow: (name: string | RegExp) => Promise<void>;
  readonly fill: (fields: Readonly<Record<string, string>>) => Promise<void>;
  /** The secret on the page, once it is shown. */
  readonly shownSecret: () => Promise<string>;
  /** Confirms that the secret is stored, and goes on. */
  readonly store: () => Promise<void>;
}

/** A new browser profile without a session; `scripts: false` turns scripts off. */
export async function dashboardVisitor(
  browser: Browser,
  server: ServerProcess,
  { scripts = true }: { scripts?: boolean } = {},
): Promise<DashboardVisitor> {
  const context = await browser.newContext({ javaScriptEnabled: scripts });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  return {
    context,
    page,
    open: async (path, where = page) =>
      void (await where.goto(`${server.base}/dashboard/acme${path}`)),
    press: (name) => page.getByRole('button', { name, exact: true }).click(),
    follow: (name) =>
      page
        .getByRole('main')
        .getByRole('link', { name, exact: typeof name === 'string' })
        .first()
        .click(),
    async fill(fields) {
      for (const [label, value] of Object.entries(fields)) {
        await page.getByLabel(label, { exact: true }).fill(value);
      }
    },
    shownSecret: async () => (await page.locator('code.value').textContent()) ?? '',
    async store() {
      await page.getByLabel('I have stored it').check();
      await page.getByRole('button', { name: 'Done', exact: true }).click();
    },
  };
}

/** Makes the first owner with the printed link. */
export async function becomeOwner(
  { page, fill, press }: DashboardVisitor,
  server: ServerProcess,
): Promise<void> {
  await page.goto(/http:\S+\/set-up\/\S+/.exec(server.program.stdout)?.[0] ?? '');
  await fill({
    Organization: 'acme',
    'E-mail': email,
    'New password': password,
    'Confirm new password': password,
  });
  await press('Create account');
  await page.waitForURL('**/dashboard/*');
}

export interface OwnersDashboard extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly dana: DashboardVisitor;
}

/** A server with the demo `acme/library`, and a browser of Dana, who owns acme. */
export async function ownersDashboard(): Promise<OwnersDashboard> {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await serverProcess({ host: 'localhost' }));
  const browser = await chromium();
  stack.defer(() => browser.close());
  const dana = await dashboardVisitor(browser, server);
  await becomeOwner(dana, server);
  await server.command(['server', 'create', 'acme/library', '--demo']);
  const made = stack.move();
  return { server, dana, [Symbol.asyncDispose]: () => made.disposeAsync() };
}

/** Makes a key of `acme/library`. */
export async function libraryKey(
  server: ServerProcess,
  name: string,
  ...options: string[]
): Promise<{ id: string; key: string }> {
  const words = ['key', 'create', 'acme/library', '--name', name, '--json', ...options];
  return JSON.parse(await server.command(words));
}

export async function signInAs(
  { page, fill, press }: DashboardVisitor,
  server: ServerProcess,
  who: string,
): Promise<void> {
  await page.goto(`${server.base}/sign-in`);
  await fill({ 'E-mail': who, Password: password });
  await press('Sign in');
  await page.waitForURL('**/dashboard/**');
}
