import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { latchkeyHome, type LatchkeyHome } from '#support/latchkey-home';
import { filesBelow } from '#support/leaks';

const claude = '.config/Claude/claude_desktop_config.json';
const secret = 'S3cret-"quoted"-value-0123456789';
const url = 'https://acme.example/mcp';
const inJson = JSON.stringify({ client_id: 'client_1', client_secret: secret });

/** A person whose secrets are kept in a sealed file. */
async function person() {
  const home = await latchkeyHome({});
  const keyFile = join(home.path, 'key');
  await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const store = ['--secret-store', 'file', '--secret-store-key-file', keyFile];
  return Object.assign(home, {
    json: async (args: string[]) => {
      const { code, stdout, stderr } = await home.run([...args, ...store, '--json']);
      if (code !== 0) throw new Error(stderr);
      const value: Record<string, unknown> = JSON.parse(stdout);
      return value;
    },
  });
}

/** Files of that person that hold a part of the secret that no escaping changes; sealed ones do not. */
function holders({ path }: LatchkeyHome): string[] {
  return filesBelow(path).filter((file) =>
    /S3cret|value-0123456789/.test(readFileSync(file, 'utf8')),
  );
}

test.each<[string, object]>([
  ['an API key', { url, apiKey: secret }],
  ['a client secret', { url, oauth: { clientId: 'client_1', clientSecret: secret } }],
  ['a header', { url, headers: { Authorization: `Bearer ${secret}` } }],
  [
    'an argument',
    { command: 'npx', args: ['mcp-remote', url, '--header', `X-API-Key: ${secret}`] },
  ],
  [
    'a variable that an argument fills in',
    {
      command: 'npx',
      args: ['mcp-remote', url, '--header', 'Authorization: Bearer ${TOKEN}'],
      env: { TOKEN: secret, NODE_EXTRA_CA_CERTS: '/etc/company.pem' },
    },
  ],
  [
    'JSON in an argument',
    { command: 'npx', args: ['mcp-remote', url, '--static-oauth-client-info', inJson] },
  ],
  [
    'JSON in a variable',
    {
      command: 'latchkey',
      args: [url],
      env: {
        LATCHKEY_OAUTH: JSON.stringify({ clientId: 'client_1', clientSecret: secret }),
      },
    },
  ],
])(
  '104: import: it leaves no plain-text copy of %s, not even in its own backup',
  async (_, entry) => {
    await using home = await person();
    const other = { command: 'other', args: ['kept as it is'] };
    const text = `{\n  // by hand\n  "mcpServers": {\n    "acme": ${JSON.stringify(entry)},\n    "other": ${JSON.stringify(other)}\n  }\n}\n`;
    await home.write(claude, text);

    const before = holders(home);
    const { backups } = await home.json(['import', 'claude-desktop']);

    const [backup = ''] = Array.isArray(backups) ? backups.map(String) : [];
    const kept = (await home.read(backup.slice(home.path.length + 1))) ?? '';
    expect(before).toHaveLength(1);
    expect(holders(home)).toEqual([]);
    expect(kept).toContain('// by hand');
    expect(kept).toContain('kept as it is');
    expect(kept).toContain('keychain');
    expect(kept).toContain(url);
  },
);

test('104: import: it removes its secrets from earlier backups of install, and uninstall still works', async () => {
  await using home = await person();
  const mine = { command: 'mine', args: ['x'] };
  const document = { mcpServers: { acme: mine, sales: { url, apiKey: secret } } };
  await home.write(claude, `${JSON.stringify(document, null, 2)}\n`);
  await home.write(
    '.config/latchkey/connections.json',
    JSON.stringify({ mcpServers: { acme: { url: 'https://other.example/mcp' } } }),
  );
  await home.json(['install', 'claude-desktop', 'acme', '--replace']);
  const before = holders(home);

  await home.json(['import', 'claude-desktop']);
  const after = holders(home);
  await home.json(['uninstall', 'claude-desktop', 'acme']);

  const left: { mcpServers: Record<string, unknown> } = JSON.parse((await home.read(claude)) ?? '');
  expect(before).toHaveLength(2);
  expect(after).toEqual([]);
  expect(left.mcpServers['acme']).toEqual(mine);
  expect(left.mcpServers['sales']).toEqual({ url, apiKey: 'keychain' });
  expect(holders(home)).toEqual([]);
});
