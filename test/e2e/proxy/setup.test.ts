import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { expect, onTestFinished, test } from 'vitest';

import { browserHandover } from '#support/browser-handover';
import { chromium } from '#support/chromium';
import { bodyOf, countedServer } from '#support/counted-server';
import { desktop } from '#support/desktop';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { runProgram, startProgram } from '#support/processes';
import { inherited } from '#support/programs';
import { launcher, proxyProcess } from '#support/proxy-process';
import { serverProcess } from '#support/server-process';
import { signInFront } from '#support/sign-in-front';
import { statelessMcp } from '#support/stateless-mcp';
import { suite } from '#support/suite';

const apiKey = `mcp_${'k'.repeat(36)}`;
const cursor = '.cursor/mcp.json';
const gemini = '.gemini/settings.json';

/** The computer of one person with Cursor and Gemini CLI, and the text of their files. */
async function withAssistants(env: Record<string, string> = {}) {
  const machine = await desktop(env);
  const at = (file: string) => join(machine.folder, file);
  for (const file of [cursor, gemini]) mkdirSync(dirname(at(file)), { recursive: true });
  const read = (file: string) => {
    try {
      return readFileSync(at(file), 'utf8');
    } catch {
      return undefined;
    }
  };
  const write = (file: string, text: string) => writeFileSync(at(file), text);
  const entry = (file: string, name: string): { command: string; args: string[] } =>
    JSON.parse(read(file) ?? '{}').mcpServers?.[name];
  return { ...machine, read, write, entry, at };
}

test('setup: a person signs in once, and every assistant that was found starts the connection', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants();

  const done = await machine.run('setup', server.url);
  const again = await machine.run('setup', server.url, '--yes');
  await using proxy = proxyProcess({ ...machine.entry(cursor, 'sales'), env: machine.env });
  const { result } = await proxy.handshake();

  expect(done).toMatchObject({ code: 0 });
  expect(done.stdout).toContain(`added sales: ${server.url}`);
  expect(done.stdout).toContain(`signed in to sales (${server.url})`);
  expect(done.stdout).toContain(`added sales to Cursor: ${machine.at(cursor)}`);
  expect(done.stdout).toContain(`added sales to Gemini CLI: ${machine.at(gemini)}`);
  expect(done.stdout).not.toContain('Claude');
  expect(done.stdout).toMatch(/^sales: \d+ tools$/m);
  expect(done.stderr).toContain('next: restart Gemini CLI and Cursor to finish');
  expect(again.stdout).toContain('sales was already set up');
  expect(again.stdout).toMatch(/^sales: \d+ tools$/m);
  expect(server.asked).toHaveLength(1);
  expect(server.registrations).toHaveLength(1);
  expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
});

test('setup: an API key that the server requires is asked for, and another run repairs what is missing', async () => {
  await using server = await oauthFront(legacyMcp().handle, { published: false });
  await using home = await latchkeyHome({});
  const keyFile = join(home.path, 'key');
  writeFileSync(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const store = ['--secret-store', 'file', '--secret-store-key-file', keyFile];
  const place = [...store, '--state-dir', join(home.path, 'state')];
  await home.write(cursor, '{}');

  const done = await home.json(['setup', server.url, '--name', 'work', ...place], `${apiKey}\n`);
  const first = await home.read(cursor);
  await home.write(cursor, '{}');
  rmSync(join(home.path, 'state', 'secrets'), { recursive: true });
  const repaired = await home.json(['setup', server.url, ...place], `${apiKey}\n`);
  const second = await home.read(cursor);
  const unchanged = await home.json(['setup', server.url, ...place]);

  expect(done).toMatchObject({
    name: 'work',
    url: server.url,
    added: true,
    checked: { as: 'api_key' },
    assistants: [{ assistant: 'cursor', changed: true }],
  });
  expect(done['tools']).toBeGreaterThan(1);
  expect(repaired).toMatchObject({ name: 'work', added: false, assistants: [{ changed: true }] });
  expect(second).toBe(first);
  expect(second).not.toContain(apiKey);
  expect(unchanged).toMatchObject({ added: false, assistants: [{ changed: false }] });
});

test('setup: a connection with an API key goes on using it, until the server rejects it', async () => {
  await using server = await signInFront(legacyMcp().handle, { apiKeys: [apiKey] });
  await using machine = await withAssistants();
  await runProgram(process.execPath, {
    args: [launcher, 'add', 'key', server.url, '--api-key'],
    env: { ...machine.env, LATCHKEY_API_KEY: apiKey },
  });

  const kept = await machine.run('setup', server.url, '--yes');
  await machine.run('uninstall', 'cursor', 'key');
  server.options.apiKeys = [];
  const rejected = await machine.run('setup', server.url, '--yes');
  const inCursor = machine.entry(cursor, 'key');
  await machine.run('remove', 'key');
  const signedIn = await machine.run('setup', server.url, '--yes');

  const remedy = `to sign in instead, run latchkey remove key, then latchkey setup ${server.url} again`;
  expect(kept).toMatchObject({ code: 0, stdout: expect.stringMatching(/^key: \d+ tools$/m) });
  expect(kept.stderr).toContain(
    `note: key already connects to ${server.url} with an API key, and goes on using it; ${remedy}\n`,
  );
  expect(rejected).toEqual({
    code: 1,
    signal: null,
    stdout: '',
    stderr:
      'latchkey: the connection key uses an API key, and the server rejected it\n' +
      `hint: ${remedy}; to keep using a key, run latchkey rotate key\n`,
  });
  expect(inCursor).toBeUndefined();
  expect(signedIn).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('signed in to sales'),
  });
});

