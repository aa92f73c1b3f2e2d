import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OwnMachine } from '#auth/own-machine';
import { defaultStateDirectory } from '#config/default-state-directory';
import type { Launcher } from '#config/launch-entry';
import type { Options } from '#config/options';
import { readConnection } from '#config/read-connection';
import { openAccount, openSecretStore, type Place } from './open-account.ts';

export type MachinePorts = Place & {
  launcher: Launcher;
  openBrowser: (url: URL) => Promise<boolean>;
  /** Takes one line of the log. */
  writeLog: (line: string) => void;
  /** Aborts when this process is to end. */
  stop: () => AbortSignal;
};

/** Marries what is done with accounts and assistants to the machine that this process is on. */
export function openMachine(ports: MachinePorts): OwnMachine & Place {
  const { platform, home, env, parentPid, clock, http, keyring, launcher } = ports;
  const place: Place = { platform, home, env, parentPid, clock, http, keyring };
  const stateOf = ({ stateDir }: Options) => stateDir ?? defaultStateDirectory(place);
  return {
    ...place,
    launcher,
    readText,
    readConnection: async (target, { config }, given) =>
      readConnection(target, config, place, readText, {
        ...(given && { given }),
        async readWords(written, own) {
          const { typedEntry } = await import('#config/typed-entry');
          return typedEntry(written, { ...place, readText, env: { ...env, ...own } });
        },
      }),
    account: async (connection, options) => openAccount(connection, options, place),
    store: async (options) => openSecretStore(options, place),
    async forgetKept(url, options) {
      const { forgetKept } = await import('./open-kept.ts');
      await forgetKept({ url, account: '' }, options, place);
    },
    async exclusively(name, options, work) {
      const { sqliteRefreshLock } = await import('#auth/sqlite-refresh-lock');
      return sqliteRefreshLock(join(stateOf(options), 'locks'), clock).hold(name, work);
    },
    async check(connection, options, signal) {
      const { checkConnection } = await import('./check-connection.ts');
      const stop = signal ? AbortSignal.any([ports.stop(), signal]) : ports.stop();
      return checkConnection(connection, options, { ...ports, stop });
    },
    async askProxies(request, connection, options) {
      const { openWatch } = await import('./open-watch.ts');
      const { isProxyOf } = await import('#status/is-proxy-of');
      const watch = await openWatch(stateOf(options), platform);
      try {
        return await watch.ask(request, (proxy) => isProxyOf(proxy, connection));
      } finally {
        watch.close();
      }
    },
  };
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
