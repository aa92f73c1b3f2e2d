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
import type { ConnectionsHost } from './connections-host.ts';
import type { SecretStore } from '#keychain/secret-store';
import { credentialAccount, type ConnectionSecrets } from './stored-secrets.ts';

/**
 * A secret that is being replaced. The one in use is stored in its account, the one before it in a second
 * account until the new one has worked. If a process ends in between, the secret in use is complete, and the two
 * accounts tell how far it came: no secret before, or the same one, means that nothing is on trial.
 */
export interface SecretTrial {
  isOn(): Promise<boolean>;

  /** Puts `next` in use. The last that is known to work is kept, also when two follow each other. */
  begin(next: string): Promise<void>;

  /** The one in use has worked: the one before is forgotten. */
  proven(): Promise<void>;

  /** The one before is in use again; `false` when there is none. */
  undo(): Promise<boolean>;
}

export function secretTrial(account: string, store: SecretStore): SecretTrial {
  const prior = priorAccount(account);
  const both = async () => [await store.get(account), await store.get(prior)] as const;
  const isTrial = (current: string | undefined, before: string | undefined) =>
    before !== undefined && secretIn(before) !== secretIn(current);
  return {
    async isOn() {
      return isTrial(...(await both()));
    },
    async begin(next) {
      const [current, before] = await both();
      if (current !== undefined && !isTrial(current, before)) await store.set(prior, current);
      await store.set(account, next);
    },
    async proven() {
      await store.remove(prior);
    },
    async undo() {
      const [current, before] = await both();
      if (before === undefined) return false;
      if (isTrial(current, before)) await store.set(account, before);
      await store.remove(prior);
      return isTrial(current, before);
    },
  };
}

/** A client's secret is kept with the issuer it is bound to, which may come to be known later. */
function secretIn(value: string | undefined): string | undefined {
  try {
    const kept: unknown = JSON.parse(value ?? '');
    if (typeof kept === 'object' && kept !== null && 'clientSecret' in kept)
      return String(kept.clientSecret);
  } catch {
    // A key as it is.
  }
  return value;
}

/** What is remembered of a secret besides itself: small files, with nothing secret in them. */
export interface SecretMarks {
  storedAt(): Promise<EpochSeconds | undefined>;

  /** The secret is stored, or was found without a mark. */
  stored(at: EpochSeconds): Promise<void>;

  /** When the trial began, in milliseconds since 1970; `undefined` when there is none. */
  trialAtMs(): Promise<number | undefined>;

  trial(atMs: number): Promise<void>;

  /** The trial is over. */
  settled(): Promise<void>;
}

/** The marks of the secret in `account` of the keychain. */
export function secretMarks(account: string, { stateDir }: Options, host: UserHost): SecretMarks {
  const directory = join(stateDir ?? defaultStateDirectory(host), 'keys');
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
    stored: async (when) => write('stored', when),
    trialAtMs: async () => read('trial'),
    trial: async (when) => write('trial', when),
    settled: async () => rm(at('trial'), { force: true }),
  };
}

/**
 * A call has worked: the secret before the one in use is forgotten, if this process began with the new
 * one. Without a trial it takes one look at a file, and none at the keychain.
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
  const marks = secretMarks(account, options, host);
  const trialAtMs = await marks.trialAtMs();
  if (trialAtMs === undefined || trialAtMs >= startedAtMs) return;
  await secretTrial(account, await openStore()).proven();
  await marks.settled();
}

/** Puts the secret back that the one on trial replaced; `false` when there is none. */
export async function undoRotation(
  connection: Connection,
  options: Options,
  host: ConnectionsHost,
): Promise<boolean> {
  const account = credentialAccount(connection);
  if (account === undefined) return false;
  const store = await host.store(options);
  return host.exclusively(`secret ${account}`, options, async () => {
    const undone = await secretTrial(account, store).undo();
    await secretMarks(account, options, host).settled();
    return undone;
  });
}

/** A key or client secret has just been stored: it begins to age, and no other is on trial. */
export async function noteStored(
  connection: Connection,
  { apiKeySecret, clientSecret }: ConnectionSecrets,
  options: Options,
  host: ConnectionsHost,
): Promise<void> {
  const account = credentialAccount(connection);
  if (account === undefined || (apiKeySecret ?? clientSecret) === undefined) return;
  const marks = secretMarks(account, options, host);
  await (await host.store(options)).remove(priorAccount(account));
  await marks.settled();
  await marks.stored(host.clock.now());
}
