import { createHash } from 'node:crypto';
import { priorAccount } from '#keychain/secret-accounts';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { EpochSeconds } from '#clock/clock';
import type { Connection } from '#config/connection';
import { isInKeychain } from '#config/secret';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import type { BoundHost } from './connections-host.ts';
import type { SecretStore } from '#keychain/secret-store';
import { credentialAccount, type ConnectionSecrets } from './stored-secrets.ts';

/**
 * The rotation of a secret. The new secret is stored in the account of the connection, and the old one in a second account
 * until a call with the new one succeeds. After a crash, the accounts show how far the rotation came: if the second one is
 * empty or holds the same secret, nothing is on trial.
 */
export function secretTrial(account: string, store: SecretStore) {
  const prior = priorAccount(account);
  const both = async () => [await store.get(account), await store.get(prior)] as const;
  const isTrial = (current: string | undefined, before: string | undefined) =>
    before !== undefined && secretIn(before) !== secretIn(current);
  return {
    async isOn(): Promise<boolean> {
      return isTrial(...(await both()));
    },
    /** Makes `next` the secret in use. After two rotations in a row, the kept secret is still the last one that worked. */
    async begin(next: string): Promise<void> {
      const [current, before] = await both();
      if (current !== undefined && !isTrial(current, before)) await store.set(prior, current);
      await store.set(account, next);
    },
    /** Deletes the old secret, because the new one has worked. */
    async proven(): Promise<void> {
      await store.remove(prior);
    },
    /** Puts the old secret back; `false` if there is none. */
    async undo(): Promise<boolean> {
      const [current, before] = await both();
      if (before === undefined) return false;
      if (isTrial(current, before)) await store.set(account, before);
      await store.remove(prior);
      return isTrial(current, before);
    },
  };
}

/** A client secret is stored with the issuer that it is bound to, which may be added later. */
function secretIn(value: string | undefined): string | undefined {
  try {
    const kept: unknown = JSON.parse(value ?? '');
    if (typeof kept === 'object' && kept !== null && 'clientSecret' in kept)
      return String(kept.clientSecret);
  } catch {
    // An API key is stored as it is.
  }
  return value;
}

/** Facts about the secret in `account` of the keychain, in small files that contain nothing secret. */
export function secretMarks(account: string, stateDirectory: string) {
  const directory = join(stateDirectory, 'keys');
  const name = createHash('sha256').update(account).digest('hex').slice(0, 32);
  const at = (mark: string) => join(directory, `${name}.${mark}`);

  async function read(mark: string): Promise<number | undefined> {
    const value = Number(await readFile(at(mark), 'utf8').catch(() => ''));
    return value > 0 ? value : undefined;
  }

  async function write(mark: string, value: number): Promise<void> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await writeFile(at(mark), String(value), { mode: 0o600 });
  }

  return {
    storedAt: async () => read('stored'),
    /** Records when the secret was stored or, if that is unknown, first seen. */
    stored: async (when: EpochSeconds) => write('stored', when),
    /** When the trial began, in milliseconds since 1970; `undefined` when there is none. */
    trialAtMs: async () => read('trial'),
    trial: async (when: number) => write('trial', when),
    /** Records that the trial is over. */
    settled: async () => rm(at('trial'), { force: true }),
  };
}

/**
 * Ends a rotation after a successful call: deletes the old secret, if this process started with the new one. Without a
 * rotation on trial this reads one file, and not the keychain.
 *
 * @throws {SecretStoreError}
 */
export async function settleRotation(
  connection: Connection,
  startedAtMs: number,
  options: Options,
  host: UserHost,
  openStore: () => Promise<SecretStore>,
): Promise<void> {
  const { credentials } = connection;
  const value =
    credentials.kind === 'api_key' ? credentials.apiKeySecret : credentials.clientSecret;
  const account = credentialAccount(connection);
  if (!isInKeychain(value) || account === undefined) return;
  const marks = secretMarks(account, options.stateDir ?? defaultStateDirectory(host));
  const trialAtMs = await marks.trialAtMs();
  if (trialAtMs === undefined || trialAtMs >= startedAtMs) return;
  await secretTrial(account, await openStore()).proven();
  await marks.settled();
}

/** Puts the old secret back while the new one is on trial; `false` if there is none. */
export async function undoRotation(connection: Connection, host: BoundHost): Promise<boolean> {
  const account = credentialAccount(connection);
  if (account === undefined) return false;
  const store = await host.store();
  return host.exclusively(`secret ${account}`, async () => {
    const undone = await secretTrial(account, store).undo();
    await secretMarks(account, host.stateDirectory).settled();
    return undone;
  });
}

/** Records that a key or client secret has just been stored, which ends any rotation on trial. */
export async function noteStored(
  connection: Connection,
  { apiKeySecret, clientSecret }: ConnectionSecrets,
  host: BoundHost,
): Promise<void> {
  const account = credentialAccount(connection);
  if (account === undefined || (apiKeySecret ?? clientSecret) === undefined) return;
  const marks = secretMarks(account, host.stateDirectory);
  await (await host.store()).remove(priorAccount(account));
  await marks.settled();
  await marks.stored(host.clock.now());
}
