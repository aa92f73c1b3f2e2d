import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { browserHandover } from '#support/browser-handover';
import { allow } from '#support/consenting-person';
import { cookieBrowser } from '#support/cookie-browser';
import { desktop } from '#support/desktop';
import { grantingServer, type GrantingServer } from '#support/granting-server';
import { legacyMcp } from '#support/legacy-mcp';
import { startProgram } from '#support/processes';
import { launcher } from '#support/proxy-process';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { signInFront } from '#support/sign-in-front';
import { findUser } from '#server/db/people';

const email = 'dana@example.com';
const password = 'correct horse battery staple';

describe('99: login with a browser on the same computer', () => {
  test('99: the browser’s arguments and environment contain no secret and nothing that could finish it', async () => {
    await using server = await signInFront(legacyMcp().handle);
    await using machine = await desktop({
      LATCHKEY_OAUTH: '{"clientId":"client_1"}',
      LATCHKEY_PRIVATE_KEY_PASSPHRASE: 'the-passphrase',
    });
    const seen = join(machine.folder, 'seen');
    const recording = join(machine.folder, 'browser.mjs');
    const own = join(import.meta.dirname, '../../support/fake-browser.mjs');
    await writeFile(
      recording,
      `#!/usr/bin/env node
import { writeFileSync } from 'node:fs';
const { argv, env } = process;
writeFileSync(${JSON.stringify(seen)}, JSON.stringify({ argv, env }));
await import(${JSON.stringify(own)});
`,
    );
    await chmod(recording, 0o700);
    machine.env.BROWSER = recording;

    const login = await machine.run('login', server.url);

    const { argv, env }: { argv: string[]; env: Record<string, string> } = JSON.parse(
      await readFile(seen, 'utf8'),
    );
    const [asked] = server.asked;
    const given = ['state', 'code_challenge', 'client_id'].map((name) => asked?.get(name) ?? '');
    expect(login).toMatchObject({ code: 0 });
    expect(given.every((value) => value.length > 5)).toBe(true);
    expect(given.filter((value) => argv.join(' ').includes(value))).toEqual([]);
    expect(Object.keys(env).filter((name) => /latchkey/i.test(name))).toEqual([]);
    expect(JSON.stringify(env)).not.toContain('the-passphrase');
    expect(env).toHaveProperty('HOME', machine.folder);
  });

  test('99: a login whose link another browser opened first ends with an error, and stores nothing', async () => {
    await using server = await signInFront(legacyMcp().handle);
    await using browser = await browserHandover();
    await using machine = await desktop(browser.env);
    await using login = startProgram(process.execPath, {
      args: [launcher, 'login', server.url],
      env: machine.env,
    });
    const link = await browser.next();
    const thief = cookieBrowser();
    const consent = await thief.follow(link);

    const ours = await cookieBrowser().open(link);
    const back = await thief.follow(consent);
    const late = await thief.open(back).catch(() => 'nobody listens');
    const { code } = await login.exited;

    const status = await machine.run('status', server.url, '--json');
    expect(await ours.text()).toContain('This link was already used');
    expect(late).toBe('nobody listens');
    expect(code).toBe(1);
    expect(login.stderr).toContain('two browsers opened the link');
    expect(login.stderr).toContain('another user or program on this computer');
    expect(server.tokenRequests).toEqual([]);
    expect(JSON.parse(status.stdout)).toMatchObject({ connections: [{ state: 'signed_out' }] });
  });

  test('99: a redirect from another browser ends it before its code is sent anywhere', async () => {
    await using server = await signInFront(legacyMcp().handle);
    await using browser = await browserHandover();
    await using machine = await desktop(browser.env);
    await using login = startProgram(process.execPath, {
      args: [launcher, 'login', server.url],
      env: machine.env,
    });
    const back = await cookieBrowser().follow(await cookieBrowser().follow(await browser.next()));

    const answer = await fetch(back);

    expect(answer.status).toBe(400);
    expect(await login.exited).toMatchObject({ code: 1 });
    expect(login.stderr).toContain('it was finished in a different browser than it was started in');
    expect(server.tokenRequests).toEqual([]);
  });

  test('99: the printed link differs from the one that the browser was started with', async () => {
    await using server = await signInFront(legacyMcp().handle);
    await using browser = await browserHandover();
    await using machine = await desktop(browser.env);
    await using login = startProgram(process.execPath, {
      args: [launcher, 'login', server.url],
      env: machine.env,
    });
    const started = await browser.next();
    const [printed = ''] = await login.line(/^http:\/\/127\.0\.0\.1:\S+$/m, { stream: 'stderr' });
    // Dana cannot use the browser that was started, so she copies the line into another one.
    await cookieBrowser().follow(started);
    const page = await cookieBrowser().open(printed);

    expect(printed).not.toBe(started);
    expect(await page.text()).toContain('You are signed in');
    expect(await login.exited).toMatchObject({ code: 0 });
    expect(login.stderr).not.toContain('code_challenge');
  });

  test('99: if the server does not name the account, login says so', async () => {
    await using server = await signInFront(legacyMcp().handle);
    await using machine = await desktop();

    const login = await machine.run('login', server.url);

    expect(login.stdout).toContain('the server does not name the signed-in account');
  });
});

