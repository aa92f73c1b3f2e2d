import { readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import type { KillBench, Told } from './kill-bench.ts';
import { patient } from '../patient.ts';

/** The assistants whose entries are taken over, and their files. */
const files = {
  'claude-desktop': '.config/Claude/claude_desktop_config.json',
  cursor: '.cursor/mcp.json',
};

export type TakenFrom = keyof typeof files;

const other = { command: 'other' };

/** An entry `taken` of an assistant's file, beside one that Latchkey did not write. */
export interface TakenEntry {
  readonly file: string;
  /** Writes the file as the assistant has it. */
  put(): Promise<void>;
  take(): Promise<Told>;
  /** Reads the file, which must be whole: its text, and whether that is unchanged. */
  read(): Promise<{ text: string; untouched: boolean }>;
  /** Waits until the tray shows one of these words for the connection that the entry becomes. */
  shown(words: RegExp): Promise<void>;
  /** Removes the connection, the entry, and the copies of the file. */
  clear(): Promise<void>;
}

export function takenEntry(bench: KillBench, assistant: TakenFrom, entry: object): TakenEntry {
  const file = files[assistant];
  const before = JSON.stringify({ mcpServers: { other, taken: entry } }, null, 2);
  return {
    file,
    put: async () => bench.write(file, before),
    take: async () => bench.ask('importEntry', { assistant, entry: 'taken' }),
    async read() {
      const text = (await bench.read(file)) ?? '';
      expect(JSON.parse(text)).toMatchObject({ mcpServers: { other, taken: {} } });
      return { text, untouched: text === before };
    },
    async shown(words) {
      await expect.poll(async () => bench.stateOf('taken'), patient).toMatch(words);
    },
    async clear() {
      if ((await bench.names()).includes('taken')) await bench.ask('remove', { name: 'taken' });
      await bench.write(file, '{}');
      const folder = join(bench.home, dirname(file));
      for (const name of await readdir(folder))
        if (name.endsWith('.backup')) await rm(join(folder, name));
    },
  };
}

/** An entry that starts mcp-remote. */
export function remoteEntry(url: string, ...words: string[]): { command: string; args: string[] } {
  return { command: 'npx', args: ['-y', 'mcp-remote', url, ...words] };
}
