import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { z } from 'zod';
import type { ConnectionView } from '#proxy/connections/accounts-service';
import { buildTray } from '#scripts/tray';
import { patient } from '../patient.ts';
import { wirePage, type FatalWrite, type FromApp, type RecordedItem, type ToApp } from './wire.ts';

const windowSize = z.object({ width: z.number(), height: z.number() });

/** Chromium does not know Latchkey's scheme, so its pages have an origin that no other page can have. */
const shownOrigin = 'https://app.latchkey.invalid';
const ownOrigin = 'latchkey://app';

type Distributed<T, Gone extends PropertyKey> = T extends unknown ? Omit<T, Gone> : never;

export type TrayState = Extract<FromApp, { tell: 'tray' }>;
export type ShownNotice = Extract<FromApp, { tell: 'notification' }>;

/** The tray app on a desktop that a test plays: its windows in Chromium, its tray and notices recorded. */
export interface TrayDesktop extends AsyncDisposable {
  readonly pid: number;
  /** The newest state of the tray. */
  readonly tray: () => TrayState;
  readonly notices: ShownNotice[];
  /** Addresses that were handed to the system's browser. */
  readonly opened: string[];
  /** The names of the environment variables with which the browser was last started. */
  readonly browserEnvironment: () => readonly string[];
  /** The options with which each window was made. */
  readonly windowOptions: unknown[];
  readonly permissions: () => boolean[];
  /** All that the app ever told a page. */
  readonly told: () => string;
  readonly stderr: () => string;
  /** The window with the page of this name, once it shows its heading and the content that it loads first. */
  window(name: string): Promise<Page>;
  /** Waits until `looks` accepts the state of the tray. */
  trayWhere(looks: (state: TrayState) => boolean): Promise<TrayState>;
  /** Waits for the next address that is handed to the system's browser. */
  nextOpened(): Promise<string>;
  nextNotice(): Promise<ShownNotice>;
  /** Clicks the menu item at the end of `path`, of which each element is the beginning of a label. */
  click(...path: string[]): Promise<void>;
  clickNotice(notice: ShownNotice): void;
  /** Asks the program as a frame of that address would. */
  invokeFrom(url: string, mainFrame: boolean, payload: unknown): Promise<unknown>;
  mayNavigate(url: string): Promise<boolean>;
  mayOpen(url: string): Promise<boolean>;
  clipboard(): Promise<unknown>;
  startAgain(): void;
  /** What the scripted accounts service returns from now on. */
  script(connections: ConnectionView[]): void;
  /** The scripted accounts service fails once, with these words. */
  failScript(words: string): void;
  /** The scripted accounts service answers one call that it holds, or the next one that it would hold. */
  letScriptGoOn(): void;
  kill(): Promise<void>;
  /** Kills `victim`, a process id, or the app itself, when the app is about to do such a write. */
  killAt(write: FatalWrite, victim?: number): void;
  killNobody(): void;
  /** The writes that the app was about to make since {@link killAt}; `killed` once the victim was killed. */
  readonly points: () => { passed: readonly string[]; killed: boolean };
  /** Resolves when the app has ended. */
  readonly ended: Promise<void>;
  quit(): Promise<void>;
}

export type TrayDesktopOptions = {
  browser: Browser;
  /** All of the app's environment. */
  env: Record<string, string>;
  scripted?: boolean;
  /** Whether {@link TrayDesktop.killAt} is wanted. */
  killable?: boolean;
  args?: readonly string[];
};

const built = new Map<boolean, Promise<string>>();

/** Builds the app, once for each kind of accounts service, in each worker. */
async function builtTray(scripted: boolean): Promise<string> {
  const before = built.get(scripted);
  if (before) return before;
  // Beside node_modules, where Node finds the packages that are not bundled; each worker has its own folder.
  const name = `tray${scripted ? '-scripted' : ''}-${process.env['VITEST_POOL_ID'] ?? '0'}`;
  const folder = join(import.meta.dirname, '../../out', name);
  const building = buildTray(folder, scripted ? ['latchkey/accounts'] : []).then(() => folder);
  built.set(scripted, building);
  return building;
}

export async function trayDesktop(options: TrayDesktopOptions): Promise<TrayDesktop> {
  const { browser, env, scripted = false, killable = false, args = [] } = options;
  const folder = await builtTray(scripted);
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  context.setDefaultTimeout(60_000);
  const app = fork(join(folder, 'main.js'), [...args], {
    execArgv: ['hooks.ts', ...(killable ? ['kill-points.ts'] : [])].flatMap((file) => [
      '--import',
      join(import.meta.dirname, file),
    ]),
    env: { ...env, ...(scripted && { SCRIPTED_ACCOUNTS: '1' }) },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    serialization: 'advanced',
  });
  return desktopAround(app, context, readFileSync(join(folder, 'preload.cjs'), 'utf8'));
}

