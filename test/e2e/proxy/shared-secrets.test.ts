import { join } from 'node:path';
import { expect, test } from 'vitest';
import { clientSecretAccount } from '#proxy/keychain/secret-accounts';
import { orphanedSecrets } from '#proxy/connections/orphaned-secrets';
import { readOptions } from '#proxy/config/options';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { launcher } from '#support/proxy-process';
import { suite } from '#support/suite';

const claude = '.config/Claude/claude_desktop_config.json';
const cursor = '.cursor/mcp.json';
const registry = '.config/latchkey/connections.json';
const otherKey = `mcp_${'k'.repeat(36)}`;

/** Claude Desktop's file refers to a client secret that one of our own connections uses, too. */
async function sharedClient() {
  await using stack = new AsyncDisposableStack();
  const keyring = stack.use(await keychainSession());
  const server = stack.use(await oauthFront(legacyMcp().handle));
  const home = stack.use(await latchkeyHome(keyring.env));
  const { url, client } = server;
  const inFile = { url, oauth: { ...client, clientSecret: 'keychain' } };
  await home.write(claude, JSON.stringify({ mcpServers: { desk: inFile } }));
  const words = ['--client-id', client.clientId, '--client-secret'];
  await home.json(['add', 'work', url, ...words], client.clientSecret);
  const account = clientSecretAccount(url, client.clientId);
  const started = stack.move();
  return {
    home,
    url,
    account,
    has: async () => (await keyring.contents()).has(account),
    async reached() {
      await using proxy = home.start({ command: process.execPath, args: [launcher, 'desk'] });
      return (await proxy.handshake()).result;
    },
    /** This server has no revocation endpoint, which the exit code reports. */
    remove: async () => home.run(['remove', 'work']),
    /** Adding any connection first deletes orphaned secrets. */
    addAnother: async (name: string) => home.json(['add', name, url, '--api-key'], otherKey),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

await suite('keychain', 'client secret shared with an assistant’s file', () => {
  test('it stays when latchkey’s connection is replaced', async () => {
    await using shared = await sharedClient();
    await shared.home.json(['add', 'work', shared.url, '--api-key', '--replace'], otherKey);

    expect(await shared.has()).toBe(true);
    expect(await shared.reached()).toBeDefined();
  });

  test('it stays when latchkey’s connection is removed', async () => {
    await using shared = await sharedClient();
    await shared.remove();

    expect(await shared.has()).toBe(true);
    expect(await shared.reached()).toBeDefined();
  });

  test('it stays when a process died that was about to delete it', async () => {
    await using shared = await sharedClient();
    const { home, account } = shared;
    const options = { ...readOptions({}, {}), stateDir: join(home.path, '.local/state/latchkey') };
    const loose = orphanedSecrets(options, { platform: 'linux', home: home.path, env: {} });
    const file = join(home.path, registry);
    await home.write(registry, '{"mcpServers": {}}');
    await loose.note([{ account, file }]);
    await shared.addAnother('other');

    expect(await shared.reached()).toBeDefined();
    expect(await loose.all()).toEqual([]);
  });

  test('it stays while an assistant’s file cannot be read, and is deleted once nothing refers to it', async () => {
    await using shared = await sharedClient();
    const { home } = shared;
    await home.write(claude, '{"mcpServers": {}}');
    await home.write(cursor, '{"mcpServers": {');
    await shared.remove();
    const unread = await shared.has();
    await shared.addAnother('first');
    const still = await shared.has();
    await home.write(cursor, '{"mcpServers": {}}');
    await shared.addAnother('second');

    expect([unread, still]).toEqual([true, true]);
    expect(await shared.has()).toBe(false);
  });
});
