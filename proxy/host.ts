import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Account, OAuthConnection } from '#auth/account';
import { processRefreshLock, sqliteRefreshLock } from '#auth/refresh-lock';
import { fileMarks } from '#auth/sign-in-marks';
import { tokenAccount, tokenVault, type TokenRecord } from '#auth/token-vault';
import type { Clock } from '#clock/clock';
import type { Connection } from '#config/connection';
import type { Launcher } from '#config/launch-entry';
import type { Options } from '#config/options';
import { readConnection, type GivenEntry } from '#config/read-connection';
import { defaultStateDirectory } from '#config/user-files';
import type { KeyringLibrary } from '#keychain/os-secret-store';
import { lazySecretStore, memorySecretStore, type SecretStore } from '#keychain/secret-store';
import { findSessionBus } from '#keychain/session-bus';
import type { ProxyRequest } from '#status/status-protocol';
import type { HttpClient } from '#transport/http-client';

/**
 * The computer, user and process that this program runs as. `main.ts` builds it from `process`, the tray app
 * from its own; functions take the part that they use.
 */
export type Host = {
  platform: NodeJS.Platform;
  /** The user's home directory. */
  home: string;
  /** The keychain adds the address of the session bus, which its library reads from here. */
  env: NodeJS.ProcessEnv;
  pid: number;
  parentPid: number;
  nodeVersion: string;
  clock: Clock;
  http: HttpClient;
  /** What an assistant has to start to get this very program. */
  launcher: Launcher;
  /** Loads the keychain's library from a folder of ours: a single executable has no packages. */
  keyring?: ((directory: string) => Promise<KeyringLibrary>) | undefined;
  /** Whether a browser was opened. */
  openBrowser: (url: URL) => Promise<boolean>;
  /** Writes one line of the log. */
  writeLog: (line: string) => void;
};

/** What it takes to find the files and folders of this user. */
export type UserHost = Pick<Host, 'platform' | 'home' | 'env'>;

/** What it takes to open accounts and their secrets. */
export type AccountHost = Pick<Host, keyof UserHost | 'parentPid' | 'clock' | 'http' | 'keyring'>;

/** How a server answered a check of its connection. */
export type Checked = {
  /** The kind of credential that the server accepts; `null`: it requires none. */
  as: 'api_key' | 'client' | 'person' | null;
  issuer?: string;
  /** Whether the server published metadata of its own. */
  published?: boolean;
  /** The client's token from the check. It is not stored yet if `options` store nothing. */
  token?: TokenRecord;
};

/** The host, with the connections, secrets and assistants of its user. */
export interface AccountsHost extends Host {
  /** `undefined` when there is no such file. Throws the platform's error when it cannot be read. */
  readText(path: string): string | undefined;

  /**
   * The connection that `target` means.
   *
   * @throws {ConfigurationError}
   */
  readConnection(target: string, options: Options, given?: GivenEntry): Promise<Connection>;

  account(connection: OAuthConnection, options: Options): Promise<Account>;

  store(options: Options): Promise<SecretStore>;

  /** Forgets what the server at `url` has answered, and which kind of server it is. */
  forgetCached(url: string, options: Options): Promise<void>;

  /** Does `work` while no other process of this host does work of that name. */
  exclusively<T>(name: string, options: Options, work: () => Promise<T>): Promise<T>;

  /** Asks the server whether it can be reached, and whether the credential is valid. */
  check(connection: Connection, options: Options, signal?: AbortSignal): Promise<Checked>;

  /** Sends a request to the running proxies of a connection, and returns how many have acted on it. */
  askProxies(request: ProxyRequest, connection: Connection, options: Options): Promise<number>;
}

/** Adds accounts and assistants to `host`. `stop` aborts when this process is to end. */
export function openHost(host: Host, stop: () => AbortSignal): AccountsHost {
  const { platform, env } = host;
  const stateOf = ({ stateDir }: Options) => stateDir ?? defaultStateDirectory(host);
  const stores = new Map<string, SecretStore>();

  /** One for all connections, so that what a keychain has not answered is counted over all of them. */
  function storeOf(options: Options): SecretStore {
    const open = lazySecretStore(async () => openSecretStore(options, host));
    if (options.secretStore === 'memory') return open;
    const { secretStore, secretStoreKeyFile } = options;
    // A session may begin after this process.
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
      const { checkConnection } = await import('./app.ts');
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

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const isAbsent = code === 'ENOENT' || code === 'ENOTDIR';
    if (isAbsent) return undefined;
    throw error;
  }
}
/** Opens the account of a connection: its secret store (when first used), its locks and its marks. */
export async function openAccount(
  connection: OAuthConnection,
  options: Options,
  host: AccountHost,
  openStore = async (): Promise<SecretStore> => openSecretStore(options, host),
): Promise<Account> {
  const { clock, http, env } = host;
  const { url, credentials, account } = connection;
  const { clientId = '', scopes = [] } = credentials;
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  const store = lazySecretStore(openStore);
  const vault = tokenVault(store, await tokenAccount(connection));
  const alone = options.secretStore === 'memory';
  const locks = join(stateDirectory, 'locks');
  const lock = alone ? processRefreshLock() : sqliteRefreshLock(locks, clock);
  const signInLock = alone ? processRefreshLock() : sqliteRefreshLock(locks, clock, 15 * 60);
  const place = account === undefined ? url : `${url} ${account}`;
  // A configured connection is listed by its name; a bare URL stands nowhere but here.
  const listed = connection.name === url && clientId === '' && scopes.length === 0 ? url : '';
  const marks = fileMarks(join(stateDirectory, 'sign-ins'), place, clock, alone, listed);
  return {
    connection,
    http,
    clock,
    store,
    vault,
    lock,
    signInLock,
    marks,
    async forgetCached() {
      const { forgetServer } = await import('#pipeline/cached-answers');
      await forgetServer({ url, account: vault.account }, options, host);
    },
    async readPrivateKey(path) {
      const { readPrivateKeyFile } = await import('#auth/client-authentication');
      return readPrivateKeyFile(path, env['LATCHKEY_PRIVATE_KEY_PASSPHRASE']);
    },
    async listen(where) {
      const { redirectListener } = await import('#auth/redirect-listener');
      return redirectListener(where, async (ms) => clock.sleep(ms));
    },
  };
}

/** The store that `options` chose, loaded when it is first needed. */
export async function openSecretStore(options: Options, host: AccountHost): Promise<SecretStore> {
  const { platform } = host;
  if (options.secretStore === 'os') {
    if (platform === 'linux') findSessionBus(host);
    const { osSecretStore } = await import('#keychain/os-secret-store');
    const libraries = join(options.stateDir ?? defaultStateDirectory(host), 'libraries');
    const { keyring } = host;
    return osSecretStore({ platform, load: keyring && (async () => keyring(libraries)) });
  }
  if (options.secretStore === 'memory') return memorySecretStore();
  const { fileSecretStore } = await import('#keychain/file-secret-store');
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  const keyFile = options.secretStoreKeyFile ?? '';
  return fileSecretStore({ directory: join(stateDirectory, 'secrets'), keyFile, platform });
}