function desktopAround(app: ChildProcess, context: BrowserContext, preload: string): TrayDesktop {
  const pages = new Map<number, Promise<Page>>();
  const calls = new Map<number, PromiseWithResolvers<unknown>>();
  const watching = new Set<() => void>();
  const notices: ShownNotice[] = [];
  const opened: string[] = [];
  let browserEnvironment: readonly string[] = [];
  const windowOptions: unknown[] = [];
  let permissions: boolean[] = [];
  let points = { passed: [] as string[], killed: false };
  let tray: TrayState | undefined;
  let told = '';
  let stderr = '';
  let nextCall = 1;
  let nextOpened = 0;
  let nextNotice = 0;
  const ended = once(app, 'exit');
  app.stderr?.on('data', (text) => (stderr += String(text)));
  app.stdout?.on('data', (text) => (stderr += String(text)));

  const act = (message: ToApp) => void (app.connected && app.send(message));
  async function ask(message: Distributed<Extract<ToApp, { call: number }>, 'call'>) {
    const call = nextCall++;
    const answer = Promise.withResolvers<unknown>();
    calls.set(call, answer);
    act({ ...message, call });
    return answer.promise;
  }

  async function until<T>(look: () => T | undefined): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const check = () => {
      const found = look();
      if (found !== undefined) resolve(found);
    };
    watching.add(check);
    void ended.then(() => reject(new Error(`the app has ended: ${stderr}`)));
    const late = setTimeout(() => {
      const shown = JSON.stringify(tray);
      reject(new Error(`waited for ${look.toString()}, but the tray is ${shown}: ${stderr}`));
    }, patient.timeout);
    check();
    return promise.finally(() => {
      clearTimeout(late);
      watching.delete(check);
    });
  }

  async function makePage(window: number): Promise<Page> {
    const page = await context.newPage();
    await page.exposeBinding(
      'invokeProgram',
      async ({ frame }, channel: string, payload: unknown) => {
        const value = await ask({
          act: 'invoke',
          window,
          channel,
          payload,
          url: frame.url().replace(shownOrigin, ownOrigin),
          mainFrame: frame === page.mainFrame(),
        });
        told += JSON.stringify(value);
        return value;
      },
    );
    await page.addInitScript({ content: asInitScript(preload) });
    await page.route(`${shownOrigin}/**`, async (route) => {
      const url = route.request().url().replace(shownOrigin, ownOrigin);
      const { status, headers, body } = wirePage.parse(await ask({ act: 'fetch', url }));
      await route.fulfill({ status, headers: Object.fromEntries(headers), body });
    });
    page.on('close', () => {
      pages.delete(window);
      act({ act: 'closed', window });
    });
    page.on('crash', () => (stderr += `page ${page.url()}: its renderer crashed\n`));
    page.on('pageerror', (error) => (stderr += `page: ${error.message}\n`));
    page.on('console', (message) => {
      if (message.type() === 'error') stderr += `page: ${message.text()}\n`;
    });
    return page;
  }

  async function hear(message: FromApp): Promise<void> {
    switch (message.tell) {
      case 'window': {
        windowOptions.push(message.options);
        pages.set(message.window, makePage(message.window));
        break;
      }
      case 'load': {
        const page = await pages.get(message.window);
        const { width, height } = windowSize.parse(windowOptions.at(-1));
        await page?.setViewportSize({ width, height });
        await page?.goto(message.url.replace(ownOrigin, shownOrigin));
        act({ act: 'ready', window: message.window });
        break;
      }
      case 'send': {
        told += JSON.stringify(message.payload);
        const page = await pages.get(message.window);
        await page
          ?.evaluate(([channel, payload]) => window.hearFromProgram?.(channel, payload), [
            message.channel,
            message.payload,
          ] as const)
          .catch(() => undefined); // It fails while the page loads or closes; a loaded page asks by itself.
        break;
      }
      case 'tray':
        tray = message;
        break;
      case 'notification':
        notices.push(message);
        break;
      case 'external':
        opened.push(message.url);
        browserEnvironment = message.environment;
        break;
      case 'permissions':
        permissions = message.granted;
        break;
      case 'point':
        points.passed.push(message.what);
        points.killed = message.killed;
        break;
      case 'answer': {
        const answer = calls.get(message.call);
        calls.delete(message.call);
        if (message.error === undefined) answer?.resolve(message.value);
        else answer?.reject(new Error(message.error));
        break;
      }
      case 'focus':
      case 'close':
    }
    for (const check of watching) check();
  }
  app.on('message', (message: FromApp) => void hear(message));

  const firstWindow = () => [...pages.keys()][0] ?? 0;
  return {
    pid: app.pid ?? 0,
    tray: () => tray ?? { tell: 'tray', icon: '', tooltip: '', menu: [] },
    notices,
    opened,
    browserEnvironment: () => browserEnvironment,
    windowOptions,
    permissions: () => permissions,
    told: () => told,
    stderr: () => stderr,
    async window(name) {
      const heading = async () => {
        const all = await Promise.all(pages.values());
        return all.find((page) => page.url().startsWith(`${shownOrigin}/${name}.html`));
      };
      const deadline = performance.now() + patient.timeout;
      for (;;) {
        const page = await heading();
        if (page) {
          const loaded = async () => {
            await page.locator('#page h1').waitFor();
            await page.getByText('Loading connections…').waitFor({ state: 'hidden' });
          };
          await loaded().catch(async (error: unknown) => {
            const shown = await page.content().catch(String);
            throw new Error(`${name} shows ${shown} of ${[...calls.keys()].join()}: ${stderr}`, {
              cause: error,
            });
          });
          return page;
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
        if (app.exitCode !== null || performance.now() > deadline)
          throw new Error(`no window ${name} showed its heading: ${stderr}`);
      }
    },
    trayWhere: async (looks) => until(() => (tray && looks(tray) ? tray : undefined)),
    async nextOpened() {
      const at = nextOpened++;
      return until(() => opened[at]);
    },
    async nextNotice() {
      const at = nextNotice++;
      return until(() => notices[at]);
    },
    async click(...path) {
      const found = await until(() => itemAt(tray?.menu ?? [], path));
      act({ act: 'clickMenu', item: found.item });
    },
    clickNotice: ({ notification }) => act({ act: 'clickNotification', notification }),
    invokeFrom: async (url, mainFrame, payload) =>
      ask({
        act: 'invoke',
        window: firstWindow(),
        channel: 'latchkey:ask',
        url,
        mainFrame,
        payload,
      }),
    mayNavigate: async (url) =>
      (await ask({ act: 'mayNavigate', window: firstWindow(), url })) === true,
    mayOpen: async (url) => (await ask({ act: 'mayOpen', window: firstWindow(), url })) === true,
    clipboard: async () => ask({ act: 'clipboard' }),
    script: (connections) => act({ act: 'scripted', connections }),
    letScriptGoOn: () => act({ act: 'scriptedGoOn' }),
    failScript: (words) => act({ act: 'scriptedFailure', words }),
    startAgain: () => act({ act: 'secondInstance' }),
    killAt(write, victim = 0) {
      points = { passed: [], killed: false };
      act({ act: 'killAt', write, victim });
    },
    killNobody: () => act({ act: 'killNobody' }),
    points: () => points,
    ended: ended.then(() => undefined),
    async kill() {
      app.kill('SIGKILL');
      await ended;
    },
    async quit() {
      act({ act: 'quit' });
      await ended;
    },
    async [Symbol.asyncDispose]() {
      app.kill('SIGKILL');
      await ended;
      await context.close();
    },
  };
}