test('setup: the tools of a server of the modern era alone, which requires nothing, are counted', async () => {
  const { handle } = statelessMcp({ legacy: 'reject' });
  await using server = await countedServer(handle);
  await using machine = await withAssistants();

  const { code, stdout } = await machine.run('setup', `${server.origin}/mcp`, '--name', 'open');

  expect({ code, stdout }).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('open: 2 tools'),
  });
});

test('setup: Codex gets its entry in TOML, and a note says which folders Gemini CLI ignores', async () => {
  const { handle } = statelessMcp({ legacy: 'reject' });
  await using server = await countedServer(handle);
  await using machine = await withAssistants();
  const chosen = ['--assistant', 'codex', '--assistant', 'gemini'];

  const { code, stderr } = await machine.run('setup', `${server.origin}/mcp`, ...chosen);

  expect(code).toBe(0);
  expect(stderr).toContain(
    'note: Gemini CLI ignores MCP servers in folders that you have not trusted',
  );
  expect(machine.read('.codex/config.toml')).toContain('[mcp_servers.');
});

test('setup: a sign-in that was ended at the server is renewed by another run', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants();
  await machine.run('setup', server.url);
  server.expireAll();
  server.endSignIns();

  const { code, stdout } = await machine.run('setup', server.url, '--yes');

  expect(code).toBe(0);
  expect(stdout).toContain('signed in to sales');
  expect(stdout).toMatch(/^sales: \d+ tools$/m);
});

test('setup: a wrong URL is reported with what was found there, and nothing is kept', async () => {
  await using server = await countedServer((request, response) => {
    if (request.url !== '/page') response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': 'text/html' }).end('<html></html>');
  });
  await using machine = await withAssistants();

  const absent = await machine.run('setup', `${server.origin}/mcp/acme/none`, '--yes');
  const page = await machine.run('setup', `${server.origin}/page`, '--yes');
  const plain = await machine.run('setup', 'http://cloud.example.com/mcp', '--yes');
  const status = await machine.run('status', '--json');

  expect(absent).toMatchObject({ code: 1, stdout: '' });
  expect(absent.stderr).toContain('404');
  expect(absent.stderr).toContain('check the URL');
  expect(page).toMatchObject({ code: 1, stdout: '' });
  expect(page.stderr).toContain('text/html');
  expect(page.stderr).toContain('check the URL');
  expect(plain.code).toBe(2);
  expect(plain.stderr).toContain('enter an https URL');
  expect(plain.stderr).toContain('did you mean https://cloud.example.com/mcp?');
  expect(JSON.parse(status.stdout)).toMatchObject({ connections: [] });
  expect(machine.read(cursor)).toBeUndefined();
});

