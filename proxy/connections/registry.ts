import { ConfigurationError, UsageError } from '#config/errors';
import type { Checked } from './connections-host.ts';
import { type Connection, connectionEntry } from '#config/connection';
import { checkDocument, connectionNames, connectionsHint } from '#config/find-entry';
import { editJson, memberAt } from '#config/jsonc';
import { fileSnapshot, replaceFile } from '#config/replace-file';
import { registryFile } from '#config/user-files';
import { signsIn } from '#auth/account';
import { nearest } from 'latchkey-mcp/suggest';
import type { FilesHost } from '#host';
import { bindHost, type BoundHost } from './connections-host.ts';
import {
  forgetSecrets,
  orphanedSecrets,
  ownAccounts,
  cleanUpSecrets,
  emptyAccounts,
  withoutCleanup,
} from './orphaned-secrets.ts';
import { noteStored } from './secret-trial.ts';
import { signOutConnection, type SignedOut } from '#auth/sign-out';
import { storeSecrets, type ConnectionSecrets } from './stored-secrets.ts';
import type { TokenRecord } from '#auth/token-vault';

/**
 * Writes an entry to our own file, or removes it if `entry` is `undefined`. Holds a lock, so that two processes that add a
 * connection at the same time do not overwrite each other.
 */
export async function setRegistered(
  name: string,
  entry: Record<string, unknown> | undefined,
  host: BoundHost,
): Promise<void> {
  const file = registryFile(host);
  await host.exclusively(`file ${file}`, async () => {
    const snapshot = await fileSnapshot(file);
    const changes = [{ path: ['mcpServers', name], value: entry }];
    await replaceFile(snapshot, await editJson(snapshot.bytes, file, changes));
  });
}

/** Renames an entry of our own file and changes its account, in one step. */
export async function renameRegistered(
  from: string,
  { name, account }: { name: string; account: string | undefined },
  host: BoundHost,
): Promise<void> {
  const file = registryFile(host);
  await host.exclusively(`file ${file}`, async () => {
    const snapshot = await fileSnapshot(file);
    const entry = await memberAt(snapshot.bytes, ['mcpServers', from]);
    const value = { ...Object(entry), ...(account !== undefined && { account }) };
    const changes = [
      { path: ['mcpServers', from], value: undefined },
      { path: ['mcpServers', name], value },
    ];
    await replaceFile(snapshot, await editJson(snapshot.bytes, file, changes));
  });
}

/**
 * Our own connection with that name; `undefined` if there is none.
 *
 * @throws {ConfigurationError} if our file cannot be read
 */
export async function registered(name: string, host: BoundHost): Promise<Connection | undefined> {
  const config = registryFile(host);
  await checkDocument(config, (path) => host.readText(path));
  const names = await connectionNames([config], (path) => host.readText(path));
  return names.includes(name) ? host.readFrom(config, name) : undefined;
}

/** The error for a name that none of our own connections has. */
export async function unknownName(name: string, host: FilesHost): Promise<UsageError> {
  const names = await connectionNames([registryFile(host)], (path) => host.readText(path));
  const meant = nearest(name, names);
  const hint = meant === undefined ? connectionsHint : `did you mean ${meant}?`;
  return new UsageError(`no connection named ${name}`, hint);
}

/** Our own connection to `url`: the one named `name` if given, otherwise the first; `undefined` if there is none. */
export async function registeredFor(
  url: string,
  name: string | undefined,
  host: BoundHost,
): Promise<Connection | undefined> {
  for await (const connection of registeredConnections(host, name))
    if (connection.url === url) return connection;
  return undefined;
}

/** All connections of our own, or the one with that name, in the order of our file. */
export async function* registeredConnections(
  host: BoundHost,
  name?: string,
): AsyncGenerator<Connection, void> {
  const config = registryFile(host);
  const names = await connectionNames([config], (path) => host.readText(path));
  for (const known of name === undefined ? names : names.filter((one) => one === name))
    yield await host.readFrom(config, known);
}

/** Refuses a name that is not safe as a word in every shell and as a key in every file. */
export function checkName(name: string): void {
  if (/^[A-Za-z0-9][\w.-]{0,63}$/.test(name)) return;
  throw new UsageError(
    'a connection name has up to 64 letters, digits, dots, dashes and underscores',
    'example: latchkey add work https://latchkey.example.com/mcp/acme/sales',
  );
}

/** Refuses a name that an assistant's file uses for another URL, because `latchkey NAME` could mean either. */
export async function checkUnambiguous(name: string, url: string, host: BoundHost): Promise<void> {
  const { config: _, ...options } = host.options;
  const known = await bindHost(host.unbound, options)
    .readConnection(name)
    .catch((error: unknown) => {
      if (error instanceof ConfigurationError) return undefined;
      throw error;
    });
  if (!known || known.url === url || known.source === registryFile(host)) return;
  const problem = `already exists there for ${known.url}; choose another name, or change that entry`;
  throw new ConfigurationError([{ source: known.source, key: name, problem }]);
}

