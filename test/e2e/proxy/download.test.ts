import { request } from 'node:http';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { getMcpConfigForManifest, unpackExtension } from '@anthropic-ai/mcpb';
import { validateManifest } from '@anthropic-ai/mcpb/node';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';

import { browserHandover, type BrowserHandover } from '#support/browser-handover';
import { authority } from '#support/certificates';
import { allow } from '#support/consenting-person';
import { cookieBrowser } from '#support/cookie-browser';
import { keychainSession } from '#support/keychain-session';
import { builtPackages } from '#support/packages';
import { patient } from '#support/patient';
import { printedConfiguration } from '#support/printed-configuration';
import { type Program, runProgram, startProgram } from '#support/processes';
import { serverSources } from '#support/programs';
import { runningServer, type RunningServer } from '#support/running-server';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';
import { tlsServer } from '#support/tls-server';

const timeoutMs = 120_000;
const made = z.object({ key: z.string() });

async function done(
  command: string,
  args: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
): Promise<string> {
  const { code, stdout, stderr } = await runProgram(command, { args, ...options, timeoutMs });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${stderr}`);
  return stdout;
}

/** An empty folder, an empty cache of npm, and no keychain. */
async function emptyPlace() {
  const folder = await temporaryFolder('somebody');
  const home = folder.path;
  const cwd = join(home, 'empty');
  await mkdir(cwd);
  const env = {
    // These variables include how npm reaches its registry from this machine.
    ...Object.fromEntries(
      Object.entries(process.env).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value]],
      ),
    ),
    HOME: folder.path,
    npm_config_cache: join(folder.path, 'npm-cache'),
    LATCHKEY_SECRET_STORE: 'memory',
  };
  return { home, cwd, env, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

/** The URL that the page shows. */
async function displayUrl(base: string): Promise<string> {
  const page = await (await fetch(`${base}/download/`)).text();
  const [, url = ''] = /npx -y &quot;([^&]+)&quot;/.exec(page) ?? [];
  return url;
}

/** What a client of the official SDK, which is not ours, finds through the program it starts. */
async function toolsThrough(
  command: string,
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Record<string, string> },
) {
  const client = new Client({ name: 'somebody', version: '1' });
  await client.connect(new StdioClientTransport({ command, args: [...args], cwd, env }), {
    timeout: timeoutMs,
  });
  const { tools } = await client.listTools();
  const { content } = await client.callTool({
    name: 'query',
    arguments: { sql: 'select count(*) as n from books' },
  });
  await client.close();
  return { names: tools.map(({ name }) => name), answer: JSON.stringify(content) };
}

await suite('registry', 'proxy download', () => {
  describe('from a server that runs from the sources', () => {
    // The server packs the proxy when it is first requested.
    let server: RunningServer;
    beforeAll(async () => {
      server = await runningServer({ args: ['--demo'], launcher: serverSources });
    });
    afterAll(() => server[Symbol.asyncDispose]());

    test(
      'is packed, runs by its URL alone, and serves an independent MCP client',
      { timeout: 300_000 },
      async () => {
        await using place = await emptyPlace();
        const { key } = made.parse(
          await server.command('key', 'create', 'demo/library', '--name', 'k'),
        );

        const url = await displayUrl(server.base);
        const file = await fetch(url);
        const bytes = Buffer.from(await file.arrayBuffer());
        const sum = await (await fetch(`${url.split('?')[0]}.sha256`)).text();
        const env = { ...place.env, LATCHKEY_API_KEY: key };
        const endpoint = `${server.base}/mcp/demo/library`;
        const words = ['-y', '--prefer-offline', url, endpoint];
        const first = await toolsThrough('npx', words, { ...place, env });
        const second = await toolsThrough('npx', words, { ...place, env });

        expect(url).toMatch(
          new RegExp(`^${server.base}/download/latchkey-[\\d.]+\\.tgz\\?v=[0-9a-f]{16}$`),
        );
        expect(sum).toBe(
          `${createHash('sha256').update(bytes).digest('hex')}  ${new URL(url).pathname.split('/').pop()}\n`,
        );
        expect(first.names).toContain('query');
        expect(first.answer).toMatch(/\d{3,}/);
        expect(second).toEqual(first);
        // npm's copy served the second start: an assistant starts although the server is away for a while.
        await expect.poll(() => downloads(server.program.stderr), patient).toBe(3);
        expect(await readdir(place.cwd)).toEqual([]);
      },
    );

    test(
      'installs by its URL into an empty folder, and is a command there',
      { timeout: 300_000 },
      async () => {
        await using place = await emptyPlace();
        const url = await displayUrl(server.base);

        await done('npm', ['install', '--no-audit', '--no-fund', url], place);
        const version = await done(
          join(place.cwd, 'node_modules/.bin/latchkey'),
          ['--version'],
          place,
        );

        expect(version).toBe(`${/latchkey-([\d.]+)\.tgz/.exec(url)?.[1]}\n`);
      },
    );
  });

  describe('from a server that was installed from its own package', () => {
    test(
      'is what the printed configuration runs, for an independent MCP client',
      { timeout: 300_000 },
      async () => {
        await using place = await emptyPlace();
        await using elsewhere = await emptyPlace();
        const { server: packed } = await builtPackages(join(place.home, 'packed'));
        await done(
          'npm',
          ['install', '--ignore-scripts', '--no-audit', '--no-fund', packed],
          place,
        );
        await using server = startProgram(join(place.cwd, 'node_modules/.bin/latchkey-server'), {
          args: [
            'start',
            '--demo',
            '--show-demo-credentials',
            '--port',
            '0',
            '--data-dir',
            join(place.home, 'data'),
          ],
          cwd: place.cwd,
          env: place.env,
        });
        await server.line(/^listening on (http:\S+)$/m);
        const { started } = printedConfiguration(server.stdout);

        const { names, answer } = await toolsThrough(started.command, started.args, {
          cwd: elsewhere.cwd,
          env: { ...elsewhere.env, ...started.env },
        });

        expect(started.command).toBe('npx');
        expect(started.args[2]).toMatch(
          /^http:\/\/127\.0\.0\.1:\d+\/download\/latchkey-[\d.]+\.tgz\?v=/,
        );
        expect(names).toContain('query');
        expect(answer).toMatch(/\d{3,}/);
        await server.line(/for npx -y "http:\/\/127\.0\.0\.1:/);
      },
    );
  });

  test(
    'is in the bundle of a collection, which serves what its members have',
    { timeout: 300_000 },
    async () => {
      await using place = await emptyPlace();
      await using server = await runningServer({ args: ['--demo'] });
      await server.command('collection', 'create', 'demo/desk', '--member', 'library');
      const { key } = made.parse(await server.command('key', 'create', 'demo/desk', '--name', 'k'));
      const bundle = await bundleOf(`${server.base}/download/demo/desk.mcpb`, place.home);

      const { names, answer } = await toolsThrough(process.execPath, bundle.args, {
        cwd: place.cwd,
        env: { ...place.env, ...bundle.env, LATCHKEY_API_KEY: key },
      });

      expect(names).toContain('query');
      expect(answer).toMatch(/\d{3,}/);
    },
  );

  test(
    'works from a server with a private certificate authority that npm is told to trust',
    { timeout: 300_000 },
    async () => {
      await using place = await emptyPlace();
      const company = await authority('Company');
      const authorityFile = join(place.home, 'company.pem');
      // The registry may itself be behind an authority that this machine names.
      const known = process.env['NODE_EXTRA_CA_CERTS'];
      const others = known === undefined ? '' : await readFile(known, 'utf8');
      await writeFile(authorityFile, `${others}\n${company.cert}`);
      const target = { port: 0 };
      await using front = await tlsServer(await company.issue('latchkey'), (asked, response) => {
        const { method, url, headers } = asked;
        request({ host: '127.0.0.1', port: target.port, method, path: url, headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
        }).end();
      });
      const base = `https://127.0.0.1:${front.port}`;
      await using server = await runningServer({ args: ['--base-url', base] });
      target.port = server.port;
      const host = { Host: `127.0.0.1:${front.port}` };
      const page = await text(server.port, '/download/', host);
      const [, url = ''] = /npx -y &quot;([^&]+)&quot;/.exec(page) ?? [];
      const install = ['-y', url, '--version'];

      const refused = await runProgram('npx', {
        args: [...install, '--fetch-retries=0'],
        ...place,
        env: { ...place.env, npm_config_fetch_retries: '0' },
        timeoutMs,
      });
      // An npm that is configured with a `cafile` uses no other authorities.
      const npmFile = (await done('npm', ['config', 'get', 'cafile'], place)).trim();
      const env = {
        ...place.env,
        NODE_EXTRA_CA_CERTS: authorityFile,
        ...(npmFile !== 'null' && { npm_config_cafile: authorityFile }),
      };
      const version = await done('npx', install, { cwd: place.cwd, env });

      expect(url).toContain(`${base}/download/latchkey-`);
      expect(refused.code).not.toBe(0);
      expect(refused.stderr).toContain('certificate');
      expect(version).toMatch(/^\d+\.\d+\.\d+\n$/);
    },
  );
});