test('setup: the URL of a dashboard is answered with the URLs that work', async () => {
  await using server = await countedServer((request, response) => {
    const { url = '', headers } = request;
    if (url !== '/oauth/clients/latchkey.json') return void response.writeHead(404).end();
    const client_id = `http://${headers.host}${url}`;
    const document = { client_id, redirect_uris: ['http://127.0.0.1/callback'] };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document));
  });
  await using machine = await withAssistants();

  const done = await machine.run('setup', `${server.origin}/dashboard/acme`, '--yes');

  expect(done).toMatchObject({ code: 1, stdout: '' });
  expect(done.stderr).toContain(`${server.origin}/dashboard/acme is not an MCP endpoint`);
  expect(done.stderr).toContain(`${server.origin}/mcp/ORGANIZATION/SERVER`);
  expect(done.stderr).toContain(
    `your servers: ${server.origin}/dashboard; to choose from them, run latchkey setup ${server.origin}\n`,
  );
});

test('setup: a server that the person may not use leaves no connection behind', async () => {
  const redirect = { error: 'access_denied', error_description: 'no access', code: undefined };
  await using server = await signInFront(legacyMcp().handle, { redirect });
  await using machine = await withAssistants();

  const done = await machine.run('setup', server.url, '--yes');
  const status = await machine.run('status', '--json');

  expect(done).toMatchObject({ code: 1, stdout: '' });
  expect(done.stderr).toContain('answered: no access');
  expect(done.stderr).toContain('ask the administrator of the server for access');
  expect(done.stderr).not.toContain('was added');
  expect(JSON.parse(status.stdout)).toMatchObject({ connections: [] });
});

test.each([
  [
    'the person denied access',
    (url: string) => `not signed in: you chose Deny\nhint: latchkey setup ${url} --name work\n`,
  ],
  [
    'this server does not exist, or you have no access to it',
    (url: string) => `${url} does not exist, or you have no access to it\nhint: check the URL, or`,
  ],
])('setup: after “%s” it keeps no connection, and says what to do', async (reason, said) => {
  const redirect = { error: 'access_denied', error_description: reason, code: undefined };
  await using server = await signInFront(legacyMcp().handle, { redirect });
  await using machine = await withAssistants();

  const done = await machine.run('setup', server.url, '--name', 'work', '--yes');
  const status = await machine.run('status', '--json');

  expect(done).toMatchObject({ code: 1, stdout: '' });
  expect(done.stderr).toContain(`latchkey: ${said(server.url)}`);
  expect(done.stderr).not.toContain('was added');
  expect(JSON.parse(status.stdout)).toMatchObject({ connections: [] });
});

test('setup: invalid arguments are refused before the server is contacted', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants();
  const setup = async (...words: string[]) => machine.run('setup', server.url, ...words);

  const wrong = await Promise.all([
    setup('--assistant', 'clippy'),
    setup('--name', 'a b'),
    setup('--api-key', '--client-id', 'client_1'),
    setup('--client-secret'),
    setup('--identity-provider', 'company'),
    setup('--name', 'status'),
    machine.run('rename', 'sales', 'status'),
  ]);

  expect(wrong.map(({ code }) => code)).toEqual([2, 2, 2, 2, 2, 2, 2]);
  expect(wrong[0]?.stderr).toContain('unknown assistant');
  expect(wrong[4]?.stderr).toContain('--identity-provider is not CLIENT_ID@ISSUER');
  expect(wrong[5]?.stderr).toContain('status is a command, so no connection can have this name');
  expect(wrong[6]?.stderr).toBe(wrong[5]?.stderr);
  expect(server.seen).toEqual([]);
});

test('setup: without browser and terminal it says that a sign-in is needed, and how to continue', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants({ BROWSER: '', SSH_TTY: '/dev/pts/1' });

  const refused = await machine.run('setup', server.url, '--yes');

  expect(refused).toMatchObject({ code: 2 });
  expect(refused.stderr).toContain('sales requires a sign-in, but there is neither a browser');
  expect(refused.stderr).toContain('sales was added, but you are not signed in to it yet');
  expect(refused.stderr).toContain(`next: latchkey setup ${server.url} to continue`);
  expect(machine.read(cursor)).toBeUndefined();
});

test('setup: a store of files without its key is reported before anyone signs in, and nothing is kept', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants({
    LATCHKEY_SECRET_STORE_KEY_FILE: '/nonexistent/key',
  });

  const { code, stdout, stderr } = await machine.run('setup', server.url, '--yes');

  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain('/nonexistent/key');
  expect(server.asked).toEqual([]);
  expect(machine.read('.config/latchkey/connections.json')).toBeUndefined();
});

