import { expect, test } from 'vitest';
import { parseJsonc } from '#proxy/config/jsonc';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { launcher, proxyProcess } from '#support/proxy-process';
import { signInFront } from '#support/sign-in-front';
import { suite } from '#support/suite';
import { patient } from '#support/patient';

const apiKey = `mcp_${'k'.repeat(36)}`;
const cursor = '.cursor/mcp.json';
const registry = '.config/latchkey/connections.json';

test('mcp-remote entry: one with a header starts latchkey by changing the program’s name only', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  const words = [server.url, '--header', 'X-API-Key:${KEY}', '--transport', 'http-only', '--debug'];
  await using proxy = proxyProcess({ args: words, env: { KEY: apiKey } });
  await using careless = proxyProcess({
    args: [server.url, '--header', `X-API-Key:${apiKey}`, '--keep-alive'],
  });

  const answers = [await proxy.handshake(), await careless.handshake()];

  for (const { result } of answers)
    expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(proxy.stderr()).not.toContain('latchkey:');
  await expect.poll(() => careless.stderr(), patient).toContain('latchkey import');
  await expect.poll(() => careless.stderr(), patient).toContain('--keep-alive (');
  expect(careless.stderr()).not.toContain(apiKey);
});

test('mcp-remote entry: one that starts latchkey with these flags is the same connection by its name', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using home = await latchkeyHome({});
  const args = [launcher, server.url, '--header', 'X-API-Key:${KEY}', '--transport', 'http-only'];
  const sales = { command: 'node', args, env: { KEY: apiKey } };
  await home.write(cursor, JSON.stringify({ mcpServers: { sales } }));
  await using proxy = home.start({ command: process.execPath, args: [launcher, 'sales'] });

  const { result } = await proxy.handshake();

  expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(server.seen.every(({ headers }) => headers['x-api-key'] === apiKey)).toBe(true);
});

await suite('keychain', 'latchkey import', () => {
  test('takes over an entry of mcp-remote, whose sign-in stays where it is and has to be repeated', async () => {
    await using keyring = await keychainSession();
    await using server = await signInFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    const entry = {
      command: 'npx',
      args: ['-y', 'mcp-remote@latest', server.url, '--ignore-tool', 'x*'],
    };
    const before = `{ // mine\n  "mcpServers": { "sales": ${JSON.stringify(entry)} }\n}\n`;
    const tokens = '.mcp-auth/mcp-remote-v1/0123_tokens.json';
    await home.write(cursor, before);
    await home.write(tokens, '{"access_token":"at"}');

    const planned = await home.json(['import', 'cursor', '--dry-run']);
    const untouched = await home.read(cursor);
    const imported = await home.json(['import', 'cursor']);

    expect(planned).toMatchObject({
      dry_run: true,
      imported: [{ name: 'sales', url: server.url }],
    });
    expect(untouched).toBe(before);
    expect(imported).toMatchObject({ sign_in_required: ['sales'], problems: [] });
    expect(server.asked).toHaveLength(0);
    expect(await home.read(cursor)).toContain('{ // mine');
    expect(parseJsonc((await home.read(registry)) ?? '')).toEqual({
      mcpServers: { sales: { url: server.url, account: 'sales', denyTools: ['x*'] } },
    });
    expect(await home.read(tokens)).toBe('{"access_token":"at"}');
  });

  test('moves a secret to the keychain where the assistant leaves the URL to latchkey', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    const { client, url } = server;
    const file = '.config/Claude/claude_desktop_config.json';
    await home.write(
      file,
      JSON.stringify({ mcpServers: { sales: { url, oauth: client } } }, null, 2),
    );

    const imported = await home.json(['import', 'claude-desktop']);
    const again = await home.json(['import']);
    await using proxy = home.start({ command: process.execPath, args: [launcher, 'sales'] });
    const { result } = await proxy.handshake();

    expect(imported).toMatchObject({ imported: [{ moved: ['client secret'] }] });
    expect(again).toMatchObject({ imported: [], problems: [] });
    expect(parseJsonc((await home.read(file)) ?? '')).toEqual({
      mcpServers: { sales: { url, oauth: { ...client, clientSecret: 'keychain' } } },
    });
    expect(result).toBeDefined();
  });

  test('makes assistants that would send the placeholder themselves start latchkey instead', async () => {
    await using keyring = await keychainSession();
    await using server = await oauthFront(legacyMcp().handle);
    await using home = await latchkeyHome(keyring.env);
    const { client, url } = server;
    const auth = { CLIENT_ID: client.clientId, CLIENT_SECRET: client.clientSecret };
    const env = { LATCHKEY_OAUTH: JSON.stringify(client) };
    await home.write(cursor, JSON.stringify({ mcpServers: { a: { url, auth } } }));
    const code = { b: { type: 'http', url, headers: { 'X-API-Key': apiKey } } };
    await home.write('.claude.json', JSON.stringify({ mcpServers: code }));
    const printed = { c: { command: 'node', args: ['/x/latchkey.js', url], env } };
    await home.write('.gemini/settings.json', JSON.stringify({ mcpServers: printed }));

    const imported = await home.json(['import']);
    const status = await home.json(['status']);
    const texts = await Promise.all(
      [cursor, '.claude.json', '.gemini/settings.json', registry].map(async (file) =>
        home.read(file),
      ),
    );
    await using proxies = new AsyncDisposableStack();
    const answers = await Promise.all(
      ['a', 'b', 'c'].map(async (name) =>
        proxies.use(home.start({ command: process.execPath, args: [launcher, name] })).handshake(),
      ),
    );

    expect(imported).toMatchObject({ problems: [] });
    expect(status).toMatchObject({ connections: [{ name: 'b' }, { name: 'c' }, { name: 'a' }] });
    for (const { result } of answers) expect(result).toBeDefined();
    for (const text of texts) {
      expect(text).toContain('mcpServers');
      expect(text).not.toContain(client.clientSecret);
      expect(text).not.toContain(apiKey);
    }
  });
});
