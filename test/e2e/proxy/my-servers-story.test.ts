import { setTimeout as pause } from 'node:timers/promises';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { accountsClient } from '#support/accounts-client';
import { browserHandover, type BrowserHandover } from '#support/browser-handover';
import { chromium, pageProblems } from '#support/chromium';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { patient } from '#support/patient';
import { runProgram, startProgram } from '#support/processes';
import { inherited } from '#support/programs';
import { launcher } from '#support/proxy-process';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { keyedUpstream } from '#support/upstreams/keyed-upstream';

const dana = { email: 'dana@example.com', password: 'correct horse battery staple' };
const cursor = '.cursor/mcp.json';
const gemini = '.gemini/settings.json';
const codex = '.codex/config.toml';
const refreshToken = /rt_[0-9A-Za-z]{36}/g;

type Home = Awaited<ReturnType<typeof latchkeyHome>>;

await suite(['keychain', 'browser'], 'my servers: one address, one sign-in, one consent', () => {
  let session: KeychainSession;
  let server: ServerProcess;
  let handover: BrowserHandover;
  let home: Home;
  let engine: Browser;
  let page: Page;
  let env: Record<string, string>;
  beforeAll(async () => {
    session = await keychainSession();
    server = await serverProcess({ args: ['--demo', '--outbound-host', '127.0.0.1'] });
    const member = ['--organization', 'demo', '--role', 'member'];
    await server.command(['user', 'create', dana.email, ...member], `${dana.password}\n`);
    for (const name of ['sales', 'wiki'])
      await server.command(['server', 'create', `demo/${name}`, '--demo']);
    handover = await browserHandover();
    home = await latchkeyHome(session.env);
    await home.write(cursor, '{}');
    await home.write(gemini, '{}');
    engine = await chromium();
    page = await (await engine.newContext()).newPage();
    env = { ...home.env, ...handover.env, ...inherited };
  });
  afterAll(async () => {
    await engine.close();
    await handover[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    await session[Symbol.asyncDispose]();
  });

  const latchkey = async (...args: string[]) =>
    runProgram(process.execPath, { args: [launcher, ...args], env });
  const entries = async (
    file: string,
  ): Promise<Record<string, { command: string; args: string[] }>> =>
    JSON.parse((await home.read(file)) ?? '{}').mcpServers ?? {};
  const assistant = async (entry: { command: string; args: string[]; env?: object }) => {
    const client = new Client({ name: 'assistant', version: '1' });
    const given = { ...env, ...entry.env };
    await client.connect(new StdioClientTransport({ ...entry, env: given, stderr: 'ignore' }));
    const listed = await client.listTools();
    return { client, names: listed.tools.map(({ name }) => name) };
  };
  const tools = async (entry: { command: string; args: string[]; env?: object }) => {
    const { client, names } = await assistant(entry);
    await client.close();
    return names;
  };
  /** What the backups beside a file contain. */
  const copies = async (file: string) => {
    const folder = dirname(join(home.path, file));
    const names = (await readdir(folder)).filter((name) => name.endsWith('.backup'));
    return Promise.all(names.map(async (name) => readFile(join(folder, name), 'utf8')));
  };
  /** What the person does on the pages, counted. */
  const hands = () => {
    const counted = { clicks: 0, fields: 0 };
    return {
      counted,
      click: async (name: string, role: 'button' | 'checkbox' = 'button') => {
        counted.clicks += 1;
        await page.getByRole(role, { name, exact: true }).click();
      },
      fill: async (label: string, text: string) => {
        counted.fields += 1;
        await page.getByLabel(label, { exact: true }).fill(text);
      },
    };
  };

  test('from an empty home folder to three servers in two assistants: one command, one sign-in, one consent', async () => {
    const { click, fill, counted } = hands();
    await using running = startProgram(process.execPath, {
      args: [launcher, 'setup', server.base],
      env,
    });
    await page.goto(await handover.next());
    await fill('E-mail', dana.email);
    await fill('Password', dana.password);
    await click('Sign in');
    const asked = await page.locator('main').textContent();
    const problems = await pageProblems(page);
    await click('Allow');
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    const { code } = await running.exited;
    const inCursor = await entries(cursor);
    const inGemini = await entries(gemini);

    expect([code, running.stderr]).toMatchObject([0, expect.any(String)]);
    expect(counted).toEqual({ clicks: 2, fields: 2 });
    expect(problems).toEqual([]);
    expect(asked).toContain('Connect Latchkey to your servers?');
    expect(running.stdout).toContain(`signed in to ${server.base} as ${dana.email}`);
    expect(Object.keys(inCursor).toSorted()).toEqual(['library', 'sales', 'wiki']);
    expect(Object.keys(inGemini).toSorted()).toEqual(['library', 'sales', 'wiki']);
    for (const entry of [...Object.values(inCursor), ...Object.values(inGemini)])
      expect(await tools(entry)).toContain('query');
  });

  test('the keychain has one refresh token for all of them', async () => {
    const kept = await session.contents();
    const found = [...kept].filter(([, value]) => value.match(refreshToken));
    const accessTokens = [...kept].filter(([name]) => name.startsWith('access token'));

    expect(found.map(([name]) => name)).toEqual([
      expect.stringContaining(`${server.base}/api/my/servers`),
    ]);
    expect(accessTokens.length).toBe(4);
  });

  test('twelve processes whose tokens have expired renew each token once, one after another', async () => {
    const before = await session.contents();
    for (const [account, value] of before) {
      if (!account.startsWith('access token')) continue;
      await session.replace(account, JSON.stringify({ ...JSON.parse(value), expiresAt: 1 }));
    }
    const all = Object.values(await entries(cursor));
    const requests = () => server.program.stderr.match(/"route":"\/api\/oauth\/token"/g) ?? [];
    const assistants = await Promise.all(
      Array.from({ length: 12 }, async (_, at) =>
        assistant(all[at % 3] ?? { command: '', args: [] }),
      ),
    );
    // On a busy machine, the list may come from the previous run, so the test waits for the tokens before it ends the assistants.
    await expect.poll(requests, patient).toHaveLength(7);
    await Promise.all(assistants.map(({ client }) => client.close()));
    const after = await session.contents();

    expect(assistants.every(({ names }) => names.includes('query'))).toBe(true);
    expect([...after.keys()].toSorted()).toEqual([...before.keys()].toSorted());
    expect([...after.values()].join(' ').match(refreshToken)).toHaveLength(1);
    // One request for the code, and one for each server both then and now. The server writes its log in batches.
    await pause(1000);
    expect(requests()).toHaveLength(7);
  });

  test('servers lists what is in use, and what can be added', async () => {
    await server.command(['server', 'create', 'demo/crm', '--demo']);
    const text = await latchkey('servers');
    const { stdout } = await latchkey('servers', '--json');
    const { lists } = JSON.parse(stdout);
    const states = lists[0].servers.map((one: { name: string; state: string }) => [
      one.name,
      one.state,
    ]);

    expect(states).toEqual([
      ['crm', 'available'],
      ['library', 'in_use'],
      ['sales', 'in_use'],
      ['wiki', 'in_use'],
    ]);
    expect(text.stdout).toMatch(/^ {2}crm +available$/m);
    expect(text.stdout).toMatch(/^ {2}sales +in use by Gemini CLI, Cursor \(sales\)$/m);
    expect(text.stdout).toContain(`latchkey setup ${server.base} --choose`);
  });

  test('devices lists this computer, by one id in the keychain', async () => {
    const ids = [...(await session.contents())].filter(([name]) => name === 'device id');
    const { stdout } = await latchkey('devices', '--json');
    const unknown = await latchkey('devices', '--sign-out', 'device_unknown');

    expect(JSON.parse(stdout)).toMatchObject({
      lists: [
        {
          url: server.base,
          devices: [
            {
              system: 'Linux',
              current: true,
              servers: ['demo/library', 'demo/sales', 'demo/wiki'],
            },
          ],
        },
      ],
    });
    expect(ids).toEqual([['device id', expect.stringMatching(/^[\w-]{22}$/)]]);
    expect([unknown.code, unknown.stderr]).toEqual([
      2,
      expect.stringContaining('you have no device device_unknown'),
    ]);
  });

  test('another run opens no page, and repairs what is missing', async () => {
    await home.write(gemini, '{}');
    const { code, stdout } = await latchkey('setup', server.base, '--yes');

    expect(code).toBe(0);
    expect(stdout).not.toContain('signed in');
    expect(Object.keys(await entries(gemini)).toSorted()).toEqual(['library', 'sales', 'wiki']);
  });

  test('a server that is new needs one confirmation in the browser that is signed in', async () => {
    const { click, counted } = hands();
    await using running = startProgram(process.execPath, {
      args: [launcher, 'setup', server.base, '--choose'],
      env,
    });
    await page.goto(await handover.next());
    await click('crm', 'checkbox');
    await click('wiki', 'checkbox');
    await click('Allow');
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    const { code } = await running.exited;
    const { crm, wiki, sales } = await entries(cursor);
    const failed = wiki && (await tools(wiki).catch(String));
    const listed = await latchkey('servers');

    expect([code, running.stderr]).toMatchObject([
      0,
      expect.stringContaining('wiki was not chosen'),
    ]);
    expect(counted).toEqual({ clicks: 3, fields: 0 });
    expect(crm && (await tools(crm))).toContain('query');
    expect(sales && (await tools(sales))).toContain('query');
    expect(failed).not.toContain('query');
    expect(listed.stdout).toMatch(
      /^ {2}wiki +sign-in required, in use by Gemini CLI, Cursor \(wiki\)\n +hint: latchkey login wiki$/m,
    );
  });

  test('a second assistant on the same computer needs no page, and a new laptop one sign-in and one consent', async () => {
    await home.write(codex, '');
    const again = await latchkey('setup', server.base, '--yes');
    const inCodex = await home.read(codex);

    await using other = await keychainSession();
    await using laptop = await latchkeyHome(other.env);
    await laptop.write(cursor, '{}');
    await laptop.write(gemini, '{}');
    page = await (await engine.newContext()).newPage();
    const { click, fill, counted } = hands();
    await using running = startProgram(process.execPath, {
      args: [launcher, 'setup', server.base],
      env: { ...laptop.env, ...handover.env, ...inherited },
    });
    await page.goto(await handover.next());
    await fill('E-mail', dana.email);
    await fill('Password', dana.password);
    await click('Sign in');
    await click('Allow');
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    const { code } = await running.exited;
    const there: unknown = JSON.parse((await laptop.read(cursor)) ?? '{}').mcpServers ?? {};
    const { stdout } = await latchkey('servers', '--json');

    const used = { ...Object(there).sales, env: { ...laptop.env, ...inherited } };
    const client = new Client({ name: 'assistant', version: '1' });
    await client.connect(new StdioClientTransport({ ...used, stderr: 'ignore' }));
    await client.callTool({ name: 'query', arguments: { sql: 'select 1' } });
    await client.close();
    const { lists } = JSON.parse((await latchkey('devices', '--json')).stdout);
    const lost = lists[0].devices.find(({ current }: { current: boolean }) => !current);
    const callsOn = async (device: string) => {
      const of = ['call', 'list', 'demo', '--person', dana.email, '--device', device, '--json'];
      const listed: { tool: string }[] = JSON.parse(await server.command(of));
      return listed.map(({ tool }) => tool);
    };
    await vi.waitFor(async () => expect(await callsOn(lost.id)).toEqual(['query']), patient);
    expect(await callsOn('device_other')).toEqual([]);
    expect([again.code, again.stdout.includes('signed in')]).toEqual([0, false]);
    expect(inCodex).toContain('[mcp_servers.library]');
    expect([code, counted]).toEqual([0, { clicks: 2, fields: 2 }]);
    expect(Object.keys(Object(there)).toSorted()).toEqual(['crm', 'library', 'sales']);
    const [list] = JSON.parse(stdout).lists;
    const sales = list.servers.find(({ name }: { name: string }) => name === 'sales');
    expect(sales.uses.map(({ current }: { current: boolean }) => current).toSorted()).toEqual([
      false,
      true,
    ]);
  });

  test('the service of the tray app does the same for an address, lists servers and devices, and signs one out', async () => {
    await using other = await keychainSession();
    await using desk = await latchkeyHome(other.env);
    await desk.write(cursor, '{}');
    await using accounts = accountsClient({ ...desk.env, ...handover.env, ...inherited });
    page = await (await engine.newContext()).newPage();
    const { click, fill, counted } = hands();
    const setUp = accounts.call('setUp', server.base);
    await page.goto(await handover.next());
    await fill('E-mail', dana.email);
    await fill('Password', dana.password);
    await click('Sign in');
    await click('Allow');
    const done = await setUp;
    const again = await accounts.call('setUp', server.base);
    const [list] =
      await accounts.call<{ list: string; servers: { state?: string }[] }[]>('myServers');
    const devicesOf = async () => {
      const [one] =
        await accounts.call<{ devices: { id: string; isCurrent: boolean }[] }[]>('devices');
      return one?.devices ?? [];
    };
    const before = await devicesOf();
    const lost = before.find(({ isCurrent }) => !isCurrent)?.id ?? '';
    const isDone = await accounts.call('signOutDevice', list?.list, lost);
    const after = await devicesOf();

    expect(counted).toEqual({ clicks: 2, fields: 2 });
    expect(done).toMatchObject({
      url: server.base,
      signedInAs: dana.email,
      restart: ['Cursor'],
      problems: [],
    });
    expect(again).toMatchObject({ restart: [], problems: [] });
    expect(JSON.parse((await desk.read(cursor)) ?? '{}')).toMatchObject({
      mcpServers: { crm: {}, library: {}, sales: {} },
    });
    expect(list?.servers.length).toBeGreaterThan(3);
    expect(isDone).toBe(true);
    expect(after.map(({ id }) => id)).toEqual(
      before.map(({ id }) => id).filter((id) => id !== lost),
    );
  });

  test('a revoked key stays out of assistants, and what else is amiss has a hint, such as no tool that only reads', async () => {
    await using other = await keychainSession();
    await using desk = await latchkeyHome(other.env);
    await desk.write(cursor, '{}');
    const there = { ...desk.env, ...handover.env, ...inherited };
    const run = async (...args: string[]) =>
      runProgram(process.execPath, { args: [launcher, ...args], env: there });
    const made = await server.command(['key', 'create', 'demo/sales', '--name', 'old', '--json']);
    const { id, key }: { id: string; key: string } = JSON.parse(made);
    await desk.run(['add', 'lkey', `${server.base}/mcp/demo/sales`, '--api-key'], `${key}\n`);
    const nowhere = ['--http-url', 'http://127.0.0.1:1/mcp'];
    await server.command(['server', 'create', 'demo/broken', ...nowhere]);
    const { click } = hands();
    await using running = startProgram(process.execPath, {
      args: [launcher, 'setup', server.base],
      env: there,
    });
    await page.goto(await handover.next());
    await click('Allow only reading at library', 'checkbox');
    await click('broken', 'checkbox');
    await click('Allow');
    const { code } = await running.exited;
    const [kept, reading] = [running.stderr, running.stdout];
    await run('uninstall', 'cursor', 'lkey');
    await server.command(['key', 'revoke', id]);
    const revoked = await run('setup', server.base);
    await using accounts = accountsClient(there);
    const inTray = await accounts.call<{ servers: unknown[] }>('setUp', server.base);
    const after: { mcpServers: object } = JSON.parse((await desk.read(cursor)) ?? '{}');
    for (const name of ['broken', 'crm', 'library']) await run('remove', name);
    const listed = await run('servers');
    await run('remove', 'lkey');
    const left = [...(await other.contents()).values()].join('\n');

    const again = `run latchkey remove lkey, then latchkey setup ${server.base} again`;
    expect(code).toBe(1);
    expect(kept).toMatch(/^latchkey: broken: .+\nhint: latchkey doctor broken$/m);
    expect(kept).toContain(
      `note: lkey already connects to ${server.base}/mcp/demo/sales with an API key, and goes on using it; to sign in instead, ${again}\n`,
    );
    expect(reading).toMatch(/^library: 0 tools$/m);
    expect(kept).toContain(
      `hint: if you allowed only reading, library may have no tool that is known to only read; change it under My applications: ${server.base}/dashboard/demo/applications\n`,
    );
    expect(reading).toMatch(/^crm: \d+ tools$/m);
    expect(revoked.code).toBe(1);
    expect(revoked.stderr).toContain(
      `latchkey: sales was not connected: the connection lkey uses an API key, and the server rejected it\n` +
        `hint: to sign in instead, ${again}; to keep using a key, run latchkey rotate lkey\n`,
    );
    expect(inTray.servers).toContainEqual(
      expect.objectContaining({ name: 'lkey', keptKey: 'rejected' }),
    );
    expect(Object.keys(after.mcpServers).toSorted()).toEqual(['broken', 'crm', 'library']);
    expect(listed.stdout).toMatch(/^ {2}sales +connected as lkey, in no assistant$/m);
    expect(left).not.toMatch(refreshToken);
  });

  test('a server that needs the person’s own key: the assistant gets its page, and the tools when the key is there', async () => {
    await using upstream = await keyedUpstream();
    upstream.keys.set('the-key-of-dana-there', 'dana');
    await server.command(['server', 'create', 'demo/own-key', '--http-url', upstream.url]);
    const how = ['--per-person-key', '--key-header', 'X-Their-Key', '--key-tool', 'whoami'];
    await server.command(['server', 'set-access', 'demo/own-key', ...how]);
    const { click, fill } = hands();
    await using running = startProgram(process.execPath, {
      args: [launcher, 'setup', server.base, '--choose', '--yes'],
      env,
    });
    await page.goto(await handover.next());
    if (await page.getByLabel('E-mail', { exact: true }).isVisible()) {
      await fill('E-mail', dana.email);
      await fill('Password', dana.password);
      await click('Sign in');
    }
    await click('own-key', 'checkbox');
    await click('Allow');
    await page.waitForURL(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/);
    await running.exited;
    const missing = await latchkey('status', 'own-key');
    const entry = (await entries(cursor))['own-key'];
    const { client, names } = await assistant(entry ?? { command: '', args: [] });
    const told = await client.callTool({ name: 'connect_account', arguments: {} });
    const text = JSON.stringify(told.content);
    await page.goto(/https?:\/\/\S+\/account/.exec(text)?.[0] ?? '');
    await fill('API key', 'the-key-of-dana-there');
    await click('Try and save');
    await page.waitForURL('**/account?done=*');
    const called = await client.callTool({ name: 'whoami', arguments: {} });
    const after = await client.listTools();
    const status = async () => (await latchkey('status', 'own-key')).stdout;
    await expect.poll(status, patient).toContain('own-key: ready');
    await client.close();
    await latchkey('remove', 'own-key');

    expect(running.stderr).toContain('own-key needs your own key: ');
    expect(missing.stdout).toContain('own-key: needs your own key (checked ');
    expect(names).toEqual(['connect_account']);
    expect(told.isError ?? false).toBe(false);
    expect(JSON.stringify(called.content)).toContain('dana');
    expect(after.tools.map(({ name }) => name)).toContain('whoami');
  });

  test('a server that is withdrawn says so, and disappears from both assistants; the others stay', async () => {
    const { crm } = await entries(cursor);
    await server.command(['group', 'create', 'demo', 'nobody']);
    const before = await home.read(cursor);
    await server.command([
      'server',
      'set-groups',
      'demo/crm',
      '--group',
      'nobody',
      '--requests',
      'on',
    ]);
    const failed = crm && (await tools(crm).catch(String));
    const left = [await entries(cursor), await entries(gemini)].map((all) => Object.keys(all));
    const { sales } = await entries(cursor);
    const text = await latchkey('servers');

    expect(failed).toContain('you no longer have access to crm; it was removed from');
    expect(left).toEqual([
      ['library', 'sales', 'wiki'],
      ['library', 'sales', 'wiki'],
    ]);
    expect(sales && (await tools(sales))).toContain('query');
    expect(text.stdout).toMatch(/^ {2}crm +no access$/m);
    expect(text.stdout).toContain('you no longer have access to crm');
    expect(await copies(cursor)).toContain(before);
  });

  test('one server is signed out alone, and the last one ends the sign-in', async () => {
    const { sales, library } = await entries(cursor);
    const examined = await latchkey('doctor', 'sales');
    const out = await latchkey('logout', 'sales');
    const still = library && (await tools(library));
    const kept = [...(await session.contents()).values()].join('\n').match(refreshToken) ?? [];
    for (const name of ['sales', 'library', 'crm', 'wiki']) await latchkey('remove', name);
    const left = [...(await session.contents()).values()].join('\n');

    expect(examined.stdout + examined.stderr).not.toMatch(refreshToken);
    expect(out.stdout).toContain('signed out of sales; the tokens were revoked and deleted');
    expect(sales).toBeDefined();
    expect(still).toContain('query');
    expect(kept.length).toBe(1);
    expect(left).not.toMatch(refreshToken);
    expect(left).not.toMatch(/eyJ/);
    expect((await latchkey('servers')).stdout).toContain('no Latchkey server is known');
  });
});
