import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { getMcpConfigForManifest, unpackExtension } from '@anthropic-ai/mcpb';
import {
  Client,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { lateLine, lateLines } from '#support/late-header';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { builtPackages, filesOf, install, nodeRelease, run } from '#support/packages';
import { printedConfiguration, type PrintedConfiguration } from '#support/printed-configuration';
import { startProgram, type Program } from '#support/processes';
import { patient } from '#support/patient';
import { inherited } from '#support/programs';
import { proxyProcess } from '#support/proxy-process';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');
const timeoutMs = 120_000;
const apiKey = `mcp_${'k'.repeat(36)}`;
/** The oldest Node that the packages accept. */
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

/** The files that a file of a package imports, statically or on demand, and those that these import, sorted. */
async function loadedFrom(file: string, start: string): Promise<string[]> {
  const found = new Set([start]);
  for (const path of found) {
    const code = await run('tar', ['-xzOf', file, `package/${path}`], root);
    for (const [, name = ''] of code.matchAll(/\b(?:from|import)\(?[`"]\.\/([\w-]+\.js)[`"]/g))
      found.add(`dist/${name}`);
  }
  return [...found].sort();
}

/** What a client of the official SDK, which is not ours, gets over a connection. */
async function seenThrough(transport: Transport) {
  const client = new Client({ name: 'somebody', version: '1' });
  await client.connect(transport, { timeout: timeoutMs });
  const { tools } = await client.listTools();
  const { content } = await client.callTool({
    name: 'query',
    arguments: { sql: 'select count(*) as n from books' },
  });
  await client.close();
  return { tools: tools.map(({ name }) => name), answer: JSON.stringify(content) };
}

const demo = {
  tools: expect.arrayContaining(['query']),
  answer: expect.stringMatching(/\d{3,}/),
};

/** The same through a proxy, and what that printed on stderr. */
async function seenThroughProxy(command: string, args: string[], env: Record<string, string>) {
  const transport = new StdioClientTransport({ command, args, env, stderr: 'pipe' });
  let stderr = '';
  transport.stderr?.on('data', (text) => (stderr += String(text)));
  return { ...(await seenThrough(transport)), stderr };
}

await suite('registry', 'packed npm package', () => {
  let folder: TemporaryFolder;
  let packages: { proxy: string; server: string };
  beforeAll(async () => {
    folder = await temporaryFolder('packed');
    packages = await builtPackages(join(folder.path, 'packages'));
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
      const manifest = await run('tar', ['-xzOf', packages[program], 'package/package.json'], root);

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
      expect(code).toEqual(await loadedFrom(packages[program], 'dist/main.js'));
      expect(published.parse(JSON.parse(manifest)).bin).toEqual({ [name]: `bin/${name}.js` });
    },
  );

  test('that of the proxy has the company sign-in in a file of its own, which other starts do not load', async () => {
    const exchange = 'urn:ietf:params:oauth:token-type:id-jag';
    const files = (await filesOf(packages.proxy)).filter((file) => /^dist\/.*\.js$/.test(file));
    const codes = files.map(async (file) => ({
      file,
      code: await run('tar', ['-xzOf', packages.proxy, `package/${file}`], root),
    }));
    const found = (await Promise.all(codes)).filter(({ code }) => code.includes(exchange));

    expect(found.map(({ file }) => file)).toEqual([
      expect.stringMatching(/^dist\/company-[\w-]+\.js$/),
    ]);
  });

  describe.each([oldestNode, process.versions.node])('on Node %s', (version) => {
    let node: string;
    let env: Record<string, string>;
    let installed: string;
    let server: Program;
    let printed: PrintedConfiguration;

    beforeAll(async () => {
      const place = join(folder.path, version);
      node =
        version === process.versions.node
          ? process.execPath
          : await nodeRelease(join(place, 'node'), version);
      // npm and what it installs run on the first Node of PATH.
      const path = [dirname(node), process.env['PATH']].join(delimiter);
      env = {
        ...inherited,
        PATH: path,
        HOME: join(place, 'home'),
        LATCHKEY_SECRET_STORE: 'memory',
      };
      installed = join(place, 'installed');
      await install(installed, [packages.proxy, packages.server], { PATH: path });
      server = startProgram(node, {
        args: [
          join(installed, 'node_modules/latchkey-server/bin/latchkey-server.js'),
          'start',
          '--demo',
          '--show-demo-credentials',
          '--port=0',
          `--data-dir=${join(place, 'data')}`,
        ],
        env,
      });
      await server.line(/^listening on http/m);
      printed = printedConfiguration(server.stdout);
    }, 300_000);
    afterAll(async () => server[Symbol.asyncDispose]());

    /** Node's own warnings, which a user can do nothing about. */
    const warnings = (stderr: string) =>
      stderr.split('\n').filter((line) => /^\(node:\d+\)|Warning:/.test(line));

    test('the server serves an independent MCP client', { timeout: timeoutMs }, async () => {
      const seen = await seenThrough(
        new StreamableHTTPClientTransport(new URL(printed.described.url), {
          requestInit: { headers: { 'X-API-Key': printed.key } },
        }),
      );

      expect(seen).toEqual(demo);
      expect(warnings(server.stderr)).toEqual([]);
    });

    test.for(Object.entries(lateLines))(
      '111: the server reads %s in a header line after a thousand others',
      async ([, late]) => {
        const { url } = printed.described;
        const { statuses } = await lateLine(late, new URL(url), printed.key);

        expect(statuses).toEqual([late.status]);
      },
    );

    test('the proxy serves an independent MCP client', { timeout: timeoutMs }, async () => {
      const launcher = join(installed, 'node_modules/latchkey/bin/latchkey.js');
      const { url, oauth } = printed.described;
      const byKey = await seenThroughProxy(node, [launcher, url], {
        ...env,
        LATCHKEY_API_KEY: printed.key,
      });
      const byClient = await seenThroughProxy(node, [launcher, url], {
        ...env,
        LATCHKEY_OAUTH: JSON.stringify(oauth),
      });

      expect(byKey).toMatchObject(demo);
      expect(byClient).toMatchObject(demo);
      expect(warnings(byKey.stderr + byClient.stderr)).toEqual([]);
    });

    test('the MCP bundle serves an independent MCP client', { timeout: 300_000 }, async () => {
      const { manifest, place } = await unpackedBundle(join(folder.path, version));
      const config = await getMcpConfigForManifest({
        manifest,
        extensionPath: place,
        systemDirs: {},
        userConfig: { url: printed.described.url, api_key: printed.key },
        pathSeparator: '/',
      });

      const { stderr, ...seen } = await seenThroughProxy(node, config?.args ?? [], {
        ...config?.env,
        ...env,
      });

      expect(seen).toEqual(demo);
      expect(warnings(stderr)).toEqual([]);
    });
  });
});

type Manifest = Parameters<typeof getMcpConfigForManifest>[0]['manifest'];

/** What the script makes, once for all tests. */
let built: Promise<string> | undefined;

/** The bundle as an assistant unpacks it, in a folder with a blank in its name. */
async function unpackedBundle(folder: string): Promise<{ manifest: Manifest; place: string }> {
  const script = join(root, 'scripts/mcpb.ts');
  built ??= run(process.execPath, [script, '--installed-only'], root);
  const file = /^(\/.*\.mcpb) for/m.exec(await built)?.[1] ?? '';
  const place = join(folder, 'Claude Extensions');
  await unpackExtension({ mcpbPath: file, outputDir: place, silent: true });
  return { manifest: JSON.parse(await readFile(join(place, 'manifest.json'), 'utf8')), place };
}

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
