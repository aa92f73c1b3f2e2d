import { join } from 'node:path';
import type { Account, OAuthConnection } from '#auth/account';
import { processRefreshLock, sqliteRefreshLock } from '#auth/refresh-lock';
import { fileMarks } from '#auth/sign-in-marks';
import { tokenAccount, tokenVault } from '#auth/token-vault';
import type { Options } from '#config/options';
import { defaultStateDirectory } from '#config/user-files';
import type { AccountHost } from '#host';
import { filesRemedy } from '#key-file-commands';
import { osSecretStore } from '#keychain/os-secret-store';
import { lazySecretStore, memorySecretStore, type SecretStore } from '#keychain/secret-store';
import { findSessionBus } from '#keychain/session-bus';

/** Opens the account of a connection: its secret store (on first use), its locks and its marks. */
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
  // A configured connection is listed by its name. A bare URL is in no file, so its mark stores the URL for listing.
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
    async provider() {
      if (credentials.kind !== 'authorization_code') return undefined;
      const { learnedProvider, managedFile, providerIn } = await import('#config/provider-files');
      const named =
        credentials.identityProvider ??
        (await providerIn(managedFile(host), url)) ??
        (await learnedProvider(stateDirectory, url));
      if (named?.clientSecret === undefined) return named;
      const { readReference } = await import('#auth/client-authentication');
      return { ...named, clientSecret: await readReference(named.clientSecret, env) };
    },
    async learnProvider(named) {
      const { learnedFile, learnProvider } = await import('#config/provider-files');
      await learnProvider(learnedFile(stateDirectory), url, named);
    },
    async sharedServers(list) {
      const { serversOf } = await import('#config/server-lists');
      return (await serversOf(stateDirectory, list)) ?? [];
    },
    async device() {
      if (alone) return undefined;
      const { ownDevice } = await import('#auth/device');
      return ownDevice(store, host.platform);
    },
    async readAssertion(reference) {
      const { readReference } = await import('#auth/client-authentication');
      return readReference(reference, env);
    },
    async listen(address) {
      const { redirectListener } = await import('#auth/redirect-listener');
      return redirectListener(address, async (ms) => clock.sleep(ms));
    },
  };
}

export async function openSecretStore(options: Options, host: AccountHost): Promise<SecretStore> {
  const { platform } = host;
  const stateDirectory = options.stateDir ?? defaultStateDirectory(host);
  const directory = join(stateDirectory, 'secrets');
  if (options.secretStore === 'os') {
    if (platform === 'linux') findSessionBus(host);
    const libraries = join(stateDirectory, 'libraries');
    const { keyring } = host;
    const remedy = () => filesRemedy(directory, host.home);
    return osSecretStore({ platform, load: keyring && (async () => keyring(libraries)), remedy });
  }
  if (options.secretStore === 'memory') return memorySecretStore();
  const { fileSecretStore } = await import('#keychain/file-secret-store');
  const keyFile = options.secretStoreKeyFile ?? '';
  return fileSecretStore({ directory, keyFile, platform });
}
