import { cp, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { isLaunch, type LaunchEntry } from '#proxy/config/launch-entry';
import { parseJsonc } from '#proxy/config/jsonc';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { launcher } from '#support/proxy-process';
import { recordingServer } from '#support/recording-server';
import { signInFront } from '#support/sign-in-front';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const apiKey = `mcp_${'k'.repeat(36)}`;
const registry = '.config/latchkey/connections.json';

const files = {
  'claude-desktop': '.config/Claude/claude_desktop_config.json',
  'claude-code': '.claude.json',
  gemini: '.gemini/settings.json',
  cursor: '.cursor/mcp.json',
  vscode: '.config/Code/User/mcp.json',
};

const launches = z.record(
  z.string(),
  z.record(
    z.string(),
    z.object({
      type: z.literal('stdio').optional(),
      command: z.string().optional(),
      args: z.array(z.string()).optional(),
      env: z.record(z.string(), z.string()).optional(),
    }),
  ),
);

function entryIn(text: string | undefined, servers: string, name: string): LaunchEntry {
  const document = launches.parse(parseJsonc(text ?? '{}'));
  const entry = document[servers]?.[name];
  expect(isLaunch(entry, name)).toBe(true);
  const { type, env, command = '', args = [] } = entry ?? {};
  return { command, args, ...(type && { type }), ...(env && { env }) };
}

test('connection: a server that requires no authentication is added without a kind of credential', async () => {
  const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'open' } };
  const server = await recordingServer(async (_, response) => {
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 'latchkey', result }));
  });
  onTestFinished(() => server.close());
  await using home = await latchkeyHome({});
  const store = ['--secret-store', 'memory'];

  const added = await home.json(['add', 'open', server.url, ...store]);
  const unchecked = await home.json(['add', 'closed', server.url, '--no-check', ...store]);
  const words = await home.run(['add', 'open', server.url, '--replace', ...store]);

  expect(added).toMatchObject({ name: 'open', checked: { as: null } });
  expect(unchecked).toMatchObject({ name: 'closed', checked: null });
  expect(words.stdout).toContain('requires no authentication');
});

test('connection: status reports a missing key, and remove deletes the offline cache', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using keys = await temporaryFolder();
  const keyFile = join(keys.path, 'key');
  await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const state = join(keys.path, 'state');
  const store = ['--secret-store', 'file', '--secret-store-key-file', keyFile];
  const place = [...store, '--state-dir', state];
  await using home = await latchkeyHome({});
  await home.json(['add', 'sales', server.url, '--api-key', ...place], `${apiKey}\n`);
  await using proxy = home.start({
    command: process.execPath,
    args: [launcher, 'sales', ...place],
  });
  await proxy.handshake();
  proxy.hangUp();
  await proxy.ended;
  const kept = await readdir(join(state, 'kept'));
  const before = await home.json(['status', ...place]);

  await rm(join(state, 'secrets'), { recursive: true });
  const after = await home.json(['status', ...place]);
  const words = await home.run(['status', ...place]);
  await home.json(['remove', 'sales', ...place]);

  expect(kept).toHaveLength(1);
  expect(before).toMatchObject({ connections: [{ name: 'sales', state: 'ready' }] });
  expect(after).toMatchObject({ connections: [{ name: 'sales', state: 'signed_out' }] });
  expect(words.stdout).toContain('API key not found in the keychain');
  expect(words.stdout).toContain(`latchkey add sales ${server.url} --replace`);
  expect(await readdir(join(state, 'kept'))).toEqual([]);
});

