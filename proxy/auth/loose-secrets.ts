import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultStateDirectory } from '#config/default-state-directory';
import type { UserHost } from '#host';
import type { Options } from '#config/options';

/** An account of the keychain, and the configuration file that leads to it, or is about to. */
export type LooseSecret = { account: string; file: string };

/**
 * Which accounts of the keychain may hold a secret that no connection leads to: one that is being added,
 * imported or removed. A keychain cannot be asked what is in it, so whoever dies in between leaves this
 * behind.
 */
export interface LooseSecrets {
  /** Notes them; on disk once resolved. */
  note(secrets: readonly LooseSecret[]): Promise<void>;

  /** Each leads to a connection now, or is gone. */
  settled(secrets: readonly LooseSecret[]): Promise<void>;

  all(): Promise<LooseSecret[]>;
}

/** Small files with the names of accounts, and nothing secret. */
export function looseSecrets({ stateDir }: Options, host: UserHost): LooseSecrets {
  const directory = join(stateDir ?? defaultStateDirectory(host), 'loose');
  const at = (text: string) =>
    join(directory, createHash('sha256').update(text).digest('hex').slice(0, 32));
  const textOf = ({ account, file }: LooseSecret) => JSON.stringify({ account, file });
  return {
    async note(secrets) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      for (const text of secrets.map(textOf))
        await writeFile(at(text), text, { mode: 0o600, flush: true });
    },
    async settled(secrets) {
      for (const text of secrets.map(textOf)) await rm(at(text), { force: true });
    },
    async all() {
      const names = await readdir(directory).catch((): string[] => []);
      const texts = names.map(async (name) => readFile(join(directory, name), 'utf8'));
      const read = await Promise.all(texts.map(async (text) => text.catch(() => '')));
      return read.map(secretOf).filter((secret) => secret !== undefined);
    },
  };
}

/** A note that was half written when its process died names nothing: nothing had been stored. */
function secretOf(text: string): LooseSecret | undefined {
  try {
    const { account, file }: Record<string, unknown> = JSON.parse(text);
    if (typeof account !== 'string' || typeof file !== 'string') return undefined;
    return { account, file };
  } catch {
    return undefined;
  }
}
