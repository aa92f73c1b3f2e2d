import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultStateDirectory } from '#config/default-state-directory';
import type { Options } from '#config/options';

/**
 * Which accounts of the keychain may hold a secret that no connection leads to: one that is being added or
 * removed. A keychain cannot be asked what is in it, so whoever dies in between leaves this behind.
 */
export interface LooseSecrets {
  /** Notes them; on disk once resolved. */
  note(accounts: readonly string[]): Promise<void>;

  /** Each leads to a connection now, or is gone. */
  settled(accounts: readonly string[]): Promise<void>;

  all(): Promise<string[]>;
}

type Place = { platform: NodeJS.Platform; home: string; env: NodeJS.ProcessEnv };

/** Small files with the names of accounts, and nothing secret. */
export function looseSecrets({ stateDir }: Options, place: Place): LooseSecrets {
  const directory = join(stateDir ?? defaultStateDirectory(place), 'loose');
  const at = (account: string) =>
    join(directory, createHash('sha256').update(account).digest('hex').slice(0, 32));
  return {
    async note(accounts) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      for (const account of accounts)
        await writeFile(at(account), account, { mode: 0o600, flush: true });
    },
    async settled(accounts) {
      for (const account of accounts) await rm(at(account), { force: true });
    },
    async all() {
      const names = await readdir(directory).catch((): string[] => []);
      const texts = names.map(async (name) => readFile(join(directory, name), 'utf8'));
      const read = (await Promise.all(texts.map(async (text) => text.catch(() => '')))).filter(
        Boolean,
      );
      // A file that was half written when its process died names nothing: nothing had been stored.
      return read.filter((account) => names.includes(at(account).slice(directory.length + 1)));
    },
  };
}
