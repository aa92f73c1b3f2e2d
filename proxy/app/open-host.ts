import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sqliteRefreshLock } from '#auth/refresh-lock';
import type { Options } from '#config/options';
import { readConnection } from '#config/read-connection';
import { defaultStateDirectory } from '#config/user-files';
import type { ConnectionsHost } from '#connections/connections-host';
import type { Host } from '#host';
import { lazySecretStore, type SecretStore } from '#keychain/secret-store';
import { findSessionBus } from '#keychain/session-bus';
import { openAccount, openSecretStore } from './open-account.ts';

/** Adds connections, secret stores and proxies to `host`. `stop` returns a signal that aborts when this process should end. */
export function openHost(host: Host, stop: () => AbortSignal): ConnectionsHost {
  const { platform, env } = host;
  const stateOf = ({ stateDir }: Options) => stateDir ?? defaultStateDirectory(host);
  const stores = new Map<string, SecretStore>();

  /** Connections share a store, unless it is in memory, so that keychain failures are counted across all of them. */
  function storeOf(options: Options): SecretStore {
    const open = lazySecretStore(async () => openSecretStore(options, host));
    if (options.secretStore === 'memory') return open;
    const { secretStore, secretStoreKeyFile } = options;
    // Looks for the session bus each time, because the desktop session may begin after this process.
    if (secretStore === 'os' && platform === 'linux') findSessionBus(host);
    const chosen = JSON.stringify([secretStore, secretStoreKeyFile, stateOf(options)]);
    const store = stores.get(chosen) ?? open;
    stores.set(chosen, store);
    return store;
  }

  return {
    ...host,
    readText,
    readConnection: async (target, { config }, given) =>
      readConnection(target, config, host, readText, {
        ...(given && { given }),
        async readWords(written, own) {
          const { typedEntry } = await import('#config/mcp-remote');
          return typedEntry(written, { ...host, readText, env: { ...env, ...own } });
        },
      }),
    account: async (connection, options) =>
      openAccount(connection, options, host, async () => storeOf(options)),
    store: async (options) => storeOf(options),
    async forgetCached(url, options) {
      const { forgetServer } = await import('#pipeline/cached-answers');
      await forgetServer({ url, account: '' }, options, host);
    },
    async exclusively(name, options, work) {
      return sqliteRefreshLock(join(stateOf(options), 'locks'), host.clock).hold(name, work);
    },
    async check(connection, options, signal) {
      const { checkConnection } = await import('./checks.ts');
      const until = signal ? AbortSignal.any([stop(), signal]) : stop();
      return checkConnection(connection, options, { ...host, stop: until });
    },
    async askProxies(request, connection, options) {
      const [{ watchOwnProxies }, { isProxyOf }] = await Promise.all([
        import('#status/watch-proxies'),
        import('#status/running-proxy'),
      ]);
      const watch = await watchOwnProxies(stateOf(options), platform);
      try {
        return await watch.ask(request, (proxy) => isProxyOf(proxy, connection));
      } finally {
        watch.close();
      }
    },
  };
}

/** The text of a file; `undefined` if it does not exist. @throws the platform's error if it cannot be read */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const isAbsent = code === 'ENOENT' || code === 'ENOTDIR';
    if (isAbsent) return undefined;
    throw error;
  }
}
