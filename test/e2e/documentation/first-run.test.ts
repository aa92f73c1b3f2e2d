import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Client as ModernClient } from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernTransport } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { everyCommandLine, filesBelow } from '#support/leaks';
import { printedConfiguration, type PrintedConfiguration } from '#support/printed-configuration';
import { runProgram, startProgram, type Program } from '#support/processes';
import { inherited } from '#support/programs';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');
const inspector = join(root, 'node_modules/.bin/mcp-inspector');
const launcher = join(root, 'proxy/bin/latchkey.js');
const count = { name: 'query', arguments: { sql: 'select count(*) as n from books' } };
const demo = ['--demo', '--show-demo-credentials'];
const skillUri = /^skill:\/\/.*SKILL\.md$/;

await suite('keychain', 'first run as in the README', () => {
  let session: KeychainSession;
  let home: TemporaryFolder;
  let server: Program;
  let printed: PrintedConfiguration;
  let env: Record<string, string>;
  let configFile: string;
  let proxyLog = '';

  beforeAll(async () => {
    session = await keychainSession();
    home = await temporaryFolder('home');
    env = { ...session.env, HOME: home.path, ...inherited };
    server = startProgram(process.execPath, {
      args: [join(root, 'server/bin/latchkey-server.js'), 'start', ...demo, '--port', '0'],
      env: { ...env, LATCHKEY_DATA_DIR: join(home.path, 'server') },
    });
    await server.line(/^listening on /m);
    printed = printedConfiguration(server.stdout);
    configFile = join(home.path, '..', `${Date.now()}-demo.json`);
    writeFileSync(configFile, JSON.stringify({ mcpServers: { demo: printed.described } }));
  });
  afterAll(async () => {
    await server.end();
    await session[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
    rmSync(configFile);
  });

  const byName = { command: process.execPath, args: [launcher, 'demo', '--config'] };
  const entry = () => ({ ...printed.started, env: { ...env, ...printed.started.env } });
  const noted = <
    T extends { stderr: { on(event: 'data', hear: (text: Buffer) => void): unknown } | null },
  >(
    transport: T,
  ): T => {
    transport.stderr?.on('data', (text) => (proxyLog += String(text)));
    return transport;
  };

  test('the printed curl command lists the tools', async () => {
    const { stdout } = await runProgram('/bin/sh', { args: ['-c', `${printed.curl} -s`] });

    expect(JSON.parse(stdout).result.tools.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(['list_tables', 'describe_table', 'query']),
    );
  });

  test('the printed entry serves the v1 client: it lists, queries and reads a skill', async () => {
    const client = new Client({ name: 'v1', version: '1' });
    await client.connect(noted(new StdioClientTransport({ ...entry(), stderr: 'pipe' })));
    const { tools } = await client.listTools();
    const answer = await client.callTool(count);
    const { resources } = await client.listResources();
    const skill = resources.find(({ uri }) => skillUri.test(uri));
    const read = await client.readResource({ uri: skill?.uri ?? '' });
    const commandLines = everyCommandLine();
    await client.close();

    expect(tools.map(({ name }) => name)).toContain('query');
    expect(JSON.stringify(answer)).toMatch(/\d{3,}/);
    expect(JSON.stringify(read)).toContain('select');
    expect(commandLines).toContain('latchkey.js');
    for (const secret of secrets()) expect(commandLines).not.toContain(secret);
  });

  test('the printed entry serves the v2 client, which negotiates the protocol version', async () => {
    const client = new ModernClient(
      { name: 'v2', version: '1' },
      { versionNegotiation: { mode: 'auto' } },
    );
    await client.connect(noted(new ModernTransport({ ...entry(), stderr: 'pipe' })));
    const { tools } = await client.listTools();
    const answer = await client.callTool(count);
    const { resources } = await client.listResources();
    const skill = resources.find(({ uri }) => skillUri.test(uri));
    const read = await client.readResource({ uri: skill?.uri ?? '' });
    await client.close();

    expect(tools.map(({ name }) => name)).toContain('query');
    expect(answer.isError ?? false).toBe(false);
    expect(JSON.stringify(read)).toContain('select');
  });

  test.for([
    ['tools/list', [], '"query"'],
    ['tools/call', ['--tool-name', 'query', '--tool-arg', 'sql=select 41 + 1 as n'], '42'],
    ['resources/list', [], 'SKILL.md'],
  ] as const)(
    'the Inspector command line does %s with the name of the entry',
    async ([method, args, found]) => {
      const proxy = [byName.command, ...byName.args, configFile];
      const { code, stdout, stderr } = await runProgram(inspector, {
        args: ['--cli', '-q', '--format', 'json', '--method', method, ...args, '--', ...proxy],
        env,
      });

      expect({ code, stderr }).toMatchObject({ code: 0 });
      expect(stdout).toContain(found);
    },
  );

  test('the keychain holds the token, and a second process starts from it', async () => {
    const before = tokenRequests();
    const { stdout } = await runProgram(inspector, {
      args: [
        '--cli',
        '-q',
        '--method',
        'tools/list',
        '--',
        byName.command,
        ...byName.args,
        configFile,
      ],
      env,
    });
    const { stdout: kept } = await runProgram(process.execPath, {
      args: ['--input-type=module', '-e', listCredentials],
      env,
      cwd: join(root, 'proxy'),
    });

    expect(stdout).toContain('query');
    expect(tokenRequests()).toBe(before);
    expect(kept).toMatch(/eyJ[\w-]+\.[\w-]+\.[\w-]+/);
  });

  test('no file in the home folder, no log line and no argument contains a secret', () => {
    const files = filesBelow(home.path).concat(filesBelow(session.env['XDG_DATA_HOME'] ?? ''));
    const texts = files.map((file) => ({ file, bytes: readFileSync(file).toString('latin1') }));
    const holders = texts.filter(({ bytes }) => secrets().some((secret) => bytes.includes(secret)));
    const jwts = texts.filter(({ bytes }) => /eyJ[\w-]{10,}\.[\w-]+\.[\w-]+/.test(bytes));

    expect(files.length).toBeGreaterThan(2);
    expect(holders.map(({ file }) => file)).toEqual([]);
    expect(jwts.map(({ file }) => file)).toEqual([]);
    for (const log of [proxyLog, server.stderr]) {
      expect(log).not.toMatch(/eyJ[\w-]{10,}\.|(secret|mcp)_[0-9A-Za-z]{30}/);
    }
  });

  const secrets = () => [printed.described.oauth.clientSecret, printed.key];
  const tokenRequests = () => server.stderr.split('"route":"/api/oauth/token"').length;
});

const listCredentials = `
  import { findCredentials } from '@napi-rs/keyring';
  for (const { account, password } of findCredentials('latchkey')) {
    console.log(account, password);
  }`;