declare global {
  /** The `window` of a page, with what the harness adds to it. */
  var window: { hearFromProgram?: (channel: string, payload: unknown) => void };
}

/** The bundled preload, with a stand-in for `electron` in a sandboxed page. */
function asInitScript(preload: string): string {
  return `(() => {
    const listeners = new Map();
    globalThis.hearFromProgram = (channel, payload) =>
      (listeners.get(channel) ?? []).forEach((listener) => listener({}, payload));
    const electron = {
      contextBridge: { exposeInMainWorld: (name, value) => { globalThis[name] = value; } },
      ipcRenderer: {
        invoke: (channel, payload) => globalThis.invokeProgram(channel, payload),
        on: (channel, listener) => listeners.set(channel, [...(listeners.get(channel) ?? []), listener]),
      },
    };
    const require = (name) => {
      if (name === 'electron') return electron;
      throw new Error('a sandboxed preload cannot have ' + name);
    };
    ((require, module, exports) => {
      ${preload}
    })(require, { exports: {} }, {});
  })();`;
}

function itemAt(items: readonly RecordedItem[], path: readonly string[]): RecordedItem | undefined {
  const [first = '', ...rest] = path;
  const found = items.find(({ label }) => label.replace(/^\W+ /u, '').startsWith(first));
  return rest.length === 0 || !found ? found : itemAt(found.items, rest);
}
