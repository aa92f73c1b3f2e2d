import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import type { Page } from 'playwright-core';
import { z } from 'zod';

import { browserHandover } from './browser-handover.ts';
import { chromium } from './chromium.ts';
import { keychainSession, type KeychainSession } from './keychain-session.ts';
import { everyCommandLine, filesBelow } from './leaks.ts';
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

/** Dana's computer, with a keychain, a browser and two assistants. */
export interface PersonComputer extends AsyncDisposable {
  readonly session: KeychainSession;
  readonly home: string;
  /** The environment of her programs. */
  readonly env: Readonly<Record<string, string>>;
  /** The tab of her browser, which knows its cookies from page to page. */
  readonly page: Page;
  /** How many commands ran, how often Dana clicked, and how many pages were opened and not read. */
  readonly counts: () => { commands: number; clicks: number; pages: number };
  readonly latchkey: (...args: string[]) => Promise<Finished>;
  /** Runs a command, during which Dana acts on the page that the command opens. */
  readonly withPage: (
    act: () => Promise<string>,
    ...args: string[]
  ) => Promise<Finished & { shown: string }>;
  /** The address that a command opens; no page shows it yet. */
  readonly opened: () => Promise<string>;
  /** Clicks on a button by its name, or on another element by a CSS selector. */
  readonly click: (button: string | { readonly selector: string }) => Promise<void>;
  /** The text of the last page, at which the redirect of a sign-in arrives. */
  readonly outcome: () => Promise<string>;
  /** Starts the proxy of an assistant's entry, works with it, and ends it. */
  through<T>(
    file: string,
    name: string,
    work: (proxy: ProxyProcess) => Promise<T>,
    more?: Readonly<Record<string, string>>,
  ): Promise<T>;
  /** Everything that was printed, shown, written to a file or passed as an argument. */
  everything(): string;
}

/** `environment` returns more variables for the programs, which may depend on the home directory. */
export async function personComputer(
  environment: (home: string) => Readonly<Record<string, string>> = () => ({}),
): Promise<PersonComputer> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const session = stack.use(await keychainSession());
  const { path: home } = stack.use(await temporaryFolder('home'));
  const browser = stack.use(await browserHandover());
  const engine = stack.adopt(await chromium(), async (running) => running.close());
  const page = await engine.newPage();
  for (const file of assistantFiles) mkdirSync(dirname(join(home, file)), { recursive: true });
  const env = { ...inherited, ...session.env, ...browser.env, HOME: home, ...environment(home) };
  let commands = 0;
  let clicks = 0;
  let said = '';

  const latchkey = async (...args: string[]) => {
    commands += 1;
    const done = await runProgram(process.execPath, { args: [launcher, ...args], env });
    said += done.stdout + done.stderr;
    return done;
  };
  const started = stack.move();
  return {
    session,
    home,
    env,
    page,
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
    opened: () => browser.next(),
    async click(button) {
      clicks += 1;
      const found =
        typeof button === 'string'
          ? page.getByRole('button', { name: button, exact: true })
          : page.locator(button.selector);
      await found.click();
    },
    async outcome() {
      await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
      const shown = (await page.locator('main').textContent()) ?? '';
      said += shown;
      return shown;
    },
    async through(file, name, work, more = {}) {
      const text = readFileSync(join(home, file), 'utf8');
      const entry = entries.parse(JSON.parse(text)).mcpServers[name];
      await using proxy = proxyProcess({ args: [], ...entry, env: { ...env, ...more } });
      const result = await work(proxy);
      said += everyCommandLine(home) + proxy.stderr();
      return result;
    },
    everything: () =>
      [said, ...filesBelow(home).map((file) => readFileSync(file, 'latin1'))].join('\n'),
    [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
  };
}