/** Refuses a name that our own file uses for another URL. */
export async function refuseTaken(
  { name, url, source }: Connection,
  host: BoundHost,
): Promise<void> {
  const known = await registered(name, host);
  if (!known || known.url === url) return;
  const problem = `${known.source} has ${name} for ${known.url}; remove or rename one`;
  throw new ConfigurationError([{ source, key: name, problem }]);
}

export type AddOptions = {
  /** Whether a connection with this name is replaced. */
  replace: boolean;
  /** Whether to check the connection at the server before anything is stored. */
  check: boolean;
  signal?: AbortSignal;
};

/**
 * Refuses a name that is invalid or already in use.
 *
 * @throws {UsageError} {@link ConfigurationError}
 */
export async function checkFree(
  { name, url }: { name: string; url: string },
  replace: boolean,
  host: BoundHost,
): Promise<void> {
  checkName(name);
  await checkUnambiguous(name, url, host);
  const before = await registered(name, host);
  if (before && !replace)
    throw new UsageError(
      `${name} already exists, for ${before.url}`,
      'add --replace, or choose another name',
    );
}

/**
 * Adds a connection to our file: checks it at the server, stores the secrets in the keychain, then the entry in our file, and
 * only then deletes what it replaces. If a crash interrupts this, the old or the new connection is complete, and the next
 * operation removes secrets that neither uses.
 *
 * @throws the error of the server's refusal; then nothing is stored
 */
export async function addConnection(
  connection: Connection,
  secrets: ConnectionSecrets,
  { replace, check, signal }: AddOptions,
  host: BoundHost,
): Promise<Omit<Checked, 'token'> | undefined> {
  const { name } = connection;
  await checkFree(connection, replace, host);
  // The check stores no token, because the keychain account for it must be noted first.
  const inMemory = bindHost(host.unbound, { ...host.options, secretStore: 'memory' });
  const found = check ? await inMemory.check(connection, signal) : undefined;
  // From now on, the secret is sent only to the issuer that it was just used with.
  const issuer = signsIn(connection) ? (connection.credentials.issuer ?? found?.issuer) : undefined;
  const store = await host.store();
  const orphaned = orphanedSecrets(host.options, host);
  await cleanUpSecrets(host);
  await withoutCleanup(host, async () => {
    // Another process may have added a connection with this name in the meantime.
    await checkFree(connection, replace, host);
    const before = await registered(name, host);
    const fresh = await emptyAccounts(connection, host);
    const goes = before ? await ownAccounts(before, host) : [];
    const noted = [...fresh, ...goes].map((account) => ({ account, file: connection.source }));
    await orphaned.note(noted);
    await storeSecrets(connection, { ...secrets, ...(issuer !== undefined && { issuer }) }, store);
    await noteStored(connection, secrets, host);
    if (found?.token) await keepToken(connection, found.token, host);
    await setRegistered(name, connectionEntry(connection), host);
    const unknown = before ? await forgetSecrets(before, host, connection) : [];
    await orphaned.settled(noted.filter(({ account }) => !unknown.includes(account)));
  });
  if (!found) return undefined;
  const { token: _, ...checked } = found;
  return checked;
}

async function keepToken(
  connection: Connection,
  token: TokenRecord,
  host: BoundHost,
): Promise<void> {
  if (!signsIn(connection)) return;
  const { vault, lock } = await host.account(connection);
  await lock.hold(vault.account, async () => vault.save(token));
}

/** `secretStays`: the client secret was kept, because an assistant's file that may use it cannot be read. */
export type Removed = SignedOut & { connection: Connection; secretStays: boolean };

/**
 * Signs out at the server, and deletes our own connection with its secrets. Deletes the entry before the secrets, so that no
 * assistant starts a connection without its secret.
 *
 * @throws {UsageError} if there is none with that name
 */
export async function removeConnection(name: string, host: BoundHost): Promise<Removed> {
  const connection = await registered(name, host);
  if (!connection) throw await unknownName(name, host);
  const signedOut = signsIn(connection)
    ? await signOutConnection(await host.account(connection), { atProvider: false })
    : { wasSignedIn: false };
  const orphaned = orphanedSecrets(host.options, host);
  await cleanUpSecrets(host);
  const secretStays = await withoutCleanup(host, async () => {
    const accounts = await ownAccounts(connection, host);
    const goes = accounts.map((account) => ({ account, file: connection.source }));
    await orphaned.note(goes);
    await setRegistered(name, undefined, host);
    const unknown = await forgetSecrets(connection, host);
    await orphaned.settled(goes.filter(({ account }) => !unknown.includes(account)));
    return unknown.length > 0;
  });
  await host.forgetCached(connection.url);
  return { ...signedOut, connection, secretStays };
}
