import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { AccountsError, openAccounts } from '#proxy/app/accounts';
import { temporaryFolder } from '#support/temporary-folder';

const secret = `mcp_${'k'.repeat(36)}`;

/** The accounts service on a machine with Claude Desktop, which starts mcp-remote with a key. */
async function host() {
  const folder = await temporaryFolder('home');
  const claude = join(folder.path, '.config', 'Claude');
  const file = join(claude, 'claude_desktop_config.json');
  await mkdir(claude, { recursive: true });
  const args = ['mcp-remote', 'https://acme.example/mcp', '--header', `X-API-Key:${secret}`];
  const document = { mcpServers: { acme: { command: 'npx', args }, other: { command: 'x' } } };
  await writeFile(file, JSON.stringify(document));
  const keyFile = join(folder.path, 'key');
  await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const service = openAccounts({
    platform: 'linux',
    home: folder.path,
    env: {},
    pid: 2,
    parentPid: 1,
    nodeVersion: process.versions.node,
    launcher: { node: '/opt/node', script: '/opt/latchkey.js' },
    options: { 'secret-store': 'file', 'secret-store-key-file': keyFile },
  });
  const own = join(folder.path, '.config', 'latchkey', 'connections.json');
  return { service, file, own, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

test('accounts service: it lists assistants, the connections that they start, and what can be imported', async () => {
  await using at = await host();
  const before = await at.service.assistants();
  const imports = await at.service.importable();
  const imported = await at.service.import(at.file, 'acme');
  const after = await at.service.assistants();

  expect(before.filter(({ found }) => found)).toMatchObject([
    { id: 'claude-desktop', title: 'Claude Desktop', file: at.file, starts: [], backups: [] },
  ]);
  expect(imports).toMatchObject({
    entries: [{ entry: 'acme', name: 'acme', moved: ['header x-api-key'], fromMcpRemote: true }],
    problems: [],
  });
  expect(JSON.stringify(imports)).not.toContain(secret);
  expect(after[0]).toMatchObject({ starts: ['acme'], backups: [imported.backup] });
  expect(await readFile(at.file, 'utf8')).not.toContain(secret);
});

test.each([
  ['-e NAME=value', ['run', '-i', '-e', 'GITHUB_TOKEN=ghp_secret', 'image']],
  ['-eNAME=value', ['run', '-eGITHUB_TOKEN=ghp_secret', 'image']],
  ['--env=NAME=value', ['run', '--env=GITHUB_TOKEN=ghp_secret', 'image']],
  ['--option value', ['run', 'image', '--api-key', 'ghp_secret'], '--api-key'],
  ['--option=value', ['run', 'image', '--github-token=ghp_secret'], '--github-token'],
  ['a header', ['run', 'image', '-H', 'Authorization: Bearer ghp_secret'], 'Authorization'],
])(
  'accounts service: a secret among the arguments of a container, %s, is reported',
  async (_, args, what = 'GITHUB_TOKEN') => {
    await using at = await host();
    const env = { GITHUB_TOKEN: 'ghp_secret' };
    const named = { command: 'docker', args: ['run', '-e', 'GITHUB_TOKEN', 'image'], env };
    const filled = { command: 'docker', args: ['run', '-e', 'GITHUB_TOKEN=${TOKEN}', 'image'] };
    const other = { command: 'node', args: ['-e', 'TOKEN=1'] };
    const words = ['image', '--max-tokens', '100', '--key-file', '/x', '-H', 'X-Token: ${TOKEN}'];
    const harmless = { command: 'docker', args: ['run', '--env-file', '/env', ...words] };
    const github = { command: '/usr/bin/docker', args };
    const mcpServers = { github, named, filled, harmless, other };
    await writeFile(at.file, JSON.stringify({ mcpServers }));

    const { entries, problems } = await at.service.importable();

    expect(entries).toEqual([]);
    expect(problems).toMatchObject([
      { name: 'github', problem: expect.stringMatching(new RegExp(`${what}.*under "env"`)) },
    ]);
    expect(JSON.stringify(problems)).not.toContain('ghp_secret');
  },
);

test('accounts service: a secret moved out of an entry is found by the account that the entry names', async () => {
  await using at = await host();
  const desk = { url: 'https://acme.example/mcp', account: 'dana', apiKey: secret };
  await writeFile(at.file, JSON.stringify({ mcpServers: { desk } }));
  await at.service.import(at.file, 'desk');

  expect(await readFile(at.file, 'utf8')).not.toContain(secret);
  expect(await at.service.listConnections()).toMatchObject([{ name: 'desk', state: 'ready' }]);
});

test('accounts service: an assistant’s file that is not JSON is a problem of that assistant only', async () => {
  await using at = await host();
  await writeFile(at.file, `{"mcpServers": {"acme": "${secret}"`);

  const [claude] = await at.service.assistants();

  expect(claude).toMatchObject({ problem: 'is not valid JSON', starts: [] });
});

test('accounts service: an unreadable connections file is reported, not shown as no connections', async () => {
  await using at = await host();
  await mkdir(dirname(at.own), { recursive: true });
  await writeFile(at.own, `{"mcpServers": {"acme": "${secret}"`);

  const told = at.service.listConnections();

  await expect(told).rejects.toThrow(AccountsError);
  await expect(told).rejects.toThrow(/connections\.json.*is not valid JSON/);
  await expect(told).rejects.not.toThrow(secret);
});

test('accounts service: a connection that cannot be read has the error state and no URL', async () => {
  await using at = await host();
  await mkdir(dirname(at.own), { recursive: true });
  await writeFile(at.own, JSON.stringify({ mcpServers: { bad: { oauth: {} } } }));

  expect(await at.service.listConnections()).toMatchObject([
    { name: 'bad', url: '', state: 'trouble', reason: expect.stringContaining('url') },
  ]);
});

test('accounts service: a subscriber sees a connection appear and disappear', async () => {
  await using at = await host();
  const life = new AbortController();
  const seen: string[] = [];
  for await (const all of at.service.watch(life.signal)) {
    seen.push(all.map(({ name, as, startedBy }) => `${name} ${as} ${startedBy.join()}`).join());
    if (seen.length === 1) await at.service.import(at.file);
    if (all.some(({ startedBy }) => startedBy.length > 0)) life.abort();
  }

  expect(seen[0]).toBe('');
  expect(seen.at(-1)).toBe('acme api_key claude-desktop');
});

test('accounts service: every refusal has a message and a remedy, and none is a bug', async () => {
  await using at = await host();
  const { service } = at;
  const oauthText = `{"clientSecret": "${secret}", "grant": 7}`;
  const refused = await Promise.allSettled([
    service.signIn('nobody', {}),
    service.remove('nobody'),
    service.rotateKey('nobody', secret),
    service.install('claude-desktop', 'nobody'),
    service.install('notepad', 'nobody'),
    service.import(at.file, 'nobody'),
    service.readPasted(secret),
    service.probe('ftp://acme.example'),
    service.add({ name: 'a b', url: 'https://acme.example', as: 'person' }),
    service.add({ name: 'ok', url: 'https://acme.example', as: 'pasted', oauthText }),
  ]);

  const reasons = refused.map((one) => (one.status === 'rejected' ? one.reason : 'was done'));
  for (const reason of reasons) {
    expect(reason).toBeInstanceOf(AccountsError);
    expect(JSON.stringify([reason.message, reason.hint])).not.toContain(secret);
  }
});

test('accounts service: the copy of the program stays while an imported entry of any file starts it', async () => {
  await using at = await host();
  const home = dirname(dirname(dirname(at.own)));
  const copies = join(home, '.local', 'share', 'latchkey', 'app');
  const project = join(home, 'project.json');
  await writeFile(project, await readFile(at.file));
  await mkdir(copies, { recursive: true });
  await at.service.import(project, 'acme');
  await at.service.install('cursor', 'acme');
  await at.service.uninstall('cursor', 'acme');

  expect(existsSync(copies)).toBe(true);
});
