import { parseObject } from 'latchkey-mcp/json-value';
import { createHash } from 'node:crypto';
import { isClientSecretAccount, priorAccount } from '#keychain/secret-accounts';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigurationError, type Problem } from '#config/errors';
import type { Connection } from '#config/connection';
import { keychainWord } from '#config/secret';
import { connectionNames, openDocument } from '#config/find-entry';
import { defaultStateDirectory, registryFile, userFiles } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import type { BoundHost, ConnectionsHost } from './connections-host.ts';
import { signsIn, type OAuthConnection } from '#auth/account';
import { storedAccounts } from './stored-secrets.ts';
import { isTokenAccount, tokenVault } from '#auth/token-vault';

/** An account of the keychain, and the configuration file with the connection that uses it or will use it. */
export type OrphanedSecret = { account: string; file: string };

/**
 * Notes of keychain accounts that may hold a secret without a connection, while a connection is added, imported or removed. A
 * keychain cannot list its secrets, so these notes let the next process find the secrets that a crashed one left. They are small
 * files, which contain names of accounts and no secrets.
 */
export function orphanedSecrets({ stateDir }: Options, host: UserHost) {
  const directory = join(stateDir ?? defaultStateDirectory(host), 'loose');
  const at = (text: string) =>
    join(directory, createHash('sha256').update(text).digest('hex').slice(0, 32));
  const textOf = ({ account, file }: OrphanedSecret) => JSON.stringify({ account, file });
  return {
    /** Writes notes. They are on disk once this resolves. */
    async note(secrets: readonly OrphanedSecret[]): Promise<void> {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      for (const text of secrets.map(textOf))
        await writeFile(at(text), text, { mode: 0o600, flush: true });
    },
    /** Removes the notes of secrets that a connection now uses, or that were deleted. */
    async settled(secrets: readonly OrphanedSecret[]): Promise<void> {
      for (const text of secrets.map(textOf)) await rm(at(text), { force: true });
    },
    async all(): Promise<OrphanedSecret[]> {
      const names = await readdir(directory).catch((): string[] => []);
      const texts = names.map(async (name) => readFile(join(directory, name), 'utf8'));
      const read = await Promise.all(texts.map(async (text) => text.catch(() => '')));
      return read.map(secretOf).filter((secret) => secret !== undefined);
    },
  };
}

/** A note that was only partly written is ignored, because no secret is stored before its note is complete. */
function secretOf(text: string): OrphanedSecret | undefined {
  const { account, file } = parseObject(text) ?? {};
  if (typeof account !== 'string' || typeof file !== 'string') return undefined;
  return { account, file };
}

/** Runs `work` while no other process on this host adds, imports, removes or cleans up. */
export async function withoutCleanup<T>(host: BoundHost, work: () => Promise<T>): Promise<T> {
  return host.exclusively('loose secrets', work);
}

/**
 * Deletes the orphaned secrets that a crashed process left in the keychain. Usually there are none, and this only reads a
 * folder. A secret stays while a file that may use it cannot be read.
 *
 * @throws {SecretStoreError}
 */
export async function cleanUpSecrets(host: BoundHost): Promise<void> {
  const orphaned = orphanedSecrets(host.options, host);
  if ((await orphaned.all()).length === 0) return;
  await withoutCleanup(host, async () => {
    const secrets = await orphaned.all();
    const files = new Set([registryFile(host), ...secrets.map(({ file }) => file)]);
    const use = await accountUse([...files], host.options, host.unbound);
    const store = await host.store();
    for (const { account } of secrets.filter((one) => use(one.account) === 'free')) {
      if (isTokenAccount(account)) await tokenVault(store, account).clear();
      await store.remove(account);
      await store.remove(priorAccount(account));
    }
    await orphaned.settled(secrets.filter(({ account }) => use(account) !== 'unknown'));
  });
}

/**
 * Deletes the secrets of a connection that our file no longer has, and its tokens, without revoking them at the server. Secrets
 * stay if the `successor` of the same name or any other connection uses them, in our file or in an assistant's. A client's
 * secret also stays while one of those files cannot be read. Returns the accounts whose use is unknown for that reason.
 *
 * @throws {SecretStoreError}
 */