const dana = { email: 'dana@example.com', password: 'correct horse battery staple' };

/** The demo server as it was installed from its package, with a member who has a password. */
async function serverOfDana(): Promise<ServerProcess> {
  const server = await serverProcess({ args: ['--demo'] });
  const add = ['user', 'create', dana.email, '--organization', 'demo', '--role', 'member'];
  await server.command(add, `${dana.password}\n`);
  return server;
}

/** Where the secrets of a computer are kept, as variables of every program there. */
const stores = {
  'with a keychain': async () => {
    const session = await keychainSession();
    onTestFinished(() => session[Symbol.asyncDispose]());
    return { ...session.env, LATCHKEY_SECRET_STORE: 'os' };
  },
  'without a keychain': async (home: string) => {
    const keyFile = join(home, 'key');
    await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });
    return {
      DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent',
      LATCHKEY_SECRET_STORE: 'file',
      LATCHKEY_SECRET_STORE_KEY_FILE: keyFile,
    };
  },
};

/** Dana opens the page that a program shows her, signs in and allows it. */
async function allowAsDana(browser: BrowserHandover): Promise<string> {
  const cookies = cookieBrowser();
  const page = await cookies.follow(await browser.next());
  const answer = await cookies.open(await allow(page, dana));
  return answer.text();
}

