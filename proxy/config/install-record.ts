import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileSnapshot } from './file-snapshot.ts';
import { replaceFile } from './replace-file.ts';

/** What an installation did to a file, so that it can be undone; nothing of the file itself. */
export type InstallRecord = {
  /** The file's copy from before; `undefined` when there was no file. */
  backup?: string;
  /** SHA-256 of the file before; `undefined` when there was none. */
  before?: string;
  /** SHA-256 of the file after. */
  after: string;
  /** Secrets were taken out of the copy since: an entry can be put back from it, but not the file. */
  masked?: true;
};

export type InstallRecords = ReturnType<typeof installRecords>;

/** The records of installations, one an entry of a file, in `directory`. */
export function installRecords(directory: string) {
  const pathOf = (file: string, name: string) =>
    join(directory, `${hashOf(Buffer.from(JSON.stringify([file, name])))}.json`);

  return {
    async of(file: string, name: string): Promise<InstallRecord | undefined> {
      const text = await readFile(pathOf(file, name), 'utf8').catch(() => 'null');
      return parse(text);
    },
    async keep(file: string, name: string, record: InstallRecord): Promise<void> {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const snapshot = await fileSnapshot(pathOf(file, name));
      await replaceFile(snapshot, Buffer.from(JSON.stringify(record)));
    },
    /** The `backup` has another hash now, as secrets were taken out of it. */
    async masked(backup: string, before: string): Promise<void> {
      for (const name of await readdir(directory).catch(() => [])) {
        const snapshot = await fileSnapshot(join(directory, name));
        const record = parse(snapshot.bytes?.toString() ?? 'null');
        if (record?.backup !== backup) continue;
        const changed: InstallRecord = { ...record, before, masked: true };
        await replaceFile(snapshot, Buffer.from(JSON.stringify(changed)));
      }
    },
    async drop(file: string, name: string): Promise<void> {
      await rm(pathOf(file, name), { force: true });
    },
  };
}

export function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function parse(text: string): InstallRecord | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(text);
    const { backup, before, after, masked } = value ?? {};
    if (typeof after !== 'string') return undefined;
    return {
      after,
      ...(typeof backup === 'string' && { backup }),
      ...(typeof before === 'string' && { before }),
      ...(masked === true && { masked }),
    };
  } catch {
    return undefined;
  }
}
