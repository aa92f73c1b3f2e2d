import type { Browser } from 'playwright-core';
import { expect } from 'vitest';
import { z } from 'zod';
import { chromium } from '../chromium.ts';
import { allow } from '../consenting-person.ts';
import { cookieBrowser } from '../cookie-browser.ts';
import { keychainSession, type KeychainSession } from '../keychain-session.ts';
import { latchkeyHome, type LatchkeyHome } from '../latchkey-home.ts';
import { inherited } from '../programs.ts';
import { launcher, type ProxyProcess } from '../proxy-process.ts';
import { serverProcess, type ServerProcess } from '../server-process.ts';
import { ledTo } from './led-to.ts';
import { trayDesktop, type TrayDesktop } from './tray-desktop.ts';
import { patient } from '../patient.ts';

export type Victim = 'app' | 'proxy' | 'keyring';

/** The app's answer to a request of one of its pages. */
export type Told = z.infer<typeof made.told>;

export type ClientSecrets = { id: string; secrets: [string, string] };

/** The tray app, a server and a keychain, any of which can be killed while the app works. */
export interface KillBench extends AsyncDisposable {
  /** The endpoint that connections lead to. */
  readonly url: string;
  /** Two valid keys of the endpoint. */
  readonly keys: [string, string];
  /** A client of the endpoint with two valid secrets. */
  readonly client: ClientSecrets;
  /** Another client with two valid secrets, through which people sign in. */
  readonly personsClient: ClientSecrets;
  /** The app that runs now. */
  app(): TrayDesktop;
  /** Sends a request as a page of the app does; it is never answered when the app dies first. */
  ask(operation: string, input: object): Promise<Told>;
  /** Calls `asked`, while a person allows what the app shows in the browser. */
  allowed(asked: () => Promise<Told>): Promise<Told>;
  /** Starts the killed victim again, and waits until a restarted app shows what it found. */
  recover(victim: Victim): Promise<void>;
  keyringPid(): number;
  /** The connection names in Latchkey's configuration file; rejects if the file is not whole. */
  names(): Promise<string[]>;
  /** The tray's word for a connection; `undefined` when it has no such item. */
  stateOf(name: string): Promise<string | undefined>;
  /** The person's home directory. */
  readonly home: string;
  /** A file in it, as {@link LatchkeyHome} reads and writes it. */
  read(file: string): Promise<string | undefined>;
  write(file: string, text: string): Promise<void>;
  /** Starts the proxy as an assistant does; `words` follow the name. */
  connect(name: string, ...words: readonly string[]): ProxyProcess;
  /** Whether a call through the connection is answered. */
  works(name: string): Promise<boolean>;
  /** The entries of the keychain, by account. */
  kept(): Promise<ReadonlyMap<string, string>>;
  /** Accounts of the keychain that no connection refers to, neither in Latchkey's file nor in these files. */
  orphans(files?: readonly string[]): Promise<string[]>;
  /** Removes an entry from the keychain, as a person may do who looks into it. */
  forget(account: string): Promise<void>;
}

const dana = { email: 'dana@example.com', password: 'correct horse battery staple' };
const place = 'demo/library';
const registry = '.config/latchkey/connections.json';
const made = {
  key: z.object({ key: z.string() }),
  client: z.object({ client_id: z.string(), client_secret: z.string() }),
  secret: z.object({ client_secret: z.string() }),
  told: z.object({
    ok: z.boolean(),
    message: z.string().optional(),
    problem: z.string().optional(),
  }),
};

/** One connection, `steady`, already exists; what happens to other connections must not affect it. */
export async function killBench(): Promise<KillBench> {
  await using stack = new AsyncDisposableStack();
  const [keychain, server, browser] = await Promise.all([
    keychainSession({ startsItself: false }),
    serverProcess({ args: ['--demo'] }),
    chromium(),
  ]);
  stack.use(keychain);
  stack.use(server);
  stack.defer(async () => browser.close());
  const home = stack.use(await latchkeyHome(keychain.env));
  const person = ['user', 'create', dana.email, '--organization', 'demo', '--role', 'member'];
  await server.command(person, `${dana.password}\n`);
  const credentials = await credentialsOf(server);
  const parts = { keychain, server, browser, home };
  const bench = await benchOf(parts, credentials);
  await bench.ask('add', {
    name: 'steady',
    url: bench.url,
    credential: { as: 'api_key', apiKeySecret: bench.keys[0] },
  });
  const started = stack.move();
  return {
    ...bench,
    async [Symbol.asyncDispose]() {
      await bench.app()[Symbol.asyncDispose]();
      await started.disposeAsync();
    },
  };
}

