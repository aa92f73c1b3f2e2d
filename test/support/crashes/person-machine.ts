import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { AccountsService, ConnectionView } from '#proxy/connections/accounts-service';
import { settleRotation } from '#proxy/connections/secret-trial';
import { systemClock } from '#proxy/clock/clock';
import type { Launcher } from '#proxy/host';
import { openEndpointCheck } from '#proxy/app/checks';
import { openHost } from '#proxy/app/open-host';
import { readOptions } from '#proxy/config/options';
import { httpClient } from '#proxy/transport/http-client';
import { accountsOf, excuse } from '#proxy/app/accounts';
import { Connections } from '#proxy/connections/connections';
import { cookieBrowser } from '../cookie-browser.ts';
import { callAccounts } from '../call-accounts.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { ledTo } from '../tray/led-to.ts';
import { gate, aboutToSend } from './crash-run.ts';
import { memoryEntries, type MemoryKeychain } from './memory-keychain.ts';
import { gatedEntries } from './writes.ts';

const registry = '.config/latchkey/connections.json';
const startOfTime = 1_800_000_000;
/** Begins the account of an OAuth client: one for each issuer, which all connections to that issuer share. */
const shared = 'oauth client ';

/** The accounts service, just started: all that it knows is on disk and in the keychain. */
export type StartedAccounts = {
  readonly service: Omit<AccountsService, 'doctor'>;
  rename(from: string, to: string): Promise<unknown>;
  /** Calls a method by its name with JSON values, as another process does. */
  call(name: string, ...input: readonly unknown[]): Promise<unknown>;
  /** The first views of all connections, as the tray reads them at its start. */
  look(): Promise<ConnectionView[]>;
  /** Whether a call through the connection is answered; a rotation is then settled, as its proxy does. */
  works(name: string): Promise<boolean>;
};

/** A person's machine: a home directory and a keychain, on which programs start and crash. */
export interface PersonMachine extends AsyncDisposable {
  readonly home: string;
  readonly keychain: MemoryKeychain;
  start(): StartedAccounts;
  read(file: string): Promise<string | undefined>;
  write(file: string, text: string): Promise<void>;
  /** The connection names in Latchkey's configuration file; rejects if the file is not whole. */
  names(): Promise<string[]>;
  /** Accounts of the keychain that no connection refers to, neither in Latchkey's file nor in these files. */
  orphans(files?: readonly string[]): Promise<string[]>;
  /** Remembers the home and the keychain; the function that it returns restores exactly those. */
  remember(): Promise<() => Promise<void>>;
}

export async function personMachine(launcher: Launcher): Promise<PersonMachine> {
  const folder = await temporaryFolder('machine');
  const home = join(folder.path, 'home');
  await mkdir(home);
  const keychain: MemoryKeychain = { kept: new Map(), isGone: false };
  const AsyncEntry = gatedEntries(memoryEntries(keychain), gate);
  const options = readOptions({}, {});
  const network = httpClient(() => ({ ...options, env: {}, clientKeyPassphraseSecret: '' }));
  const stop = new AbortController().signal;
  /** A person at a browser who allows every request. */
  const openBrowser = async (url: URL) => {
    await cookieBrowser().open(url);
    return true;
  };
  let remembered = 0;

  const read = async (file: string) =>
    readFile(join(home, file), 'utf8').catch((error: unknown) => {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
      throw error;
    });
  const own = async () => (await read(registry)) ?? '{"mcpServers":{}}';

  return {
    home,
    keychain,
    start() {
      const startedAtMs = performance.timeOrigin + performance.now();
      const host = openHost(
        {
          platform: 'linux',
          home,
          env: {},
          pid: 2,
          parentPid: 1,
          nodeVersion: process.versions.node,
          launcher,
          // Backups are named by the second.
          clock: { ...systemClock(), now: () => startOfTime },
          http: {
            ...network,
            async request(request) {
              aboutToSend();
              return network.request(request);
            },
          },
          keyring: async () => ({ AsyncEntry }),
          openBrowser,
          writeLog: () => undefined,
          program: 'latchkey',
        },
        () => stop,
      );
      const service = accountsOf(new Connections({ host, options, given: {}, excuse }));
      return {
        service,
        rename: async (from, to) => service.rename(from, to),
        call: async (...line) => callAccounts(service, JSON.stringify(line)),
        async look() {
          for await (const views of service.watch(stop)) return views;
          return [];
        },
        async works(name) {
          const connection = await host.readConnection(name, options);
          const check = await openEndpointCheck(connection, options, { ...host, stop });
          const [found] = await check.run(stop);
          const store = async () => host.store(options);
          await settleRotation(connection, startedAtMs, options, host, store);
          return found?.state === 'ok';
        },
      };
    },
    read,
    async write(file, text) {
      await mkdir(dirname(join(home, file)), { recursive: true });
      await writeFile(join(home, file), text);
    },
    names: async () => Object.keys(JSON.parse(await own()).mcpServers),
    async orphans(files = []) {
      const texts = await Promise.all(files.map(async (file) => (await read(file)) ?? '{}'));
      const leads = [await own(), ...texts].map(ledTo);
      return [...keychain.kept.keys()].filter(
        (account) => !account.startsWith(shared) && leads.every((leadsTo) => !leadsTo(account)),
      );
    },
    async remember() {
      const copy = join(folder.path, String((remembered += 1)));
      await cp(home, copy, { recursive: true });
      const entries = [...keychain.kept];
      return async () => {
        await rm(home, { recursive: true });
        await cp(copy, home, { recursive: true });
        keychain.isGone = false;
        keychain.kept.clear();
        for (const [account, secret] of entries) keychain.kept.set(account, secret);
      };
    },
    async [Symbol.asyncDispose]() {
      network.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}