test('setup: a key that the person has yet to enter is in the status until a check finds it', async () => {
  const words =
    'enter your own key for this MCP server first: open https://cloud.example.com/account';
  const { handle } = legacyMcp();
  let isMissing = true;
  await using server = await signInFront(async (request, response) => {
    if (!isMissing) return handle(request, response);
    const { id }: { id?: unknown } = JSON.parse((await bodyOf(request)) || '{}');
    const error = { code: -32042, message: words };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
  });
  await using machine = await withAssistants();

  const done = await machine.run('setup', server.url, '--yes');
  const missing = await machine.run('status', 'sales');
  isMissing = false;
  await machine.run('doctor', 'sales');
  const found = await machine.run('status', 'sales');

  expect(done.stderr).toContain(
    `next: restart Gemini CLI and Cursor to finish\nlatchkey: ${words}\n`,
  );
  expect(missing.stdout).toMatch(/^sales: needs your own key \(checked \d+ s ago\)$/m);
  expect(missing.stdout).toContain(`hint: ${words}`);
  expect(found.stdout).toContain('sales: ready');
});

test('setup: Ctrl-C during the sign-in lists what exists, and another run continues', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using browser = await browserHandover();
  await using machine = await withAssistants();
  await using running = startProgram(process.execPath, {
    args: [launcher, 'setup', server.url],
    env: { ...machine.env, ...browser.env },
  });
  await browser.next();
  running.kill('SIGINT');
  await running.exited;
  const known = await machine.run('servers');
  const pasted = await runProgram(process.execPath, {
    args: [launcher, 'setup', server.url, '--name', 'sales'],
    env: { ...machine.env, BROWSER: '', SSH_TTY: '/dev/pts/1' },
  });

  expect(await running.exited).toMatchObject({ code: 1 });
  expect(running.stderr).toContain('sales was added, but you are not signed in to it yet');
  expect(known.stdout).toContain(`to see all your servers, run latchkey setup ${server.origin}\n`);
  expect(pasted.stderr).toContain(`\nhint: latchkey setup ${server.url} --name sales\n`);
  expect(machine.read(cursor)).toBeUndefined();
  expect(await machine.run('setup', server.url, '--yes')).toMatchObject({ code: 0 });
  expect(machine.entry(cursor, 'sales').args).toContain('sales');
});

test('setup: an assistant whose file is broken is left alone, and the others are set up', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants();
  machine.write(gemini, '{"mcpServers": ');

  const { code, stdout, stderr } = await machine.run('setup', server.url);

  expect(code).toBe(1);
  expect(stdout).toContain('added sales to Cursor');
  expect(stdout).toMatch(/^sales: \d+ tools$/m);
  expect(stderr).toContain('Gemini CLI was not changed');
  expect(stderr).toContain('latchkey install gemini sales');
  expect(machine.read(gemini)).toBe('{"mcpServers": ');
});

test('setup: a name that means something else gets a suffix, or is refused if it was given', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants();
  machine.write(cursor, '{"mcpServers":{"sales":{"url":"https://other.example.com/mcp"}}}');

  const done = await machine.run('setup', server.url, '--assistant', 'cursor', '--json');
  const other = await machine.run('setup', `${server.url}?x`, '--name', 'sales-2');
  const client = await machine.run('setup', server.url, '--client-id', 'client_1');

  expect(JSON.parse(done.stdout)).toMatchObject({
    name: 'sales-2',
    assistants: [{ changed: true }],
  });
  expect(machine.entry(cursor, 'sales')).toEqual({ url: 'https://other.example.com/mcp' });
  expect(other).toMatchObject({ code: 2 });
  expect(other.stderr).toContain(`sales-2 already exists, for ${server.url}`);
  expect(client).toMatchObject({ code: 2 });
  expect(client.stderr).toContain('another kind of authentication');
});

test('setup: an MCP server without a path is connected as any other', async () => {
  const { handle } = statelessMcp({ legacy: 'reject' });
  await using server = await countedServer(handle);
  await using machine = await withAssistants();

  const done = await machine.run('setup', `${server.origin}/`, '--name', 'root', '--yes');
  const choosing = await machine.run('setup', `${server.origin}/`, '--choose');

  expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining('root: 2 tools') });
  expect(choosing).toMatchObject({ code: 2 });
  expect(choosing.stderr).toContain('--choose is for a whole Latchkey server');
});

