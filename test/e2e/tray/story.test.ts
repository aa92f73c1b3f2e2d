import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { chromium } from '#support/chromium';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { latchkeyHome, type LatchkeyHome } from '#support/latchkey-home';
import { filesBelow } from '#support/leaks';
import { inherited } from '#support/programs';
import { runningServer, type RunningServer } from '#support/running-server';
import { suite } from '#support/suite';
import { trayDesktop, type TrayDesktop } from '#support/tray/tray-desktop';

const email = 'dana@example.com';
const password = 'correct horse battery staple';
const count = { name: 'query', arguments: { sql: 'select count(*) as n from books' } };
const claude = '.config/Claude/claude_desktop_config.json';
const entries = z.object({
  mcpServers: z.record(
    z.string(),
    z.object({
      command: z.string(),
      args: z.array(z.string()),
      env: z.record(z.string(), z.string()).optional(),
    }),
  ),
});
const made = z.object({ key: z.string(), id: z.string() });
const client = z.object({ client_id: z.string(), client_secret: z.string() });

await suite(
  ['keychain', 'browser'],
  'a person with the tray app, a real server and a real keychain',
  () => {
    let keychain: KeychainSession;
    let home: LatchkeyHome;
    let server: RunningServer;
    let browser: Browser;
    let desktop: TrayDesktop;
    /** Dana's browser, which stays signed in. */
    let dana: Page;
    let url = '';
    let firstKey: z.infer<typeof made>;

    beforeAll(async () => {
      keychain = await keychainSession();
      home = await latchkeyHome(keychain.env);
      await home.write(claude, '{}\n');
      server = await runningServer({ args: ['--demo'] });
      url = `${server.base}/mcp/demo/library`;
      browser = await chromium();
      dana = await (await browser.newContext()).newPage();
      dana.setDefaultTimeout(60_000);
      await dana.goto(/http:\S+\/set-up\/\S+/.exec(server.program.stdout)?.[0] ?? '');
      await dana.getByLabel('E-mail').fill(email);
      await dana.getByLabel('New password', { exact: true }).fill(password);
      await dana.getByLabel('Confirm new password').fill(password);
      await button(dana, 'Create account').click();
      await dana.waitForURL('**/dashboard/*');
      firstKey = await newKey('first');
      desktop = await trayDesktop({
        browser,
        env: {
          ...home.env,
          ...inherited,
          npm_node_execpath: process.execPath,
          LATCHKEY_PRIVATE_KEY_PASSPHRASE: 'the passphrase',
        },
      });
    });
    afterAll(async () => {
      await desktop?.[Symbol.asyncDispose]();
      await browser?.close();
      await server?.[Symbol.asyncDispose]();
      await home?.[Symbol.asyncDispose]();
      await keychain?.[Symbol.asyncDispose]();
    });

    const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
    const newKey = async (name: string) =>
      made.parse(await server.command('key', 'create', 'demo/library', '--name', name));
    /** What Dana does with the page that her browser was sent to. */
    const decide = async (answer: 'Allow' | 'Deny') => {
      await dana.goto(await desktop.nextOpened());
      if (new URL(dana.url()).pathname === '/sign-in') {
        await dana.getByLabel('E-mail').fill(email);
        await dana.getByLabel('Password', { exact: true }).fill(password);
        await button(dana, 'Sign in').click();
      }
      await button(dana, answer).click();
      await dana.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\//);
    };
    /** Fills in the window Add connection up to the question who the person is. */
    const addWindow = async (name: string) => {
      await desktop.click('Add connection');
      const page = await desktop.window('add');
      await page.reload();
      await page.getByLabel('Server URL').fill(url);
      await button(page, 'Continue').click();
      await page.getByLabel('Name').fill(name);
      return page;
    };
    const started = async (name: string) => {
      const text = (await home.read(claude)) ?? '';
      const entry = entries.parse(JSON.parse(text)).mcpServers[name];
      if (!entry) throw new Error(`Claude Desktop does not start ${name}: ${text}`);
      const { env, ...rest } = entry;
      return home.start({ ...rest, ...(env && { env }) });
    };
    const install = async (name: string) => {
      await desktop.click('Assistants');
      const page = await desktop.window('assistants');
      await page.reload();
      await button(page, `Install ${name} in Claude Desktop`).click();
      await button(page, `Remove ${name} from Claude Desktop`).waitFor();
    };

    test('a wrong key is refused with the reason, and the right one is added', async () => {
      const page = await addWindow('nightly');
      await page.getByRole('radio', { name: 'API key' }).check();
      await page.locator('#secret').fill(`mcp_${'x'.repeat(36)}`);
      await button(page, 'Check and add').click();
      const alert = page.getByRole('alert');
      const refusal = await alert.textContent();
      await page.locator('#secret').fill(firstKey.key);
      await button(page, 'Check and add').click();
      await page.getByText('nightly is connected.').waitFor();
      await desktop.trayWhere(({ menu }) =>
        menu.some(({ label }) => label.includes('nightly — Connected')),
      );

      expect(refusal).toContain('credential');
    });

    test('an OAuth client is added by its id and secret', async () => {
      const robot = client.parse(
        await server.command(
          'client',
          'create',
          'demo/library',
          '--name',
          'robot',
          '--scope',
          'mcp:tools:read',
          '--scope',
          'mcp:tools:execute',
        ),
      );
      const page = await addWindow('robot');
      await page.getByRole('radio', { name: 'OAuth client' }).check();
      await page.getByLabel('Client ID', { exact: true }).fill(robot.client_id);
      await page.locator('#secret').fill(robot.client_secret);
      await button(page, 'Check and add').click();
      await page.getByText('robot is connected.').waitFor();
      const { tooltip } = await desktop.trayWhere(({ menu }) =>
        menu.some(({ label }) => label.includes('robot — Connected')),
      );

      expect(tooltip).toBe('Latchkey: all connections work');
    });

    test('a connection is added by consent: first denied, then allowed', async () => {
      const page = await addWindow('sales');
      await button(page, 'Add and sign in').click();
      await page.getByText('Finish in your browser.').waitFor();
      await decide('Deny');
      const alert = page.getByRole('alert');
      await alert.waitFor();
      const refusal = await alert.textContent();
      await desktop.click('sales', 'Sign in');
      await decide('Allow');
      const { tooltip } = await desktop.trayWhere(({ menu }) =>
        menu.some(({ label }) => label.includes('sales — Connected')),
      );

      expect(refusal).toContain('you chose Deny');
      expect(tooltip).toBe('Latchkey: all connections work');
      expect(await dana.locator('main').textContent()).toContain(`You are signed in as ${email}`);
      expect(desktop.browserEnvironment()).toContain('HOME');
      expect(desktop.browserEnvironment().filter((name) => /^latchkey_/i.test(name))).toEqual([]);

      await desktop.click('Connections');
      const connections = await desktop.window('connections');
      await connections.locator('summary', { hasText: `Signed in as ${email}` }).waitFor();
    });

    test('an entry installed in Claude Desktop starts exactly as written, and its proxy is shown at work', async () => {
      await install('sales');
      await using proxy = await started('sales');
      await proxy.handshake();
      const { result } = await proxy.request('tools/call', count);
      const page = await desktop.window('connections').catch(async () => {
        await desktop.click('Connections');
        return desktop.window('connections');
      });
      await page.locator('.card', { hasText: 'sales' }).locator('summary').click();
      await page.getByText('tools/call').first().waitFor();

      expect(JSON.stringify(result)).toMatch(/\d{3,}/);
    });

    test('signing out revokes at the server; then a waiting call, a notification and consent sign in again', async () => {
      await desktop.click('sales', 'Sign out');
      await desktop.trayWhere(({ menu }) =>
        menu.some(({ label }) => label.includes('sales — Sign-in required')),
      );
      const text = (await home.read(claude)) ?? '';
      const entry = entries.parse(JSON.parse(text)).mcpServers['sales'];
      await server.program.line(/"route":"\/api\/oauth\/revoke"/, { stream: 'stderr' });
      await using proxy = home.start({
        command: entry?.command ?? '',
        args: entry?.args ?? [],
        env: { ...entry?.env, LATCHKEY_SIGN_IN: 'always' },
      });
      const answered = proxy.handshake().then(async () => proxy.request('tools/call', count));
      const page = await desktop.window('connections');
      await page.getByText('waiting for a person to sign in with the browser').waitFor();
      await desktop.click('sales', 'Sign in');
      await decide('Allow');
      const { result, error } = await answered;

      expect(error).toBeUndefined();
      expect(JSON.stringify(result)).toMatch(/\d{3,}/);
    });

    test('a key is rotated: a wrong one is refused, the new one works, and the old one can be revoked', async () => {
      const next = await newKey('second');
      await desktop.click('nightly', 'Rotate API key');
      const page = await desktop.window('key');
      await page.getByLabel('New API key').fill(`mcp_${'x'.repeat(36)}`);
      await button(page, 'Check and store').click();
      await page.getByRole('alert').waitFor();
      await page.getByLabel('New API key').fill(next.key);
      await button(page, 'Check and store').click();
      await page.getByText('The new API key is stored.').waitFor();
      await server.command('key', 'revoke', firstKey.id);
      await install('nightly');
      await using proxy = await started('nightly');
      await proxy.handshake();
      const { result } = await proxy.request('tools/call', count);

      expect(JSON.stringify(result)).toMatch(/\d{3,}/);
    });

    test('no page was sent a secret, and no file of the user contains one', async () => {
      const files = filesBelow(home.path);
      const told = desktop.told();

      expect(server.issued.size).toBeGreaterThan(2);
      for (const secret of server.issued) {
        expect(told).not.toContain(secret);
        for (const text of files) expect(text).not.toContain(secret);
      }
    });
  },
);