async function credentialsOf(server: ServerProcess) {
  const json = async (...words: string[]): Promise<unknown> =>
    JSON.parse(await server.command([...words, '--json']));
  const key = async () => made.key.parse(await json('key', 'create', place, '--name', 'k')).key;
  const scopes = ['tools:read', 'tools:execute'].flatMap((scope) => ['--scope', `mcp:${scope}`]);
  const client = async (name: string, ...more: string[]): Promise<ClientSecrets> => {
    const created = await json('client', 'create', place, '--name', name, ...scopes, ...more);
    const { client_id: id, client_secret: first } = made.client.parse(created);
    const { client_secret: second } = made.secret.parse(await json('client', 'rotate', id));
    return { id, secrets: [first, second] };
  };
  const back = ['--redirect-uri', 'http://127.0.0.1/callback'];
  const keys: [string, string] = [await key(), await key()];
  return { keys, client: await client('c'), personsClient: await client('p', ...back) };
}

type Parts = {
  keychain: KeychainSession;
  server: ServerProcess;
  browser: Browser;
  home: LatchkeyHome;
};

async function benchOf(
  { keychain, server, browser, home }: Parts,
  credentials: Pick<KillBench, 'keys' | 'client' | 'personsClient'>,
): Promise<Omit<KillBench, typeof Symbol.asyncDispose>> {
  const start = async () => {
    const started = await trayDesktop({
      browser,
      killable: true,
      args: ['--hidden'],
      env: { ...home.env, ...inherited, npm_node_execpath: process.execPath },
    });
    await started.trayWhere(() => true);
    return started;
  };
  const read = async () => (await home.read(registry)) ?? '{"mcpServers":{}}';
  const names = async () => Object.keys(JSON.parse(await read()).mcpServers);
  const connect = (name: string, ...words: readonly string[]) =>
    home.start({ command: process.execPath, args: [launcher, 'connect', name, ...words] });
  const stateOf = async (name: string) =>
    app
      .tray()
      .menu.map(({ label }) => / (\S+) — (.*)$/.exec(label) ?? [])
      .find(([, of]) => of === name)?.[2];
  let app = await start();

  return {
    ...credentials,
    home: home.path,
    url: `${server.base}/mcp/${place}`,
    app: () => app,
    ask: async (operation, input) =>
      made.told.parse(
        await app.invokeFrom('latchkey://app/connections.html', true, { operation, input }),
      ),
    async allowed(asked) {
      const { opened, ended } = app;
      const before = opened.length;
      const asking = asked();
      const over = new AbortController();
      const end = () => over.abort();
      Promise.race([asking, ended]).then(end, end);
      while (!over.signal.aborted && opened.length === before)
        await new Promise((resolve) => setTimeout(resolve, patient.interval));
      const [address] = opened.slice(before);
      if (address !== undefined) {
        const cookies = cookieBrowser();
        const back = await allow(await cookies.follow(address), dana);
        // An app that ends before it has answered leaves the browser without an answer.
        await cookies.open(back).catch(() => undefined);
      }
      return asking;
    },
    async recover(victim) {
      if (victim === 'keyring') await keychain.startKeyring();
      if (victim !== 'app') return;
      await app[Symbol.asyncDispose]();
      app = await start();
      await expect.poll(async () => stateOf('steady'), patient).toBe('Connected');
    },
    keyringPid: () => keychain.keyringPid(),
    names,
    stateOf,
    read: async (file) => home.read(file),
    write: async (file, text) => home.write(file, text),
    connect,
    async works(name) {
      await using proxy = connect(name);
      await proxy.handshake();
      return (await proxy.request('tools/list')).result !== undefined;
    },
    kept: async () => keychain.contents(),
    async orphans(files = []) {
      const texts = await Promise.all(files.map(async (file) => (await home.read(file)) ?? '{}'));
      const leads = [await read(), ...texts].map(ledTo);
      return [...(await keychain.contents()).keys()].filter((account) =>
        leads.every((leadsTo) => !leadsTo(account)),
      );
    },
    forget: async (account) => keychain.forget(account),
  };
}
