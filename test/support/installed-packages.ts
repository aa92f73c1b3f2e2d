import { readFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { getMcpConfigForManifest, unpackExtension } from '@anthropic-ai/mcpb';
import {
  Client,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { lateLine, lateLines } from './late-header.ts';
import { builtPackages, install, nodeRelease, run } from './packages.ts';
import { printedConfiguration, type PrintedConfiguration } from './printed-configuration.ts';
import { startProgram, type Program } from './processes.ts';
import { inherited } from './programs.ts';
import { temporaryFolder, type TemporaryFolder } from './temporary-folder.ts';

const root = join(import.meta.dirname, '../..');
const timeoutMs = 120_000;

/** The answers that a client of the official SDK, a third-party client, gets over a connection. */
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

/** The same answers through a proxy, and the stderr output of that proxy. */
async function seenThroughProxy(command: string, args: string[], env: Record<string, string>) {
  const transport = new StdioClientTransport({ command, args, env, stderr: 'pipe' });
  let stderr = '';
  transport.stderr?.on('data', (text) => (stderr += String(text)));
  return { ...(await seenThrough(transport)), stderr };
}

/** Defines the tests of both packages as npm installs them, and of the bundle, all run by this release of Node. */
export function testInstalledPackages(version: string): void {
  describe(`on Node ${version}`, () => {
    let folder: TemporaryFolder;
    let node: string;
    let env: Record<string, string>;
    let installed: string;
    let server: Program;
    let printed: PrintedConfiguration;

    beforeAll(async () => {
      folder = await temporaryFolder('installed');
      const packages = await builtPackages(join(folder.path, 'packages'));
      const place = join(folder.path, version);
      node =
        version === process.versions.node
          ? process.execPath
          : await nodeRelease(join(place, 'node'), version);
      // npm and the programs that it installs run on the first Node of PATH.
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
    afterAll(async () => {
      await server[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    });

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
}

type Manifest = Parameters<typeof getMcpConfigForManifest>[0]['manifest'];

/** The output of the script that builds the bundle, once for all tests. */
let built: Promise<string> | undefined;

/** The bundle as an assistant unpacks it, in a folder with a blank in its name. */
export async function unpackedBundle(
  folder: string,
): Promise<{ manifest: Manifest; place: string }> {
  const script = join(root, 'scripts/mcpb.ts');
  built ??= run(process.execPath, [script, '--installed-only'], root);
  const file = /^(\/.*\.mcpb) for/m.exec(await built)?.[1] ?? '';
  const place = join(folder, 'Claude Extensions');
  await unpackExtension({ mcpbPath: file, outputDir: place, silent: true });
  return { manifest: JSON.parse(await readFile(join(place, 'manifest.json'), 'utf8')), place };
}
