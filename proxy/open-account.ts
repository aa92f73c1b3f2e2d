import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { Account, OAuthConnection } from '#auth/account';
import { fileMarks } from '#auth/sign-in-marks';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { Host, UserHost } from '#host';
import { lazySecretStore } from '#keychain/lazy-secret-store';
import type { SecretStore } from '#keychain/secret-store';
import { sessionBusAddress } from '#keychain/session-bus';
import { processRefreshLock, sqliteRefreshLock } from '#auth/refresh-lock';
import { tokenAccount, tokenVault } from '#auth/token-vault';

/** What accounts and their secrets are opened with. */
export type AccountHost = Pick<Host, keyof UserHost | 'parentPid' | 'clock' | 'http' | 'keyring'>;

/** Opens the account of a connection: its secret store (when first used), its locks and its marks. */
export async function openAccount(
  connection: OAuthConnection,
  options: Options,
  host: AccountHost,
  openStore = async (): Promise<SecretStore> => openSecretStore(options, host),
): Promise<Account> {
  const { clock, http, env } = host;
  const { url, credentials, account } = connection;
  const { clientId = '', scopes = [], issuer, resource } = credentials;
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  const store = lazySecretStore(openStore);
  const purpose = { url, issuer, clientId, scopes, account, resource };
  const vault = tokenVault(store, await tokenAccount(purpose));
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
  if (options.secretStore === 'memory') {
    const { memorySecretStore } = await import('#keychain/memory-secret-store');
    return memorySecretStore();
  }
  const { fileSecretStore } = await import('#keychain/file-secret-store');
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  const keyFile = options.secretStoreKeyFile ?? '';
  return fileSecretStore({ directory: join(stateDirectory, 'secrets'), keyFile, platform });
}

/** The keychain's library asks the environment where the session bus is. */
export function findSessionBus({ env, parentPid }: Pick<Host, 'env' | 'parentPid'>): void {
  const readable = (path: string) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return undefined; // Another user's, or gone.
    }
  };
  const userId = userInfo().uid;
  const address = sessionBusAddress({
    env,
    parentPid,
    userId,
    exists: existsSync,
    readText: readable,
  });
  if (address) env['DBUS_SESSION_BUS_ADDRESS'] = address;
}
