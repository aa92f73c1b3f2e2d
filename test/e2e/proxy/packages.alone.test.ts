import { cp, mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { getMcpConfigForManifest, unpackExtension } from '@anthropic-ai/mcpb';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { runProgram } from '#support/processes';
import { proxyProcess } from '#support/proxy-process';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');
const timeoutMs = 120_000;
const apiKey = `mcp_${'k'.repeat(36)}`;

async function done(command: string, args: string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await runProgram(command, { args, cwd, timeoutMs });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${stderr}`);
  return stdout;
}

async function bytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

await suite('registry', 'packed npm package', () => {
  test(
    'it installs in an empty folder without scripts, and carries a call there',
    { timeout: 300_000 },
    async () => {
      await using folder = await temporaryFolder('packed');
      await using server = await oauthFront(legacyMcp().handle);
      const empty = join(folder.path, 'empty');
      await mkdir(empty);
      await done(process.execPath, [join(root, 'scripts/build.ts')], root);

      const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder.path];
      const [packed] = z
        .tuple([z.object({ filename: z.string(), files: z.array(z.object({ path: z.string() })) })])
        .parse(JSON.parse(await done('npm', args, join(root, 'proxy'))));
      const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--omit=dev'];
      await done('npm', [...install, join(folder.path, packed.filename)], empty);
      const launcher = join(empty, 'node_modules/latchkey/bin/latchkey.js');
      const version = await done(process.execPath, [launcher, '--version'], empty);
      await using proxy = proxyProcess({
        command: process.execPath,
        args: [launcher, server.url],
        env: { LATCHKEY_API_KEY: apiKey },
      });
      const { result } = await proxy.handshake();
      const tools = await proxy.request('tools/list');
      const installed = (await readdir(join(empty, 'node_modules'), { recursive: true })).filter(
        (name) => /^(latchkey|@napi-rs[\\/][^\\/]+)[\\/]package\.json$/.test(name),
      );
      const megabytes = (await bytesIn(join(empty, 'node_modules'))) / 1e6;
      console.log(`installed: ${megabytes.toFixed(1)} MB, ${installed.length} packages`);

      expect(packed.files.map(({ path }) => path).sort()).toEqual([
        'LICENSE',
        'README.md',
        'bin/latchkey.js',
        'dist/main.js',
        'dist/sbom.cdx.json',
        'package.json',
      ]);
      expect(version).toMatch(/^\d+\.\d+\.\d+\n$/);
      expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
      expect(tools.error).toBeUndefined();
      expect(megabytes).toBeLessThan(8);
      expect(installed.length).toBeLessThanOrEqual(10);
      expect(await readdir(join(empty, 'node_modules'))).toEqual(
        expect.arrayContaining(['@napi-rs', 'latchkey']),
      );
    },
  );
});

const manifestSchema = z.looseObject({
  version: z.string(),
  user_config: z.record(z.string(), z.looseObject({ default: z.string().optional() })),
});

test(
  'MCP bundle: it starts as its manifest says, with what the user entered',
  { timeout: 300_000 },
  async () => {
    await using folder = await temporaryFolder('bundle');
    await using server = await oauthFront(legacyMcp().handle);
    const stdout = await done(
      process.execPath,
      [join(root, 'scripts/mcpb.ts'), '--installed-only'],
      root,
    );
    const file = /^(\/.*\.mcpb) for/m.exec(stdout)?.[1] ?? '';
    await cp(file, join(folder.path, 'latchkey.mcpb'));
    // Where an assistant keeps it there is a blank in the path.
    const place = join(folder.path, 'Claude Extensions');
    await unpackExtension({
      mcpbPath: join(folder.path, 'latchkey.mcpb'),
      outputDir: place,
      silent: true,
    });
    const manifest: Parameters<typeof getMcpConfigForManifest>[0]['manifest'] = JSON.parse(
      await done('cat', ['manifest.json'], place),
    );
    const { user_config: asked } = manifestSchema.parse(manifest);
    const { clientId, clientSecret, scopes } = server.client;
    const start = async (userConfig: Record<string, string>) => {
      const config = await getMcpConfigForManifest({
        manifest,
        extensionPath: place,
        systemDirs: {},
        userConfig,
        pathSeparator: '/',
      });
      const { args = [], env = {} } = config ?? {};
      return proxyProcess({
        command: process.execPath,
        args,
        env: { ...env, LATCHKEY_SECRET_STORE: 'memory' },
      });
    };

    await using byKey = await start({ url: server.url, api_key: apiKey });
    await using byClient = await start({
      url: server.url,
      client_id: clientId,
      client_secret: clientSecret,
      scopes: scopes.join(' '),
    });
    const answers = [await byKey.handshake(), await byClient.handshake()];

    for (const { result } of answers)
      expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
    expect(asked['client_secret']).toMatchObject({ sensitive: true });
    expect(asked['api_key']).toMatchObject({ sensitive: true });
    expect(server.tokenRequests.at(-1)?.get('scope')).toBe(scopes.join(' '));
  },
);