test('connection: rotate checks and stores another key, and puts the old one back until a call succeeds', async () => {
  const keys = [apiKey, `mcp_${'n'.repeat(36)}`] as const;
  await using server = await signInFront(legacyMcp().handle, { apiKeys: keys });
  await using folder = await temporaryFolder();
  const keyFile = join(folder.path, 'key');
  await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const place = ['--secret-store', 'file', '--secret-store-key-file', keyFile];
  const usedKey = async () => {
    await using proxy = home.start({
      command: process.execPath,
      args: [launcher, 'sales', ...place],
    });
    await proxy.handshake();
    return server.seen.findLast(({ headers }) => headers['x-api-key'])?.headers['x-api-key'];
  };
  await using home = await latchkeyHome({});
  await home.json(['add', 'sales', server.url, '--api-key', ...place], `${keys[0]}\n`);

  const wrong = await home.run(['rotate', 'sales', ...place], `mcp_${'0'.repeat(36)}\n`);
  const before = await usedKey();
  const rotated = await home.json(['rotate', 'sales', ...place], `${keys[1]}\n`);
  const undone = await home.json(['rotate', 'sales', '--undo', ...place]);
  const restored = await usedKey();
  const again = await home.run(['rotate', 'sales', ...place], `${keys[1]}\n`);
  const after = await usedKey();

  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('rejected') });
  expect(before).toBe(keys[0]);
  expect(rotated).toMatchObject({ name: 'sales', kind: 'api_key', on_trial: true });
  expect(undone).toEqual({ name: 'sales', undone: true });
  expect(restored).toBe(keys[0]);
  expect(again.stdout).toContain('stored the new API key of sales');
  expect(again.stderr).toContain('revoke the old one in the dashboard');
  expect(after).toBe(keys[1]);
  for (const output of [JSON.stringify([rotated, undone]), again.stdout, again.stderr])
    expect(output).not.toContain(keys[1]);
});

