import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { filesBelow } from '#support/leaks';
import {
  benchOfFile,
  everyCrash,
  withEachVictim,
  type StartedAccounts,
} from '#support/crashes/crash-bench';
import { remoteEntry } from '#support/tray/taken-entry';

const bench = await benchOfFile();

const cursor = '.cursor/mcp.json';
const claude = '.config/Claude/claude_desktop_config.json';
const other = { command: 'other' };
const documentOf = (entry: object) =>
  JSON.stringify({ mcpServers: { other, taken: entry } }, null, 2);
const take = async ({ service }: StartedAccounts, file: string) =>
  service.import(join(bench.home, file), 'taken');

/** The text of the assistant's file, which must be complete JSON with the entries `other` and `taken`. */
async function textOf(file: string): Promise<string> {
  const text = (await bench.read(file)) ?? '';
  expect(JSON.parse(text)).toMatchObject({ mcpServers: { other, taken: {} } });
  return text;
}

/** An assistant's entry, the account that its secret gets, and writes that importing it makes. */
const entries = {
  'the header of an entry that starts mcp-remote': {
    file: cursor,
    entry: () => ({
      ...remoteEntry(bench.url, '--header', 'X-API-Key:${KEY}'),
      env: { KEY: bench.keys[1] },
    }),
    account: () => `header ${JSON.stringify([bench.url, 'taken', 'x-api-key'])}`,
    landmarks: ['keep header', 'rename to connections.json', 'rename to mcp.json'],
  },
  'an API key in a file': {
    file: claude,
    entry: () => ({ url: bench.url, apiKey: bench.keys[1] }),
    account: () => `api key ${JSON.stringify([bench.url, ''])}`,
    landmarks: ['keep api key', 'rename to claude_desktop_config.json'],
  },
};

test.each(withEachVictim(entries))(
  'importing $what: wherever the $victim crashes, the secret is in the file or in the keychain',
  async ({ victim, way: { file, entry, account, landmarks } }) => {
    const [, secret] = bench.keys;
    const before = documentOf(entry());
    const isKept = () => bench.keychain.kept.get(account()) === secret;

    const crashes = await everyCrash(bench, {
      victim,
      prepare: async () => bench.write(file, before),
      landmarks,
      work: async (accounts) => take(accounts, file),
      async after({ accounts, told }) {
        await accounts.look();
        const untouched = (await textOf(file)) === before;

        expect(untouched || isKept()).toBe(true);
        if (told?.ok) expect(untouched).toBe(false);
        expect(await bench.orphans([file])).toEqual([]);
        if (untouched) await take(accounts, file);
        expect(isKept()).toBe(true);
        expect(filesWith(secret)).toEqual([]);
        expect(await accounts.works('taken')).toBe(true);
        expect(await accounts.works('steady')).toBe(true);
        expect(await bench.orphans([file])).toEqual([]);
      },
    });

    expect(crashes).toBeGreaterThan(2 * landmarks.length);
  },
);

/** The files of the computer that contain a secret. */
function filesWith(secret: string): string[] {
  return filesBelow(bench.home).filter((file) => readFileSync(file).includes(secret));
}
