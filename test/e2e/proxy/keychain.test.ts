import { expect, test } from 'vitest';
import { keychainSession } from '#support/keychain-session';
import { suite } from '#support/suite';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront, type OAuthFront } from '#support/oauth-front';
import { startProgram } from '#support/processes';
import { proxyProcess } from '#support/proxy-process';
import { testFolder } from '#support/test-folder';

const start = (server: OAuthFront, env: Record<string, string>) =>
  proxyProcess({
    args: [server.url],
    env: {
      LATCHKEY_OAUTH: JSON.stringify(server.client),
      LATCHKEY_STATE_DIR: testFolder(),
      ...env,
    },
  });

await suite('keychain', 'keychain', () => {
  test('a stored token is found by the next process', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    const first = start(server, keyring.env);
    await first.handshake();
    first.hangUp();
    expect(await first.ended).toBe(0);
    server.seen.length = 0;
    await using second = start(server, keyring.env);

    const answer = await second.handshake();

    expect(answer.result).toMatchObject({ serverInfo: { name: 'legacy' } });
    expect(server.lines()[0]).toBe('POST /mcp/acme/sales');
    expect(server.tokenRequests).toHaveLength(1);
  });

  test('ten processes that start at the same time fetch one token', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    const env = { ...keyring.env, LATCHKEY_STATE_DIR: testFolder() };
    const proxies = Array.from({ length: 10 }, () => start(server, env));

    const answers = await Promise.all(proxies.map(async (proxy) => proxy.handshake()));
    proxies.forEach((proxy) => proxy.hangUp());
    await Promise.all(proxies.map(async ({ ended }) => ended));

    expect(answers.every(({ result }) => result !== undefined)).toBe(true);
    expect(server.tokenRequests).toHaveLength(1);
  });

  test('a keyring that crashes while it is asked is asked again', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    const first = start(server, keyring.env);
    await first.handshake();
    first.hangUp();
    await first.ended;
    await using monitor = startProgram('dbus-monitor', {
      args: ['--session', "member='OpenSession'"],
      env: keyring.env,
    });
    await monitor.line(/NameAcquired/);
    process.kill(keyring.keyringPid(), 'SIGSTOP');
    await using second = start(server, keyring.env);
    const answer = second.handshake();
    await monitor.line(/OpenSession/);
    process.kill(keyring.keyringPid(), 'SIGKILL');

    expect((await answer).result).toMatchObject({ serverInfo: { name: 'legacy' } });
    expect(server.tokenRequests).toHaveLength(1);
  });

  test('a keyring that hangs is not treated as absent', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    process.kill(keyring.keyringPid(), 'SIGSTOP');
    await using proxy = start(server, keyring.env);

    const { error } = await proxy.handshake();
    process.kill(keyring.keyringPid(), 'SIGCONT');

    expect(error?.message).toContain('the keychain does not respond: no answer within 2 s');
    expect(server.tokenRequests).toHaveLength(0);
  });

  test('a keyring without a collection is not treated as empty', async () => {
    await using keyring = await keychainSession({ locked: true });
    await using server = await oauthFront(legacyMcp().handle);
    await using proxy = start(server, keyring.env);

    const { error } = await proxy.handshake();

    expect(error?.message).toContain('keychain');
    expect(server.tokenRequests).toHaveLength(0);
  });
});

test.skipIf(process.platform !== 'linux')(
  'without a keychain that is required: every open request gets an error, and the proxy ends with 1',
  async () => {
    await using server = await oauthFront(legacyMcp().handle);
    await using proxy = start(server, {
      DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent',
      LATCHKEY_SECRET_STORE: 'os',
    });

    const { error } = await proxy.request('initialize', {});

    expect(error?.message).toMatch(/no keychain is running.*LATCHKEY_SECRET_STORE=file/);
    expect(await proxy.ended).toBe(1);
    expect(proxy.stderr()).toContain('latchkey: no keychain is running');
    expect(server.lines()).toEqual([]);
  },
);

test.skipIf(process.platform !== 'linux')(
  'without a keychain: a client from the environment works, with one warning, and nothing is stored',
  async () => {
    await using server = await oauthFront(legacyMcp().handle);
    const env = { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' };
    await using proxy = start(server, env);

    const answer = await proxy.handshake();
    await proxy.request('tools/list', {});

    expect(answer.result).toMatchObject({ serverInfo: { name: 'legacy' } });
    expect(server.tokenRequests).toHaveLength(1);
    const warnings = proxy
      .stderr()
      .split('\n')
      .filter((line) => line.includes('no keychain'));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('tokens are kept in memory until the proxy ends');
  },
);
