import { chmod, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { acmeServer } from '#support/acme-server';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { runProgram } from '#support/processes';
import { proxyLauncher } from '#support/programs';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');
const buildLimitMs = 180_000;
const libraries = '.local/state/latchkey/libraries';
const apiKey = `mcp_${'k'.repeat(36)}`;
let program = '';

const desktopFile = z.object({
  mcpServers: z.record(z.string(), z.object({ command: z.string(), args: z.array(z.string()) })),
});

beforeAll(async () => {
  const args = [join(root, 'scripts/sea.ts')];
  const { code, stdout, stderr } = await runProgram(process.execPath, {
    args,
    timeoutMs: buildLimitMs,
  });
  if (code !== 0) throw new Error(stderr);
  program = stdout.trim();
}, buildLimitMs);

test('single executable: it runs without Node and prints its version', async () => {
  const { version }: { version: string } = JSON.parse(
    await readFile(join(root, 'proxy/package.json'), 'utf8'),
  );
  const env = { PATH: '/nonexistent' };

  const { code, stdout, stderr } = await runProgram(program, { args: ['--version'], env });

  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
});

test('single executable: NODE_OPTIONS of the environment is ignored', async () => {
  await using folder = await temporaryFolder('injected');
  const script = join(folder.path, 'injected.cjs');
  const mark = join(folder.path, 'mark');
  await writeFile(script, `require('node:fs').writeFileSync(${JSON.stringify(mark)}, 'ran')`);
  const env = { NODE_OPTIONS: `--require ${script} --inspect=127.0.0.1:0` };

  const ours = await runProgram(program, { args: ['--version'], env });
  const without = await readdir(folder.path);
  const plain = await runProgram(process.execPath, { args: ['-e', ''], env });

  expect(ours).toMatchObject({ code: 0, stderr: '' });
  expect(without).not.toContain('mark');
  expect(plain.stderr).toContain('Debugger listening');
  expect(await readdir(folder.path)).toContain('mark');
});

test('single executable: an OpenSSL configuration of the environment, which may name a library, is ignored', async () => {
  await using folder = await temporaryFolder('openssl');
  const configuration = join(folder.path, 'openssl.cnf');
  // Without a default provider no Node that reads it gets far.
  await writeFile(
    configuration,
    'nodejs_conf = a\n[a]\nproviders = b\n[b]\nc = d\n[d]\nmodule = /nonexistent.so\nactivate = 1\n',
  );
  const env = { OPENSSL_CONF: configuration };

  const ours = await runProgram(program, { args: ['--version'], env });
  const plain = await runProgram(process.execPath, { args: ['-e', ''], env });

  expect(ours).toMatchObject({ code: 0, stderr: '' });
  expect(plain.code).not.toBe(0);
});

await suite('keychain', 'single executable with a keychain', () => {
  test('it carries calls with the key of the keychain, from the entry that it wrote itself', async () => {
    await using keyring = await keychainSession();
    await using server = await acmeServer();
    await using home = await latchkeyHome(keyring.env, [program]);
    const { key } = await server.key();
    const url = `${server.base}/mcp/acme/fixture`;

    await home.json(['add', 'sales', url, '--api-key'], `${key}\n`);
    await home.json(['install', 'claude-desktop', 'sales']);
    const written = await home.read('.config/Claude/claude_desktop_config.json');
    const entry = desktopFile.parse(JSON.parse(written ?? '')).mcpServers['sales'];
    // The package's own loader would load what this names.
    const env = { NAPI_RS_NATIVE_LIBRARY_PATH: '/nonexistent.node' };
    const start = () => home.start({ command: '', args: [], ...entry, env });
    await using proxy = start();
    await proxy.handshake();
    proxy.kill('SIGUSR1');
    const { result } = await proxy.request('tools/list');

    expect(entry).toEqual({ command: program, args: ['connect', 'sales'] });
    expect(result).toHaveProperty('tools');
    expect(proxy.stderr()).not.toContain('Debugger listening');
    expect(written).not.toContain(key);
  });

  test('a connection that it set up works from it and from the npm package', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env, [program]);
    await home.json(['add', 'sales', server.url, '--api-key'], `${apiKey}\n`);
    await using ours = home.start({ command: program, args: ['sales'] });
    await using packages = home.start({
      command: process.execPath,
      args: [proxyLauncher, 'sales'],
    });

    const answers = [await ours.handshake(), await packages.handshake()];

    for (const { result } of answers)
      expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
  });

  test('a library that was changed is replaced, and a folder open to others is refused', async () => {
    await using keyring = await keychainSession();
    await using home = await latchkeyHome(keyring.env, [program]);
    const folder = join(home.path, libraries);
    const status = ['status', 'http://127.0.0.1:9/mcp/acme/sales'];

    const first = await home.run(status);
    const [name = ''] = await readdir(folder);
    const { mode } = await stat(folder);
    const good = await readFile(join(folder, name));
    await writeFile(join(folder, name), 'somebody’s own');
    const second = await home.run(status);
    const mended = await readFile(join(folder, name));
    await chmod(folder, 0o777);
    const third = await home.run(status);

    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(name).toMatch(/^keyring-[0-9a-f]{64}\.node$/);
    expect(mode & 0o777).toBe(0o700);
    expect(second).toMatchObject({ code: 0, stderr: '' });
    expect(mended.equals(good)).toBe(true);
    expect(third.code).toBe(1);
    expect(third.stderr).toContain('is accessible to other users');
  });

  test('processes that start at once all find the library complete', async () => {
    await using keyring = await keychainSession();
    await using home = await latchkeyHome(keyring.env, [program]);
    const url = 'http://127.0.0.1:9/mcp/acme/sales';

    const runs = await Promise.all(
      Array.from({ length: 6 }, async () => home.run(['status', url])),
    );

    expect(runs.map(({ stderr }) => stderr)).toEqual(Array.from({ length: 6 }, () => ''));
    expect(await readdir(join(home.path, libraries))).toHaveLength(1);
  });
});
