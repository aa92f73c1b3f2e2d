import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { z } from 'zod';

import { assertionProvider, type AssertionProvider } from './assertion-provider.ts';
import { browserHandover } from './browser-handover.ts';
import { chromium } from './chromium.ts';
import { keychainSession, type KeychainSession } from './keychain-session.ts';
import { everyCommandLine, filesBelow } from './leaks.ts';
import { freePort } from './loopback.ts';
import { runProgram } from './processes.ts';
import { inherited } from './programs.ts';
import { launcher, proxyProcess, type ProxyProcess } from './proxy-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Files of the two assistants on the computer. */
export const assistantFiles = ['.cursor/mcp.json', '.gemini/settings.json'] as const;

const entries = z.object({
  mcpServers: z.record(z.string(), z.object({ command: z.string(), args: z.array(z.string()) })),
});

type Finished = Awaited<ReturnType<typeof runProgram>>;

/**
 * A computer with a keychain, a browser and two assistants, which Dana got from her company: its managed file names the provider of
 * the company, an independent one.
 */
export interface CompanyComputer extends AsyncDisposable {
  readonly company: AssertionProvider;
  readonly session: KeychainSession;
  readonly home: string;
  /** How many commands ran, how often Dana clicked, and how many pages were opened and not read. */
  counts(): { commands: number; clicks: number; pages: number };
  latchkey(...args: string[]): Promise<Finished>;
  /** A command during which Dana acts on the page that it opens. */
  withPage(act: () => Promise<string>, ...args: string[]): Promise<Finished & { shown: string }>;
  /** Enters her name and password at the provider and allows it; what the last page says. */
  readonly signIn: () => Promise<string>;
  /** The same when the provider requires her password once more; `opened` runs when its page is about to open. */
  confirm(opened: () => void): Promise<string>;
  /** The provider still knows her browser. */
  readonly signInAgain: () => Promise<string>;
  /** Works with a proxy that an assistant starts, and ends it. */
  through<T>(
    file: string,
    name: string,
    work: (proxy: ProxyProcess) => Promise<T>,
    more?: Readonly<Record<string, string>>,
  ): Promise<T>;
  /** Everything that was printed, shown, written to a file or passed as an argument. */
  everything(): string;
}

/** `servers`: where the managed file lets the provider be used; asked for once the company is there. */
export async function companyComputer(
  serversOf: (company: AssertionProvider) => Promise<readonly string[]>,
): Promise<CompanyComputer> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const session = stack.use(await keychainSession());
  const { path: home } = stack.use(await temporaryFolder('home'));
  const port = await freePort();
  const redirectUris = [`http://127.0.0.1:${port}/callback`];
  const company = stack.use(await assertionProvider({ redirectUris }));
  const browser = stack.use(await browserHandover());
  const engine = stack.adopt(await chromium(), async (running) => running.close());
  const page = await engine.newPage();
  for (const file of assistantFiles) mkdirSync(dirname(join(home, file)), { recursive: true });
  const { issuer, clientId, clientSecret } = company;
  const servers = await serversOf(company);
  const secret = { clientSecret: 'env:ACME_CLIENT_SECRET' };
  const provider = { issuer, clientId, ...secret, redirectPort: port, servers };
  const managed = join(home, 'managed.json');
  writeFileSync(managed, JSON.stringify({ identityProviders: [provider] }));
  const env = {
    ...inherited,
    ...session.env,
    ...browser.env,
    HOME: home,
    LATCHKEY_MANAGED_FILE: managed,
    ACME_CLIENT_SECRET: clientSecret,
  };
  let commands = 0;
  let clicks = 0;
  let said = '';

  const latchkey = async (...args: string[]) => {
    commands += 1;
    const done = await runProgram(process.execPath, { args: [launcher, ...args], env });
    said += done.stdout + done.stderr;
    return done;
  };
  const click = async (name: string) => {
    clicks += 1;
    await page.getByRole('button', { name }).click();
  };
  const outcome = async () => {
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    const shown = (await page.locator('main').textContent()) ?? '';
    said += shown;
    return shown;
  };
  const started = stack.move();
  return {
    company,
    session,
    home,
    counts: () => ({ commands, clicks, pages: browser.left }),
    latchkey,
    async withPage(act, ...args) {
      const running = latchkey(...args);
      const acting = act();
      const failed = running.then(async ({ code, stderr }) => {
        if (code === 0) return acting;
        throw new Error(`no page: ${stderr}`);
      });
      const shown = await Promise.race([acting, failed]);
      return { ...(await running), shown };
    },
    async signIn() {
      await page.goto(await browser.next());
      await page.locator('input[name=login]').fill('dana');
      await page.locator('input[name=password]').fill('x');
      await click('Sign-in');
      await click('Continue');
      return outcome();
    },
    async confirm(opened) {
      const address = await browser.next();
      opened();
      await page.goto(address);
      await page.locator('input[name=login]').fill('dana');
      await page.locator('input[name=password]').fill('x');
      await click('Sign-in');
      return outcome();
    },
    async signInAgain() {
      await page.goto(await browser.next());
      return outcome();
    },
    async through(file, name, work, more = {}) {
      const text = readFileSync(join(home, file), 'utf8');
      const entry = entries.parse(JSON.parse(text)).mcpServers[name];
      await using proxy = proxyProcess({ args: [], ...entry, env: { ...env, ...more } });
      const result = await work(proxy);
      said += everyCommandLine() + proxy.stderr();
      return result;
    },
    everything: () =>
      [said, ...filesBelow(home).map((file) => readFileSync(file, 'latin1'))].join('\n'),
    [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
  };
}
