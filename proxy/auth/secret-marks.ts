import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultStateDirectory } from '#config/default-state-directory';
import type { UserHost } from '#host';
import type { Options } from '#config/options';
import type { EpochSeconds } from '#clock/clock';

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

/** The marks of the secret that stands in `account` of the keychain. */
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