export async function forgetSecrets(
  connection: Connection,
  host: BoundHost,
  successor?: Connection,
): Promise<string[]> {
  const use = await accountUse([registryFile(host)], host.options, host.unbound);
  const store = await host.store();
  const successors = new Set(successor && (await ownAccounts(successor, host)));
  const stays = (account: string) => successors.has(account) || use(account) === 'needed';
  const isUnknown = (account: string) =>
    isClientSecretAccount(account) && use(account) === 'unknown';
  const gone = storedAccounts(connection).filter((account) => !stays(account));
  for (const account of gone.filter((one) => !isUnknown(one))) {
    await store.remove(account);
    await store.remove(priorAccount(account));
  }
  if (signsIn(connection)) {
    const { vault, lock } = await host.account(connection);
    if (!stays(vault.account)) await lock.hold(vault.account, async () => vault.clear());
  }
  return gone.filter(isUnknown);
}

/** The part of the host that reads connections and their accounts. */
type Reader = Pick<ConnectionsHost, keyof UserHost | 'readText' | 'readConnection' | 'account'>;

/** Whether a connection uses an account of the keychain; `unknown`: a file that may name it cannot be read. */
export type AccountUse = 'needed' | 'free' | 'unknown';

/**
 * The accounts of the keychain that the connections of these files, and those of assistants' own files, use. Several
 * files can share a client's secret, so its use is unknown while any of the files cannot be read; any other account belongs to a
 * connection of the file that names it. An assistant's file that no program of this user can read, such as a folder in
 * its place, names no secret.
 */
export async function accountUse(
  files: readonly string[],
  options: Options,
  host: Reader,
): Promise<(account: string) => AccountUse> {
  const own = await neededAccounts(files, options, host);
  const neighbours = userFiles(host).filter((file) => !files.includes(file));
  const others = own && (await neededAccounts(neighbours, options, host, 'no_file'));
  const all = others && new Set([...own, ...others]);
  return (account) => {
    const needed = isClientSecretAccount(account) ? all : (all ?? own);
    if (!needed) return 'unknown';
    return needed.has(account) ? 'needed' : 'free';
  };
}

/**
 * The accounts of the keychain that the connections of these files use; `undefined` if a file or an entry cannot be
 * read, so that they are unknown. A problem with the code `ignoredCode` counts as no file.
 */
async function neededAccounts(
  files: readonly string[],
  options: Options,
  host: Reader,
  ignoredCode?: Problem['code'],
): Promise<Set<string> | undefined> {
  const needed = new Set<string>();
  const opening = { account: async (one: OAuthConnection) => host.account(one, options) };
  for (const file of files) {
    const read = (path: string) => host.readText(path);
    const { document, problem } = await openDocument(file, read);
    if (problem && (ignoredCode === undefined || problem.code !== ignoredCode)) return undefined;
    const own = file === registryFile(host);
    for (const name of await connectionNames([file], read)) {
      // Most entries of an assistant's file are not ours.
      if (!own && !refersToKeychain(document, name)) continue;
      const connection = await host
        .readConnection(name, { ...options, config: file })
        .catch((error: unknown) => {
          if (error instanceof ConfigurationError) return undefined;
          throw error;
        });
      if (!connection) return undefined;
      for (const account of await ownAccounts(connection, opening)) needed.add(account);
    }
  }
  return needed;
}

function refersToKeychain(document: unknown, name: string): boolean {
  const entries: unknown[] = [];
  JSON.stringify(document, (key, value: unknown) => {
    if (key === name) entries.push(value);
    return value;
  });
  return entries.some((entry) => JSON.stringify(entry)?.includes(JSON.stringify(keychainWord)));
}

/** The accounts of a connection's secrets and tokens. */
export async function ownAccounts(
  connection: Connection,
  host: Pick<BoundHost, 'account'>,
): Promise<string[]> {
  const kept = storedAccounts(connection);
  if (!signsIn(connection)) return kept;
  const { vault } = await host.account(connection);
  return [...kept, vault.account];
}

/**
 * The accounts of a connection for which the keychain has no secret yet. The secrets in its other accounts may belong to
 * another connection, so they must not be deleted with this connection.
 *
 * @throws {SecretStoreError}
 */
export async function emptyAccounts(connection: Connection, host: BoundHost): Promise<string[]> {
  const store = await host.store();
  const empty: string[] = [];
  for (const account of await ownAccounts(connection, host))
    if ((await store.get(account)) === undefined) empty.push(account);
  return empty;
}