await suite('keychain', 'a connection added with latchkey', () => {
  test('is installed, started from exactly the entry that was written, called, and removed again', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    const before =
      '{\r\n\t// mine\r\n\t"mcpServers": {\r\n\t\t"other": {}, // too\r\n\t},\r\n}\r\n';
    await home.write(files.cursor, before);

    const added = await home.json(['add', 'sales', server.url, '--api-key'], `${apiKey}\n`);
    const options = ['--log-level', 'info'];
    const installed = await home.json(['install', 'cursor', 'sales', ...options]);
    const again = await home.json(['install', 'cursor', 'sales', ...options]);
    const written = await home.read(files.cursor);
    const entry = entryIn(written, 'mcpServers', 'sales');
    await using proxy = home.start(entry);
    const { result } = await proxy.handshake();

    expect(added).toMatchObject({ name: 'sales', checked: { as: 'api_key' } });
    expect(installed).toMatchObject({ changed: true });
    expect(again).toMatchObject({ changed: false });
    expect(entry.env).toEqual({ LATCHKEY_LOG_LEVEL: 'info' });
    expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
    expect(written).toContain('"other": {}, // too\r\n\t\t"sales"');
    for (const text of [written, await home.read(registry)]) expect(text).not.toContain(apiKey);
    expect((await stat(join(home.path, registry))).mode & 0o777).toBe(0o600);

    const removed = await home.json(['uninstall', 'cursor', 'sales']);
    const nothing = await home.json(['uninstall', 'cursor', 'sales']);

    expect(removed).toMatchObject({ did: 'restored' });
    expect(nothing).toMatchObject({ did: 'absent' });
    expect(await home.read(files.cursor)).toBe(before);
  });

  test('is installed into every assistant in its own format, and leaves no file that it created', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    await home.json(['add', 'sales', server.url, '--no-check']);

    for (const [assistant, file] of Object.entries(files)) {
      await home.json(['install', assistant, 'sales']);
      const servers = assistant === 'vscode' ? 'servers' : 'mcpServers';
      const entry = entryIn(await home.read(file), servers, 'sales');
      const typed = assistant === 'vscode' || assistant === 'claude-code';
      expect(entry.type).toBe(typed ? 'stdio' : undefined);
      expect(entry.args.join('')).not.toContain(' ');
      await home.json(['uninstall', assistant, 'sales']);
      expect(await home.read(file)).toBeUndefined();
    }
  });

  test('is removed alone where the file has changed since, and the entry it replaced is restored', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    await home.json(['add', 'sales', server.url, '--no-check']);
    await home.write(files.gemini, '{"mcpServers": {"sales": {"command": "other"}}}\n');
    const refused = await home.run(['install', 'gemini', 'sales']);
    await home.json(['install', 'gemini', 'sales', '--replace']);
    await home.write(files.gemini, `// changed\n${(await home.read(files.gemini)) ?? ''}`);

    const removed = await home.json(['uninstall', 'gemini', 'sales']);

    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('starts something else');
    expect(removed).toMatchObject({ did: 'removed' });
    expect(parseJsonc((await home.read(files.gemini)) ?? '')).toEqual({
      mcpServers: { sales: { command: 'other' } },
    });
  });

  test('is started by arguments without blanks although the program’s path has some', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using folders = await latchkeyHome(keyring.env);
    const program = join(folders.path, 'My Programs', 'proxy');
    await mkdir(join(folders.path, 'My Programs'));
    await cp(join(import.meta.dirname, '../../../proxy'), program, {
      recursive: true,
      filter: (path) => !/[\\/](node_modules|dist)$/.test(path),
    });
    await symlink(
      join(import.meta.dirname, '../../../node_modules'),
      join(folders.path, 'node_modules'),
    );
    await using home = await latchkeyHome(keyring.env, [
      process.execPath,
      join(program, 'bin/latchkey.js'),
    ]);
    await home.json(['add', 'sales', server.url, '--api-key'], apiKey);
    await home.json(['install', 'cursor', 'sales']);
    const entry = entryIn(await home.read(files.cursor), 'mcpServers', 'sales');

    await using proxy = home.start(entry);
    const { result } = await proxy.handshake();
    proxy.hangUp();

    expect(entry.args.join('')).not.toContain(' ');
    expect(entry.env?.['LATCHKEY_LAUNCHER']).toContain('/My%20Programs/');
    expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
    expect(await proxy.ended).toBe(0);
  });

  test('has one account for each name, and remove deletes the secrets of that one only', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    const { clientId, clientSecret } = server.client;
    const client = ['--client-id', clientId, '--client-secret'];
    await home.json(['add', 'work', server.url, ...client], clientSecret);
    await home.json(['add', 'home', server.url, ...client], clientSecret);
    const tokens = server.tokenRequests.length;
    const first = await home.json(['status']);
    const removed = await home.run(['remove', 'work', '--json']);
    const second = await home.json(['status']);
    await using proxy = home.start({
      command: process.execPath,
      args: [new URL('../../../proxy/bin/latchkey.js', import.meta.url).pathname, 'home'],
    });
    const { result } = await proxy.handshake();

    expect(tokens).toBe(2);
    expect(first).toMatchObject({
      connections: [
        { name: 'work', state: 'ready', as: 'client' },
        { name: 'home', state: 'ready', as: 'client' },
      ],
    });
    expect(JSON.parse(removed.stdout)).toMatchObject({ name: 'work' });
    expect(second).toMatchObject({ connections: [{ name: 'home', state: 'ready' }] });
    expect(result).toBeDefined();
    expect(await home.read(registry)).not.toContain(clientSecret);
  });

  test('is not stored when the server rejects its key, and every usage error explains itself', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);

    const wrong = await home.run(
      ['add', 'sales', server.url, '--api-key'],
      `mcp_${'x'.repeat(36)}`,
    );
    const nameless = await home.run(['add', 'a b', server.url]);
    const empty = await home.run(['add', 'sales', server.url, '--api-key']);
    const argument = await home.run(['add', 'sales', server.url, '--api-key', apiKey]);
    const absent = await home.run(['install', 'cursor', 'sales']);
    const malformed = '{"mcpServers": {\n  "a": 1\n  "b": 2 }}';
    await home.json(['add', 'sales', server.url, '--no-check']);
    await home.write(files.cursor, malformed);
    const refused = await home.run(['install', 'cursor', 'sales']);
    const ambiguous = await home.run(['add', 'sales', `${server.url}2`, '--no-check']);

    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('rejected this API key');
    expect([nameless.code, empty.code, argument.code, absent.code]).toEqual([2, 2, 2, 2]);
    expect(argument.stderr).not.toContain(apiKey);
    expect(absent.stderr).toContain('latchkey setup URL');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('mcp.json:3:3: is not valid JSON (comma expected)');
    expect(await home.read(files.cursor)).toBe(malformed);
    expect(ambiguous.stderr).toContain('--replace');
  });
});

test('status: an entry that an assistant connects to itself is not called signed out', async () => {
  await using home = await latchkeyHome({});
  const url = 'https://acme.example/mcp';
  await home.write('.claude.json', JSON.stringify({ mcpServers: { docs: { type: 'http', url } } }));
  const words = await home.run(['status', '--secret-store', 'memory']);
  const json = await home.json(['status', '--secret-store', 'memory']);

  expect(words.stdout).toContain('docs: Claude Code connects and signs in itself');
  expect(words.stdout).not.toContain('signed out');
  expect(json).toMatchObject({ connections: [{ state: 'assistant', assistant: 'Claude Code' }] });
});
