import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '#proxy/clock/clock';
import { sqliteRefreshLock } from '#proxy/auth/refresh-lock';
import { acmeServer, type AcmeServer } from '#support/acme-server';
import { chromium } from '#support/chromium';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { latchkeyHome, type LatchkeyHome } from '#support/latchkey-home';
import { inherited } from '#support/programs';
import { launcher } from '#support/proxy-process';
import { suite } from '#support/suite';
import { trayDesktop, type TrayDesktop } from '#support/tray/tray-desktop';
import { patient } from '#support/patient';

const registry = '.config/latchkey/connections.json';
const state = '.local/state/latchkey';
await suite(['keychain', 'browser'], 'tray app, killed at every step', () => {
  let keychain: KeychainSession;
  let home: LatchkeyHome;
  let server: AcmeServer;
  let browser: Browser;
  let url = '';
  const keys: string[] = [];

  beforeAll(async () => {
    [keychain, server, browser] = await Promise.all([
      keychainSession({ startsItself: false }),
      acmeServer(),
      chromium(),
    ]);
    home = await latchkeyHome(keychain.env);
    url = `${server.base}/mcp/acme/fixture`;
    for (let count = 0; count < 2; count += 1) keys.push((await server.key()).key);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await server?.[Symbol.asyncDispose]();
    await home?.[Symbol.asyncDispose]();
    await keychain?.[Symbol.asyncDispose]();
  });

  const tray = async () => {
    const app = await trayDesktop({
      browser,
      args: ['--hidden'],
      env: { ...home.env, ...inherited, npm_node_execpath: process.execPath },
    });
    await app.trayWhere(() => true);
    return app;
  };
  /** Sends a request of a page of the app. There is no answer if the app dies first. */
  const ask = async (app: TrayDesktop, operation: string, input: object) =>
    app.invokeFrom('latchkey://app/connections.html', true, { operation, input });
  const add = async (app: TrayDesktop, name: string, apiKeySecret = keys[0]) =>
    ask(app, 'add', { name, url, credential: { as: 'api_key', apiKeySecret } });
  const rotate = async (app: TrayDesktop, secret = '') =>
    ask(app, 'rotate', { name: 'work', secret });
  const shown = async (app: TrayDesktop, words: string) =>
    app.trayWhere(({ menu }) => menu.some(({ label }) => label.includes(words)));
  const secrets = async () =>
    [...(await keychain.contents()).keys()].filter((name) => /^(prior )?api key/.test(name));
  const secretsOf = async (name: string) =>
    (await secrets()).filter((account) => account.includes(`"${name}"`));
  const names = async () =>
    Object.keys(JSON.parse((await home.read(registry)) ?? '{"mcpServers":{}}').mcpServers);
  /** Whoever holds it keeps the app where it is about to write our connections. */
  const registryHeld = async (work: () => Promise<void>) =>
    sqliteRefreshLock(join(home.path, state, 'locks'), systemClock()).hold(
      `file ${join(home.path, registry)}`,
      work,
    );
  const connect = () =>
    home.start({ command: process.execPath, args: [launcher, 'connect', 'work'] });
  const works = async () => {
    await using proxy = connect();
    return (await proxy.handshake()).result;
  };

  test('add a connection: killed while it asks the server, nothing is stored anywhere', async () => {
    await using app = await tray();
    server.program.kill('SIGSTOP');
    void add(app, 'work').catch(() => undefined);
    // The app answers this later request only after it has begun the earlier one.
    await ask(app, 'overview', {});
    await app.kill();
    server.program.kill('SIGCONT');
    await using again = await tray();
    await shown(again, 'No connections yet');

    expect(await secrets()).toEqual([]);
    expect(await names()).toEqual([]);
  });

  test('add a connection: killed between keychain and file, the secret is deleted at the next start', async () => {
    await using app = await tray();
    await registryHeld(async () => {
      void add(app, 'work').catch(() => undefined);
      await expect.poll(async () => secretsOf('work'), patient).toHaveLength(1);
      await app.kill();
    });
    const left = await secretsOf('work');
    await using again = await tray();
    await shown(again, 'No connections yet');

    expect(left).toHaveLength(1);
    expect(await secrets()).toEqual([]);
    expect(await names()).toEqual([]);
  });

  test('add a connection: killed once the file has the name, the connection is complete', async () => {
    await using app = await tray();
    void add(app, 'work').catch(() => undefined);
    await expect.poll(names, patient).toEqual(['work']);
    await app.kill();
    await using again = await tray();
    await shown(again, 'work — Connected');

    expect(await secretsOf('work')).toHaveLength(1);
    expect(await works()).toBeDefined();
  });

  test('remove a connection: killed, it is complete until the file has lost its name', async () => {
    await using app = await tray();
    await shown(app, 'work — Connected');
    await add(app, 'other');
    await registryHeld(async () => {
      void ask(app, 'remove', { name: 'other' }).catch(() => undefined);
      await expect.poll(async () => loose(), patient).toBe(1);
      await app.kill();
    });
    await using again = await tray();
    await shown(again, 'other — Connected');
    await ask(again, 'remove', { name: 'other' });

    expect(await secretsOf('other')).toEqual([]);
    expect(await secretsOf('work')).toHaveLength(1);
  });

  test.each(['the new key is tried', 'the trial is noted', 'the old key is put aside'])(
    'rotate an API key: killed when %s, one of the keys works and the rotation can be repeated',
    async (moment) => {
      await using app = await tray();
      await shown(app, 'work — Connected');
      const [next = '', other = ''] = (await inUse()) === keys[0] ? [keys[1], keys[0]] : keys;
      const asked = server.upstream.received.length;
      void rotate(app, next).catch(() => undefined);
      await expect
        .poll(async () => {
          if (moment === 'the new key is tried') return server.upstream.received.length > asked;
          if (moment === 'the trial is noted') return (await trialMarks()) > 0;
          return (await secrets()).some((account) => account.startsWith('prior'));
        }, patient)
        .toBe(true);
      await app.kill();
      const used = await inUse();
      await using again = await tray();
      await shown(again, 'work — Connected');
      const repeated = await rotate(again, next);

      expect([next, other]).toContain(used);
      expect(repeated).toMatchObject({ ok: true });
      expect(await inUse()).toBe(next);
      expect(await works()).toBeDefined();
    },
  );

  test('rotate an API key: a proxy killed meanwhile does not stop it, and the next one works', async () => {
    await using app = await tray();
    await using proxy = connect();
    await proxy.handshake();
    const rotating = rotate(app, (await inUse()) === keys[0] ? keys[1] : keys[0]);
    proxy.kill('SIGKILL');
    const rotated = await rotating;

    expect(rotated).toMatchObject({ ok: true });
    expect(await works()).toBeDefined();
  });

  test('dead keychain daemon: adding and rotating report it and change nothing; then both work', async () => {
    await using app = await tray();
    await shown(app, 'work — Connected');
    const before = await inUse();
    await keychain.killKeyring();
    const added = await add(app, 'late');
    const rotated = await rotate(app, before === keys[0] ? keys[1] : keys[0]);
    const during = await names();
    await keychain.startKeyring();
    const after = await inUse();
    const late = await add(app, 'late');
    const again = await rotate(app, before === keys[0] ? keys[1] : keys[0]);

    for (const refusal of [added, rotated])
      expect(refusal).toMatchObject({ ok: false, problem: expect.stringContaining('keychain') });
    expect(during).toEqual(['work']);
    expect(after).toBe(before);
    expect(late).toMatchObject({ ok: true });
    expect(again).toMatchObject({ ok: true });
    expect(await works()).toBeDefined();
  });

  test('keychain daemon killed during adding or rotating: what it leaves is complete', async () => {
    await using app = await tray();
    const next = (await inUse()) === keys[0] ? keys[1] : keys[0];
    const answers: unknown[] = [];
    await registryHeld(async () => {
      const adding = add(app, 'last').then((answer) => answers.push(answer));
      await expect.poll(async () => secretsOf('last'), patient).toHaveLength(1);
      const rotating = rotate(app, next);
      await keychain.killKeyring();
      answers.push(await rotating);
      void adding;
    });
    await keychain.startKeyring();
    await expect.poll(() => answers.length, patient).toBe(2);
    const repeated = await rotate(app, next);

    expect(await names()).toContain('work');
    expect(await secretsOf('last')).toHaveLength((await names()).includes('last') ? 1 : 0);
    expect(repeated).toMatchObject({ ok: true });
    expect(await inUse()).toBe(next);
    expect(await works()).toBeDefined();
  });

  async function inUse(): Promise<string | undefined> {
    const all = await keychain.contents();
    return [...all].find(([name]) => name.startsWith('api key') && name.includes('"work"'))?.[1];
  }

  const filesIn = async (folder: string) => {
    const { readdir } = await import('node:fs/promises');
    return readdir(join(home.path, state, folder)).catch((): string[] => []);
  };
  const loose = async () => (await filesIn('loose')).length;
  const trialMarks = async () =>
    (await filesIn('keys')).filter((name) => name.endsWith('.trial')).length;
});
