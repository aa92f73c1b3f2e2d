import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ConnectionView, Probed, Rotated } from '#proxy/connections/accounts-service';
import { acmeServer, type AcmeServer } from '#support/acme-server';
import { accountsClient, type DiesBefore, type AccountsClient } from '#support/accounts-client';
import { keychainSession, type KeychainSession } from '#support/keychain-session';
import { latchkeyHome, type LatchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { launcher } from '#support/proxy-process';
import { signInFront } from '#support/sign-in-front';
import { suite } from '#support/suite';
import { patient } from '#support/patient';

const registry = '.config/latchkey/connections.json';
const claude = '.config/Claude/claude_desktop_config.json';
const bare = { XDG_CONFIG_HOME: undefined, XDG_STATE_HOME: undefined, XDG_DATA_HOME: undefined };

const clientOf = (home: LatchkeyHome, more = {}, dies?: DiesBefore) =>
  accountsClient({ ...bare, ...home.env, ...more }, dies);

async function connection(
  accounts: AccountsClient,
  name: string,
): Promise<ConnectionView | undefined> {
  const all = await accounts.call<ConnectionView[]>('list');
  return all.find((one) => one.name === name);
}

await suite('keychain', 'accounts service', () => {
  let keyring: KeychainSession;
  let server: AcmeServer;
  beforeAll(async () => {
    [keyring, server] = await Promise.all([keychainSession(), acmeServer()]);
  });
  afterAll(async () => {
    await Promise.all([keyring[Symbol.asyncDispose](), server[Symbol.asyncDispose]()]);
  });

  test('a connection is probed, added once its key is accepted, installed, rotated and removed', async () => {
    await using home = await latchkeyHome(keyring.env);
    await using accounts = clientOf(home);
    const url = `${server.base}/mcp/acme/fixture`;
    const [first, second] = [await server.key(), await server.key()];

    const probed = await accounts.call<Probed>('probe', url);
    const wrong = accounts.call('add', { name: 'work', url, as: 'api_key', apiKeySecret: 'mcp_x' });
    await expect(wrong).rejects.toThrow('check the credential');
    const nothing = await home.read(registry);
    const added = await accounts.call('add', {
      name: 'work',
      url,
      as: 'api_key',
      apiKeySecret: first.key,
    });
    await accounts.call('install', 'claude-desktop', 'work');
    await using running = home.start({
      command: process.execPath,
      args: [launcher, 'connect', 'work'],
    });
    await running.handshake();
    await expect
      .poll(async () => (await connection(accounts, 'work'))?.proxies, patient)
      .toMatchObject([{ name: 'work', state: 'ready' }]);
    const shown = await connection(accounts, 'work');
    await expect(accounts.call('rotateKey', 'work', 'mcp_wrong')).rejects.toThrow(
      'check the credential',
    );
    const rotated = await accounts.call<Rotated>('rotateKey', 'work', second.key);
    await server.command('key', 'revoke', first.id);
    const call = await running.request('tools/list');
    await using later = home.start({
      command: process.execPath,
      args: [launcher, 'connect', 'work'],
    });
    await later.handshake();
    await expect
      .poll(async () => (await connection(accounts, 'work'))?.secret?.onTrial, patient)
      .toBe(false);
    const undone = await accounts.call('undoRotation', 'work');
    const findings = await accounts.call<{ check: string; state: string }[]>('doctor', 'work');
    const notices = [
      await accounts.call('claimNotice', 'work'),
      await accounts.call('claimNotice', 'work'),
    ];
    await accounts.call('uninstall', 'claude-desktop', 'work');
    await accounts.call('remove', 'work');

    expect(probed).toMatchObject({
      needs: 'person',
      issuer: server.base,
      suggestedName: 'fixture',
    });
    expect(nothing).toBeUndefined();
    expect(added).toEqual({ name: 'work', url, checked: 'api_key' });
    expect(shown).toMatchObject({
      as: 'api_key',
      state: 'ready',
      startedBy: ['claude-desktop'],
      source: { own: true },
      secret: { kind: 'api_key', old: false, onTrial: false },
    });
    expect(rotated).toMatchObject({
      onTrial: true,
      dashboardUrl: `${server.base}/dashboard/acme/servers/fixture/keys`,
    });
    expect(call.result).toBeDefined();
    expect(undone).toBe(false);
    expect(findings.filter(({ state }) => state === 'fail')).toEqual([]);
    expect(notices).toEqual([true, false]);
    expect(await home.read(claude)).toBeUndefined();
    expect(await accounts.call('list')).toEqual([]);
    for (const { key } of [first, second]) expect(accounts.program.stdout).not.toContain(key);
  });

  test('a client secret is pasted, and replaced by one that the server accepts', async () => {
    await using home = await latchkeyHome(keyring.env);
    await using accounts = clientOf(home);
    const url = `${server.base}/mcp/acme/fixture`;
    const client = await server.client();
    const oauth = { clientId: client.id, clientSecret: client.secret };
    const oauthText = `"oauth": ${JSON.stringify(oauth)}`;

    const added = await accounts.call('add', { name: 'night', url, as: 'pasted', oauthText });
    const wrong = `secret_${'w'.repeat(36)}`;
    await expect(accounts.call('rotateSecret', 'night', wrong)).rejects.toThrow('no access token');
    const before = await connection(accounts, 'night');
    const rotated = await accounts.call<Rotated>('rotateSecret', 'night', client.secret);
    await using proxy = home.start({
      command: process.execPath,
      args: [launcher, 'connect', 'night'],
    });
    const { result } = await proxy.handshake();

    expect(added).toMatchObject({ checked: 'client' });
    expect(before).toMatchObject({
      as: 'client',
      state: 'ready',
      secret: { kind: 'client_secret', onTrial: false },
    });
    // It was the same secret, so nothing is on trial.
    expect(rotated.onTrial).toBe(false);
    expect(result).toBeDefined();
  });

  test.each([
    ['the old key is put aside', 'keep prior api key'],
    ['the new key is stored', 'keep api key'],
  ])(
    'rotate an API key: killed before %s, the connection works and the rotation can be repeated',
    async (_, write) => {
      await using home = await latchkeyHome(keyring.env);
      const url = `${server.base}/mcp/acme/fixture`;
      const [first, second] = [(await server.key()).key, (await server.key()).key];
      const connect = { command: process.execPath, args: [launcher, 'connect', 'work'] };
      await using accounts = clientOf(home);
      await accounts.call('add', { name: 'work', url, as: 'api_key', apiKeySecret: first });
      await using killed = clientOf(home, {}, { write });
      const told = killed.call('rotateKey', 'work', second);
      await expect(told).rejects.toThrow('SIGKILL');
      await using proxy = home.start(connect);
      const { result } = await proxy.handshake();
      await accounts.call('rotateKey', 'work', second);
      await using later = home.start(connect);

      expect(result).toBeDefined();
      expect((await later.handshake()).result).toBeDefined();
      expect(await connection(accounts, 'work')).toMatchObject({ state: 'ready' });
    },
  );

  test('without a keychain nothing is added, and connections say why they do not work', async () => {
    await using mortal = await keychainSession();
    await using home = await latchkeyHome(mortal.env);
    await using accounts = clientOf(home);
    const url = `${server.base}/mcp/acme/fixture`;
    const client = await server.client();
    const as = { as: 'client', clientId: client.id, clientSecret: client.secret };
    await accounts.call('add', { name: 'first', url, ...as });
    await mortal.endKeyring();

    const second = accounts.call('add', { name: 'second', url, ...as });

    await expect(second).rejects.toThrow('keychain');
    expect(await connection(accounts, 'first')).toMatchObject({
      state: 'trouble',
      reason: expect.stringContaining('keychain'),
    });
    expect(await home.read(registry)).not.toContain('second');
  });

  test('a person signs in, signs out and cancels, and a failure is reported', async () => {
    await using front = await signInFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    const browser = new URL('../../support/fake-browser.mjs', import.meta.url).pathname;
    await using accounts = clientOf(home, { BROWSER: browser });
    await using lonely = clientOf(home, { BROWSER: '/bin/true' });

    const added = await accounts.call('add', { name: 'mine', url: front.url, as: 'person' });
    await expect(lonely.call('giveUpSignIn', 'mine')).rejects.toThrow('cancelled');
    const before = await connection(accounts, 'mine');
    const signedIn = await accounts.call('signIn', 'mine');
    const during = await connection(accounts, 'mine');
    const signedOut = await accounts.call('signOut', 'mine');

    expect(added).toMatchObject({ checked: 'person' });
    expect(before?.state).toBe('needs_sign_in');
    expect(signedIn).toMatchObject({
      issuer: front.origin,
      steps: expect.arrayContaining(['waiting']),
    });
    expect(during).toMatchObject({ state: 'ready', as: 'person', scopes: ['mcp:tools:read'] });
    expect(signedOut).toEqual({ wasSignedIn: true });
    expect(front.revocations).toHaveLength(2);
  });
});
