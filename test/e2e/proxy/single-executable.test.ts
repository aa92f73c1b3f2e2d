import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { acmeServer } from '#support/acme-server';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { runProgram } from '#support/processes';
import { proxyLauncher, serverSources } from '#support/programs';
import { runningServer } from '#support/running-server';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');
const tray = join(root, 'tray-app');
const packaging = join(tray, 'build');
const buildLimitMs = 240_000;
const libraries = '.local/state/latchkey/libraries';
const apiKey = `mcp_${'k'.repeat(36)}`;
let program = '';

const desktopFile = z.object({
  mcpServers: z.record(z.string(), z.object({ command: z.string(), args: z.array(z.string()) })),
});

/*
 * `scripts/sea.ts` builds into the working tree, where the app's package takes the program from. No other file of this level may run it.
 */
beforeAll(async () => {
  const args = [join(root, 'scripts/sea.ts')];
  const { code, stdout, stderr } = await runProgram(process.execPath, {
    args,
    timeoutMs: buildLimitMs,
  });
  if (code !== 0) throw new Error(stderr);
  program = stdout.trim();
}, buildLimitMs);

async function versionOfProxy(): Promise<string> {
  const manifest = await readFile(join(root, 'proxy/package.json'), 'utf8');
  const { version }: { version: string } = JSON.parse(manifest);
  return version;
}

test('single executable: it runs without Node and prints its version', async () => {
  const version = await versionOfProxy();
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
  // A Node that reads this file soon fails, because it has no default provider.
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

test('single executable: a server in the source tree offers it, and the commands of its page install it', async () => {
  await using server = await runningServer({ args: ['--demo'], launcher: serverSources });
  await using home = await latchkeyHome({}, [program]);
  const built = await readFile(program);
  const sha256 = createHash('sha256').update(built).digest('hex');

  const page = (await (await fetch(`${server.base}/download/`)).text()).replaceAll('&quot;', '"');
  const [, path = ''] = /href="(\/download\/latchkey-[\w.-]+\?v=\w+)" download/.exec(page) ?? [];
  const answer = await fetch(`${server.base}${path}`);
  const downloaded = Buffer.from(await answer.arrayBuffer());
  const [url = ''] = path.split('?');
  const sum = await (await fetch(`${server.base}${url}.sha256`)).text();
  const [, commands = ''] = /data-copy="(mkdir [^"]*"[^"]*"[^"]*"[^"]*"[^"]*)"/.exec(page) ?? [];
  const typed = commands
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')
    .replace(/\.\/latchkey setup .*/, './latchkey --version');
  const env = { PATH: process.env['PATH'], HOME: home.path };
  const installed = await runProgram('sh', { args: ['-c', typed], env });
  const other = typed.replace(sha256, '0'.repeat(64));
  const refused = await runProgram('sh', { args: ['-c', other], env });

  expect(downloaded.equals(built)).toBe(true);
  expect(answer.headers.get('content-length')).toBe(String(built.length));
  expect(answer.headers.get('etag')).toBe(`"${sha256}"`);
  expect(answer.headers.get('cache-control')).toContain('immutable');
  expect(answer.headers.get('content-disposition')).toContain(url.slice('/download/'.length));
  expect(sum).toBe(`${sha256}  ${url.slice('/download/'.length)}\n`);
  expect(page).toContain(sha256);
  expect(typed).toContain(server.base);
  expect(installed).toMatchObject({ code: 0 });
  expect(installed.stdout).toBe(`latchkey.download: OK\n${await versionOfProxy()}\n`);
  // A download that is not what the page names replaces nothing and is not started.
  expect(refused).toMatchObject({ code: 1, stdout: 'latchkey.download: FAILED\n' });
  expect((await readFile(join(home.path, '.local/bin/latchkey'))).equals(built)).toBe(true);
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

test.skipIf(process.platform === 'win32')(
  'AppImage: arguments go to the proxy unchanged, and without any it starts the app',
  async () => {
    await using folder = await temporaryFolder('AppDir');
    const image = join(folder.path, 'with blank');
    await mkdir(join(image, 'resources'), { recursive: true });
    await copyFile(join(packaging, 'AppRun'), join(image, 'AppRun'));
    const says = (name: string) => `#!/bin/sh\nprintf '%s|' ${name} "$LD_LIBRARY_PATH" "$@"\n`;
    const bin = join(folder.path, 'bin');
    await mkdir(bin);
    const programs = {
      [join(image, 'resources/latchkey')]: says('proxy'),
      [join(image, 'latchkey-app')]: says('app'),
      [join(bin, 'unshare')]: '#!/bin/sh\nexit "$NO_NAMESPACES"\n',
    };
    for (const [path, text] of Object.entries(programs)) {
      await writeFile(path, text);
      await chmod(path, 0o755);
    }
    const run = async (args: string[], noNamespaces = '0') =>
      runProgram(join(image, 'AppRun'), {
        args,
        env: {
          PATH: `${bin}:${process.env['PATH']}`,
          LD_LIBRARY_PATH: '',
          NO_NAMESPACES: noNamespaces,
        },
      });

    const proxy = await run(['connect', 'two words', '$HOME']);
    const app = await run(['--hidden']);
    const bare = await run([]);
    const caged = await run([], '1');
    const cagedProxy = await run(['connect', 'sales'], '1');

    expect(proxy.stdout).toBe('proxy||connect|two words|$HOME|');
    expect(app.stdout).toBe(`app|${image}/usr/lib|--hidden|`);
    expect(bare.stdout).toBe(`app|${image}/usr/lib|`);
    expect(caged).toMatchObject({ code: 1, stdout: '' });
    expect(caged.stderr).toContain('install that instead');
    expect(cagedProxy.stdout).toBe('proxy||connect|sales|');
  },
);
