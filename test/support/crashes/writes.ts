import type { AsyncEntry } from '@napi-rs/keyring';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { basename } from 'node:path';

/** Something that is about to be written to disk or keychain. */
export type Write<T> = {
  /** Its name, such as `write connections.json` or `keep api key`; stars replace random parts and times. */
  what: string;
  /** Does the write. */
  write: () => Promise<T>;
  /** Writes half of the file, for a file that is written in one go. */
  half?: () => Promise<unknown>;
};

/** Decides whether and when a write happens. */
export type Gate = <T>(write: Write<T>) => Promise<T>;

/** The entry that tests whether a keychain exists; it is no secret. */
const probe = 'probe';

/**
 * Lets every change to the file system by a module that imports `node:fs/promises` go through `gate`. Unless `durable`,
 * files must outlive only the program, not the machine, and nothing waits until they are on disk.
 */
export function gateFiles(gate: Gate, durable: () => boolean = () => true): void {
  const { writeFile, rename, rm, open } = fs;
  Object.assign(fs, {
    async writeFile(...args: Parameters<typeof writeFile>) {
      const [path, data, given] = args;
      const options = typeof given === 'object' && !durable() ? { ...given, flush: false } : given;
      const half =
        typeof data === 'string'
          ? async () => writeFile(path, data.slice(0, data.length / 2), options)
          : undefined;
      return gate({
        what: `write ${nameOf(path)}`,
        write: async () => writeFile(path, data, options),
        ...(half && { half }),
      });
    },
    async rename(...args: Parameters<typeof rename>) {
      return gate({ what: `rename to ${nameOf(args[1])}`, write: async () => rename(...args) });
    },
    async rm(...args: Parameters<typeof rm>) {
      // Leftovers of an ended proxy are removed at any time, and belong to no call.
      if (String(args[0]).endsWith('.proxy')) return rm(...args);
      return gate({ what: `remove ${nameOf(args[0])}`, write: async () => rm(...args) });
    },
    async open(...args: Parameters<typeof open>) {
      const opened = async () => {
        const handle = await open(...args);
        return durable() ? handle : Object.assign(handle, { sync: () => Promise.resolve() });
      };
      if (!String(args[1]).startsWith('w')) return opened();
      let made: fs.FileHandle | undefined;
      const write = async () => (made = await opened());
      return gate({ what: `make ${nameOf(args[0])}`, write }).catch(async (error: unknown) => {
        await made?.close();
        throw error;
      });
    },
  });
  syncBuiltinESMExports();
}

/** The entry class of the keychain library, with every change going through `gate`. */
export function gatedEntries(Entry: typeof AsyncEntry, gate: Gate): typeof AsyncEntry {
  return class extends Entry {
    readonly #kind: string;
    constructor(...args: ConstructorParameters<typeof AsyncEntry>) {
      super(...args);
      this.#kind = args[1].replace(/ (?:[[\d]|https?:).*$/, '');
    }
    override async setPassword(secret: string): Promise<void> {
      const write = async () => super.setPassword(secret);
      return this.#kind === probe ? write() : gate({ what: `keep ${this.#kind}`, write });
    }
    override async deletePassword(): Promise<boolean> {
      const write = async () => super.deletePassword();
      return this.#kind === probe ? write() : gate({ what: `forget ${this.#kind}`, write });
    }
  };
}

function nameOf(path: unknown): string {
  return basename(String(path)).replace(/[0-9a-f]{12,}|\d{4}-\d\d-\d\dT[\d-]+Z/g, '*');
}