test('setup: options for one server, a missing browser and a missing sign-in of a whole server are explained', async () => {
  await using server = await serverProcess({ args: ['--demo'] });
  await using machine = await withAssistants({ BROWSER: '', SSH_TTY: '/dev/pts/1' });

  const key = await machine.run('setup', server.base, '--api-key');
  const alone = await machine.run('setup', server.base, '--yes');
  const none = await machine.run('servers');
  const signedOut = await machine.run('servers', server.base);
  const away = await machine.run('servers', 'http://127.0.0.1:1');
  const elsewhere = await machine.run('servers', `${server.base}/mcp/demo/library`);

  expect(key).toMatchObject({ code: 2 });
  expect(key.stderr).toContain(`latchkey setup ${server.base}/mcp/ORGANIZATION/SERVER --api-key`);
  expect(alone).toMatchObject({ code: 2 });
  expect(alone.stderr).toContain(`run latchkey setup ${server.base} in a terminal`);
  expect(none).toMatchObject({ code: 0, stdout: expect.stringContaining('no Latchkey server') });
  expect(signedOut).toMatchObject({ code: 1 });
  expect(signedOut.stdout).toContain(`hint: latchkey setup ${server.base}`);
  expect(away).toMatchObject({ code: 1 });
  expect(away.stderr).toContain('cannot reach http://127.0.0.1:1: connection refused');
  expect(elsewhere).toMatchObject({ code: 2 });
  expect(elsewhere.stderr).toContain('has no list of servers');
});

test('remove: it takes the entries of setup out of the assistants, byte for byte', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await withAssistants();
  const before = '{\r\n\t// mine\r\n\t"mcpServers": {},\r\n}\r\n';
  machine.write(cursor, before);
  await machine.run('setup', server.url);

  const removed = await machine.run('remove', 'sales');
  const gone = await machine.run('remove', 'sales');

  expect(removed).toMatchObject({ code: 0 });
  expect(removed.stdout).toContain(`removed sales from Cursor: ${machine.at(cursor)}`);
  expect(removed.stdout).toContain('removed sales and its secrets');
  expect(machine.read(cursor)).toBe(before);
  expect(machine.read(gemini)).toBeUndefined();
  expect(server.revocations.length).toBeGreaterThan(0);
  expect(gone).toMatchObject({ code: 2 });
});

await suite(['keychain', 'browser'], 'setup with a real server, keychain and browser', () => {
  test('an assistant lists tools through the entry that it wrote, after one consent of the person', async () => {
    const dana = { email: 'dana@example.com', password: 'correct horse battery staple' };
    await using session = await keychainSession();
    await using server = await serverProcess({ args: ['--demo'] });
    await server.command(
      ['user', 'create', dana.email, '--organization', 'demo', '--role', 'member'],
      `${dana.password}\n`,
    );
    await using home = await latchkeyHome(session.env);
    await using handover = await browserHandover();
    await home.write(cursor, '{}');
    const engine = await chromium();
    onTestFinished(async () => engine.close());
    const page = await engine.newPage();
    const url = `${server.base}/mcp/demo/library`;
    const env = { ...home.env, ...handover.env, ...inherited };
    await using running = startProgram(process.execPath, { args: [launcher, 'setup', url], env });

    await page.goto(await handover.next());
    await page.getByLabel('E-mail').fill(dana.email);
    await page.getByLabel('Password', { exact: true }).fill(dana.password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('button', { name: 'Allow', exact: true }).click();
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    const { code } = await running.exited;
    const text = (await home.read(cursor)) ?? '';
    const entry = JSON.parse(text).mcpServers.library;
    const client = new Client({ name: 'assistant', version: '1' });
    await client.connect(new StdioClientTransport({ ...entry, env: { ...env, ...entry.env } }));
    const { tools } = await client.listTools();
    await client.close();

    expect(code).toBe(0);
    expect(running.stdout).toContain('signed in as dana@example.com');
    expect(running.stdout).toContain(`library: ${tools.length} tools`);
    expect(tools.map(({ name }) => name)).toContain('query');
    expect(text).not.toMatch(/eyJ[\w-]+|rt_[0-9A-Za-z]{36}/);
  });
});