await suite(['keychain', 'registry'], 'connecting to a server with what it hands out', () => {
  describe.each(Object.entries(stores))('%s', (_, storeAt) => {
    test(
      'setup from its URL signs in, and what it installs serves an independent MCP client',
      { timeout: 300_000 },
      async () => {
        await using place = await emptyPlace();
        await using server = await serverOfDana();
        await using browser = await browserHandover();
        const env = { ...place.env, ...browser.env, ...(await storeAt(place.home)) };
        await mkdir(join(place.home, '.cursor'));
        const url = await displayUrl(server.base);
        const endpoint = `${server.base}/mcp/demo/library`;

        await using setup: Program = startProgram('npx', {
          args: ['-y', url, 'setup', endpoint, '--yes'],
          cwd: place.cwd,
          env,
        });
        const told = await allowAsDana(browser);
        const { code } = await setup.exited;
        const file = await readFile(join(place.home, '.cursor/mcp.json'), 'utf8');
        const {
          command,
          args,
          env: own = {},
        } = cursorFile.parse(JSON.parse(file)).mcpServers.library;
        const { names, answer } = await toolsThrough(command, args, {
          cwd: place.cwd,
          env: { ...env, ...own },
        });

        expect({ code, stderr: setup.stderr }).toMatchObject({ code: 0 });
        expect(told).toContain('You are signed in');
        expect(setup.stdout).toContain('signed in as dana@example.com');
        expect(names).toContain('query');
        expect(answer).toMatch(/\d{3,}/);
        expect(file).not.toMatch(/eyJ|rt_|secret_/);
      },
    );

    test(
      'its bundle is valid, contains no credential, signs in and serves an independent MCP client',
      { timeout: 300_000 },
      async () => {
        await using place = await emptyPlace();
        await using server = await serverOfDana();
        await using browser = await browserHandover();
        const env = { ...place.env, ...browser.env, ...(await storeAt(place.home)) };
        const bundle = await bundleOf(`${server.base}/download/demo/library.mcpb`, place.home);

        const client = new Client({ name: 'somebody', version: '1' });
        const transport = new StdioClientTransport({
          command: process.execPath,
          args: bundle.args,
          cwd: place.cwd,
          env: { ...env, ...bundle.env },
        });
        const connecting = client.connect(transport, { timeout: timeoutMs });
        const told = await allowAsDana(browser);
        await connecting;
        const { tools } = await client.listTools();
        await client.close();
        const { names, answer } = await toolsThrough(process.execPath, bundle.args, {
          cwd: place.cwd,
          env,
        });

        expect(told).toContain('You are signed in');
        expect(tools.map(({ name }) => name)).toContain('query');
        expect(names).toContain('query');
        expect(answer).toMatch(/\d{3,}/);
        expect(browser.left).toBe(0);
      },
    );
  });

  test('a bundle of a server that does not exist is made in the same way', async () => {
    await using place = await emptyPlace();
    await using server = await serverOfDana();

    const { manifest } = await bundleOf(`${server.base}/download/nobody/nothing.mcpb`, place.home);

    expect(manifest.display_name).toBe('nobody/nothing (Latchkey)');
  });
});

