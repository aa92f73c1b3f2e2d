import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { acmeServer, type AcmeServer } from '#support/acme-server';
import { chromium } from '#support/chromium';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { latchkeyHome, type LatchkeyHome } from '#support/latchkey-home';
import { inherited } from '#support/programs';
import { launcher } from '#support/proxy-process';
import { suite } from '#support/suite';
import { trayDesktop, type TrayDesktop } from '#support/tray/tray-desktop';

/*
 * The app has the accounts service do what it is asked for: `crash-*` among the unit tests crash that at every write, and
 * `npm run test:full` kills the app, the keychain and a proxy at every one. Here each is killed once.
 */
await suite(['keychain', 'browser'], 'tray app, killed once', () => {
  let keychain: KeychainSession;
  let home: LatchkeyHome;
  let server: AcmeServer;
  let browser: Browser;
  let url = '';
  let keys: string[] = [];

  beforeAll(async () => {
    [keychain, server, browser] = await Promise.all([
      keychainSession({ startsItself: false }),
      acmeServer(),
      chromium(),
    ]);
    home = await latchkeyHome(keychain.env);
    url = `${server.base}/mcp/acme/fixture`;
    keys = [(await server.key()).key, (await server.key()).key];
  });
  afterAll(async () => {
    await browser?.close();
    await server?.[Symbol.asyncDispose]();
    await home?.[Symbol.asyncDispose]();
    await keychain?.[Symbol.asyncDispose]();
  });

  const tray = async () => {
    const app = await trayDesktop({
      browser,
      killable: true,
      args: ['--hidden'],
      env: { ...home.env, ...inherited, npm_node_execpath: process.execPath },
    });
    await app.trayWhere(() => true);
    return app;
  };
  /** Sends a request of a page of the app. There is no answer if the app dies first. */
  const ask = async (app: TrayDesktop, operation: string, input: object) =>
    app.invokeFrom('latchkey://app/connections.html', true, { operation, input });
  const add = async (app: TrayDesktop) => {
    const credential = { as: 'api_key', apiKeySecret: keys[0] };
    return ask(app, 'add', { name: 'work', url, credential });
  };
  const shown = async (app: TrayDesktop, words: string) =>
    app.trayWhere(({ menu }) => menu.some(({ label }) => label.includes(words)));
  const kept = async () =>
    [...(await keychain.contents())].filter(([account]) => /^(prior )?api key/.test(account));
  const secrets = async () => (await kept()).map(([, secret]) => secret);
  const connect = () =>
    home.start({ command: process.execPath, args: [launcher, 'connect', 'work'] });

  test('add a connection: killed between keychain and file, the app deletes the secret at its next start', async () => {
    await using app = await tray();
    app.killAt('rename to connections.json');
    void add(app).catch(() => undefined);
    await app.ended;
    const left = await secrets();
    await using again = await tray();
    await shown(again, 'No connections yet');

    expect(left).toEqual([keys[0]]);
    expect(await secrets()).toEqual([]);
    expect(await add(again)).toMatchObject({ ok: true });
  });

  test('rotate an API key: a keychain killed before it stored the new key keeps the old one, and a retry works', async () => {
    await using app = await tray();
    await shown(app, 'work — Connected');
    const rotate = async () => ask(app, 'rotate', { name: 'work', secret: keys[1] });
    app.killAt('keep api key', keychain.keyringPid());
    const refused = await rotate();
    await keychain.killKeyring();
    await keychain.startKeyring();
    const left = await secrets();
    const repeated = await rotate();

    expect(refused).toMatchObject({ ok: false, problem: expect.stringContaining('keychain') });
    expect(left).toEqual([keys[0], keys[0]]);
    expect(repeated).toMatchObject({ ok: true });
    expect((await secrets()).toSorted()).toEqual(keys.toSorted());
  });

  test('rotate an API key: a proxy killed meanwhile does not stop it, and the next one works', async () => {
    await using app = await tray();
    await shown(app, 'work — Connected');
    await using proxy = connect();
    await proxy.handshake();
    app.killAt('keep api key', proxy.pid);
    const rotated = await ask(app, 'rotate', { name: 'work', secret: keys[0] });
    await proxy.ended;
    await using later = connect();

    expect(rotated).toMatchObject({ ok: true });
    expect((await later.handshake()).result).toBeDefined();
  });
});
