import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { latchkeyHome } from '#support/latchkey-home';

const url = 'https://acme.example/mcp';
const secret = `mcp_${'k'.repeat(36)}`;
const claude = '.config/Claude/claude_desktop_config.json';
const cursor = '.cursor/mcp.json';

/** A person whose secrets are kept in sealed files. */
async function person() {
  const home = await latchkeyHome({});
  const keyFile = join(home.path, 'key');
  await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const store = ['--secret-store', 'file', '--secret-store-key-file', keyFile];
  return Object.assign(home, {
    latchkey: async (args: string[], input?: string) => home.run([...args, ...store], input),
    secrets: async () => {
      const folder = join(home.path, '.local', 'state', 'latchkey');
      const kept = await readdir(join(folder, 'secrets')).catch((): string[] => []);
      const noted = await readdir(join(folder, 'loose')).catch((): string[] => []);
      return [...kept, ...noted];
    },
  });
}

/** What an assistant's file can be instead of a file that this user reads. */
const ruins: Record<string, (file: string) => Promise<unknown>> = {
  'a folder': async (file) => mkdir(file, { recursive: true }),
  'a file in a file': async (file) => writeFile(dirname(file), ''),
  'a link to itself': async (file) => {
    await mkdir(dirname(file), { recursive: true });
    await symlink(file, file);
  },
};

test.each(Object.entries(ruins))(
  '116: commands: beside an assistant’s file that is %s, all complete, and no secret is left',
  async (what, ruin) => {
    await using home = await person();
    await ruin(join(home.path, cursor));
    const imported = { url: `${url}/2`, headers: { Authorization: `Bearer ${secret}` } };
    const added = {
      command: 'npx',
      args: ['mcp-remote', imported.url, '--header', 'X-API-Key: a'],
    };
    await home.write(claude, JSON.stringify({ mcpServers: { desk: added } }));

    const client = ['--client-id', 'client_1', '--client-secret'];
    const runs = [
      await home.latchkey(['add', 'sales', url, ...client, '--no-check'], secret),
      await home.latchkey(['add', 'keyed', url, '--api-key', '--no-check'], secret),
      await home.latchkey(['import', '--yes']),
      await home.latchkey(['install', 'claude-desktop', 'keyed']),
      await home.latchkey(['rename', 'keyed', 'renamed']),
      await home.latchkey(['remove', 'renamed']),
      await home.latchkey(['remove', 'sales']),
      await home.latchkey(['remove', 'desk']),
    ];

    expect(runs.map(({ stderr }) => stderr).join('')).not.toMatch(/^ +at /m);
    // Import says that it left the file out. A file cannot be in a file, so there is none.
    const isAbsent = what === 'a file in a file';
    expect(runs.map(({ code }) => code)).toEqual([0, 0, isAbsent ? 0 : 1, 0, 0, 0, 0, 0]);
    expect(runs[2]?.stderr.includes(join(home.path, cursor))).toBe(!isAbsent);
    expect(await home.secrets()).toEqual([]);
    expect(await home.read(claude)).not.toContain('renamed');
  },
);

test('116: rename: it changes the other assistants when one file cannot be replaced', async () => {
  await using home = await person();
  // Its backup would have a name that no file system takes.
  const long = `${'x'.repeat(250)}.json`;
  await home.write(long, '{}');
  await mkdir(join(home.path, '.cursor'));
  await symlink(join(home.path, long), join(home.path, cursor));
  await home.latchkey(['add', 'sales', url, '--api-key', '--no-check'], secret);
  await home.latchkey(['install', 'claude-desktop', 'sales']);
  await home.latchkey(['install', 'vscode', 'sales']);
  const launch = await home.read(claude);
  await home.write(long, launch ?? '');

  const renamed = await home.latchkey(['rename', 'sales', 'later']);
  const other = await home.read('.config/Code/User/mcp.json');
  const removed = await home.latchkey(['remove', 'later']);

  expect(`${renamed.stderr}${removed.stderr}`).not.toMatch(/^ +at /m);
  expect(renamed.code).toBe(1);
  expect(renamed.stderr).toContain(`Cursor still starts sales: ${join(home.path, cursor)}`);
  expect(other).toContain('"later"');
  expect(removed.code).toBe(0);
  expect(await home.secrets()).toEqual([]);
});

test('116: remove: a client secret that a half-written file may use stays, and goes with the next change', async () => {
  await using home = await person();
  const client = ['--client-id', 'client_1', '--client-secret'];
  await home.latchkey(['add', 'sales', url, ...client, '--no-check'], secret);
  await home.latchkey(['add', 'other', `${url}/2`, '--no-check']);
  await home.write(cursor, '{"mcpServers": {');

  const removed = await home.latchkey(['remove', 'sales']);
  const left = await home.secrets();
  await home.write(cursor, '{"mcpServers": {}}');
  await home.latchkey(['remove', 'other']);

  expect(removed.stderr).toContain('the client secret stays');
  expect(left).not.toEqual([]);
  expect(await home.secrets()).toEqual([]);
});