const cursorFile = z.object({
  mcpServers: z.object({
    library: z.object({
      command: z.string(),
      args: z.array(z.string()),
      env: z.record(z.string(), z.string()).optional(),
    }),
  }),
});

type Manifest = Parameters<typeof getMcpConfigForManifest>[0]['manifest'];

/** A bundle as an assistant downloads, checks and unpacks it, and what it starts. */
async function bundleOf(url: string, home: string) {
  const answer = await fetch(url);
  const [, fileName = ''] =
    /filename="([\w.-]+)"/.exec(answer.headers.get('content-disposition') ?? '') ?? [];
  const bytes = Buffer.from(await answer.arrayBuffer());
  const file = join(home, fileName);
  await writeFile(file, bytes);
  const folder = join(home, 'Claude Extensions', fileName);
  expect(await unpackExtension({ mcpbPath: file, outputDir: folder, silent: true })).toBe(true);
  expect(validateManifest(folder)).toBe(true);
  const written = await readFile(join(folder, 'manifest.json'), 'utf8');
  const manifest: Manifest = JSON.parse(written);
  const config = await getMcpConfigForManifest({
    manifest,
    extensionPath: folder,
    systemDirs: {},
    userConfig: {},
    pathSeparator: '/',
  });
  const place = new URL(url).pathname.replace('/download/', '').replace('.mcpb', '');

  expect(manifest).toMatchObject({
    display_name: `${place} (Latchkey)`,
    description: expect.stringContaining(place),
    icon: 'icon.png',
  });
  expect(manifest).not.toHaveProperty('user_config');
  expect(written).not.toMatch(/mcp_[0-9A-Za-z]{36}|secret_[0-9A-Za-z]{36}|API_KEY/);
  expect(config?.args).toEqual([
    join(folder, 'bin/latchkey.js'),
    'connect',
    `${new URL(url).origin}/mcp/${place}`,
  ]);
  return { manifest, args: config?.args ?? [], env: config?.env ?? {} };
}

/** How often a server sent the file, according to its log. */
function downloads(log: string): number {
  return log.split('\n').filter((line) => line.includes('"route":"/download/:file"')).length;
}

function text(port: number, path: string, headers: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path, headers }, (answer) => {
      let body = '';
      answer.setEncoding('utf8').on('data', (part: string) => (body += part));
      answer.on('end', () => resolve(body));
    })
      .on('error', reject)
      .end();
  });
}
