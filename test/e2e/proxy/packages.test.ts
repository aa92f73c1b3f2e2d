import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { getMcpConfigForManifest } from '@anthropic-ai/mcpb';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { testInstalledPackages, unpackedBundle } from '#support/installed-packages';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { builtPackages, filesOf, install, run } from '#support/packages';
import { patient } from '#support/patient';
import { proxyProcess } from '#support/proxy-process';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const timeoutMs = 120_000;
const apiKey = `mcp_${'k'.repeat(36)}`;
/** The oldest Node that the packages accept. `packages.full.test.ts` is about the one that runs the tests. */
const oldestNode = '22.19.0';
const published = z.strictObject({
  name: z.string(),
  version: z.string(),
  description: z.string(),
  keywords: z.array(z.string()),
  license: z.literal('MIT'),
  type: z.literal('module'),
  bin: z.record(z.string(), z.string()),
  dependencies: z.record(z.string(), z.string()),
  engines: z.strictObject({ node: z.literal('>=22.19') }),
});

async function bytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** The files of a folder that a file there imports, statically or on demand, and those that these import, sorted. */
async function loadedFrom(folder: string, start: string): Promise<string[]> {
  const found = new Set([start]);
  for (const path of found) {
    const code = await readFile(join(folder, path), 'utf8');
    for (const [, name = ''] of code.matchAll(/\b(?:from|import)\(?[`"]\.\/([\w-]+\.js)[`"]/g))
      found.add(`dist/${name}`);
  }
  return [...found].sort();
}

await suite('registry', 'packed npm package', () => {
  let folder: TemporaryFolder;
  let packages: { proxy: string; server: string };
  const unpacked = (program: 'proxy' | 'server') => join(folder.path, program);
  beforeAll(async () => {
    folder = await temporaryFolder('packed');
    packages = await builtPackages(join(folder.path, 'packages'));
    for (const program of ['proxy', 'server'] as const) {
      await mkdir(unpacked(program));
      await run('tar', ['-xzf', packages[program], '--strip-components=1'], unpacked(program));
    }
  }, timeoutMs);
  afterAll(async () => folder[Symbol.asyncDispose]());

  test(
    'it installs in an empty folder without scripts, carries a call there, and outlives its files',
    { timeout: 300_000 },
    async () => {
      await using server = await oauthFront(legacyMcp().handle);
      const empty = join(folder.path, 'empty');

      await install(empty, [packages.proxy]);
      const launcher = join(empty, 'node_modules/latchkey/bin/latchkey.js');
      const version = await run(process.execPath, [launcher, '--version'], empty);
      const state = join(folder.path, 'state');
      await using proxy = proxyProcess({
        command: process.execPath,
        args: [launcher, server.url, '--state-dir', state],
        env: { LATCHKEY_API_KEY: apiKey },
      });
      const { result } = await proxy.handshake();
      const tools = await proxy.request('tools/list');
      const installed = (await readdir(join(empty, 'node_modules'), { recursive: true })).filter(
        (name) => /^(latchkey|@napi-rs[\\/][^\\/]+)[\\/]package\.json$/.test(name),
      );
      const megabytes = (await bytesIn(join(empty, 'node_modules'))) / 1e6;
      // An upgrade removes the files of a proxy that runs. It has loaded all of them by the time it publishes its status.
      await expect.poll(async () => readdir(join(state, 'running')), patient).toHaveLength(1);
      await rm(join(empty, 'node_modules/latchkey/dist'), { recursive: true });
      await server[Symbol.asyncDispose]();
      const remembered = await proxy.request('tools/list');
      console.log(`installed: ${megabytes.toFixed(1)} MB, ${installed.length} packages`);

      expect(version).toMatch(/^\d+\.\d+\.\d+\n$/);
      expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
      expect(tools.error).toBeUndefined();
      expect(remembered.result).toEqual(tools.result);
      expect(megabytes).toBeLessThan(8);
      expect(installed.length).toBeLessThanOrEqual(10);
      expect(await readdir(join(empty, 'node_modules'))).toEqual(
        expect.arrayContaining(['@napi-rs', 'latchkey']),
      );
    },
  );

  test.each([
    ['proxy', 'latchkey', []],
    [
      'server',
      'latchkey-server',
      [
        expect.stringMatching(/^dist\/latchkey-[\d.]+\.mcpb$/),
        expect.stringMatching(/^dist\/latchkey-[\d.]+\.tgz$/),
      ],
    ],
  ] as const)(
    'that of the %s contains only what it runs, and its manifest names nothing else',
    async (program, name, more) => {
      const manifest = await readFile(join(unpacked(program), 'package.json'), 'utf8');

      const files = await filesOf(packages[program]);
      const code = files.filter((file) => /^dist\/.*\.js$/.test(file));
      expect(files.filter((file) => !code.includes(file))).toEqual([
        'LICENSE',
        'README.md',
        `bin/${name}.js`,
        ...more,
        'dist/sbom.cdx.json',
        'package.json',
      ]);
      expect(code).toEqual(await loadedFrom(unpacked(program), 'dist/main.js'));
      expect(published.parse(JSON.parse(manifest)).bin).toEqual({ [name]: `bin/${name}.js` });
    },
  );

  test('that of the proxy has the company sign-in in a file of its own, which other starts do not load', async () => {
    const exchange = 'urn:ietf:params:oauth:token-type:id-jag';
    const files = (await filesOf(packages.proxy)).filter((file) => /^dist\/.*\.js$/.test(file));
    const codes = files.map(async (file) => ({
      file,
      code: await readFile(join(unpacked('proxy'), file), 'utf8'),
    }));
    const found = (await Promise.all(codes)).filter(({ code }) => code.includes(exchange));

    expect(found.map(({ file }) => file)).toEqual([
      expect.stringMatching(/^dist\/company-[\w-]+\.js$/),
    ]);
  });

  testInstalledPackages(oldestNode);
});

const manifestSchema = z.looseObject({
  version: z.string(),
  user_config: z.record(z.string(), z.looseObject({ default: z.string().optional() })),
});

test(
  'MCP bundle: it starts as its manifest describes, with the user’s settings',
  { timeout: 300_000 },
  async () => {
    await using folder = await temporaryFolder('bundle');
    await using server = await oauthFront(legacyMcp().handle);
    const { manifest, place } = await unpackedBundle(folder.path);
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