describe('99: the account that signed in', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await serverProcess({ args: ['--demo'] });
    const add = ['user', 'create', email, '--organization', 'demo', '--role', 'member'];
    await server.command(add, `${password}\n`);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test('99: login, its page and status name the account', async () => {
    await using browser = await browserHandover();
    await using machine = await desktop(browser.env);
    const url = `${server.base}/mcp/demo/library`;
    const signingIn = machine.run('login', url);
    const cookies = cookieBrowser();
    const page = await cookies.follow(await browser.next());
    const shown = await cookies.open(await allow(page, { email, password }));
    const login = await signingIn;
    const status = await machine.run('status', url);
    const json = await machine.run('status', url, '--json');

    expect(login.stdout).toContain(`signed in as ${email}`);
    expect(await shown.text()).toContain(`You are signed in as ${email}`);
    expect(status.stdout).toContain(`  signed in as ${email}\n`);
    expect(JSON.parse(json.stdout)).toMatchObject({ connections: [{ signed_in_as: email }] });
  });
});

describe('99: what the server reveals to a client about the account', () => {
  let server: GrantingServer;
  beforeAll(async () => {
    server = await grantingServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const ask = async (authorization: string) => {
    const answer = await fetch(`${server.base}/api/oauth/userinfo`, { headers: { authorization } });
    const json: Record<string, unknown> = JSON.parse(await answer.text());
    return { status: answer.status, cache: answer.headers.get('cache-control'), json };
  };

  test('99: a program on the person’s own computer gets the e-mail address', async () => {
    const dana = await server.browser();
    const { accessToken } = await server.signIn(dana);
    const { email: known } = (await findUser(server.stores.db, dana.userId)) ?? {};

    expect(await ask(`Bearer ${accessToken}`)).toEqual({
      status: 200,
      cache: 'no-store',
      json: { sub: dana.userId, email: known },
    });
  });

  test('99: a client elsewhere gets only the id, as the consent page promised', async () => {
    const dana = await server.browser();
    const elsewhere = { redirect_uri: 'https://app.example/cb' };
    const { status, json } = await server.redeem(await server.code(dana, elsewhere), elsewhere);

    expect(status).toBe(200);
    expect(await ask(`Bearer ${String(json['access_token'])}`)).toMatchObject({
      status: 200,
      json: { sub: dana.userId },
    });
    expect((await ask(`Bearer ${String(json['access_token'])}`)).json).not.toHaveProperty('email');
  });

  test('99: an invalid token, a token of client credentials and a missing one get nothing', async () => {
    const dana = await server.browser();
    const { accessToken } = await server.signIn(dana);
    await server.post('/api/oauth/revoke', { token: accessToken, client_id: server.client.id });
    const asClient = await server.post('/api/oauth/token', {
      grant_type: 'client_credentials',
      client_id: server.client.id,
      client_secret: server.client.secret,
      scope: 'mcp:tools:read',
    });

    const tokens = [accessToken, String(asClient.json['access_token']), 'forged', ''];
    const answers = await Promise.all(tokens.map((token) => ask(`Bearer ${token}`)));

    expect(asClient.status).toBe(200);
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
    expect(answers.every(({ json }) => json['error'] === 'invalid_token')).toBe(true);
  });
});
