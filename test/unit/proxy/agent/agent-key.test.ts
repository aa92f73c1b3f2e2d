import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import {
  agentKeyAccount,
  checkKeyStore,
  readAgentKey,
  replaceAgentKey,
  serverBase,
  tunnelUrl,
} from '#proxy/agent/agent-key';
import { memorySecretStore, SecretStoreError } from '#proxy/keychain/secret-store';

const base = 'https://cloud.example.com';
const key = (letter: string) => `pk_live_${letter.repeat(36)}`;

async function ports({ env = {}, text = `${key('f')}\n`, mode = 0o100600 } = {}) {
  const store = memorySecretStore();
  await store.set(agentKeyAccount(base), key('k'));
  return {
    env,
    platform: 'linux' as const,
    store: async () => store,
    readFile: async (path: string) => (path === '/key' ? { text, mode } : undefined),
  };
}

test('agent key: it comes from the given file, otherwise the environment, otherwise the keychain', async () => {
  const env = { LATCHKEY_AGENT_KEY: key('e') };

  expect(await readAgentKey(base, '/key', await ports({ env }))).toBe(key('f'));
  expect(await readAgentKey(base, undefined, await ports({ env }))).toBe(key('e'));
  expect(await readAgentKey(base, undefined, await ports())).toBe(key('k'));
  await expect(readAgentKey('https://other.example', undefined, await ports())).rejects.toThrow(
    'no agent key for https://other.example in the keychain',
  );
});

test('agent key: a missing file, one that others can read and one without a key are refused without quoting it', async () => {
  const foreign = { env: { LATCHKEY_AGENT_KEY: `mcp_${'m'.repeat(36)}` } };

  await expect(readAgentKey(base, '/key', await ports({ mode: 0o100640 }))).rejects.toMatchObject({
    message: '/key can be read by other users',
    remedy: 'restrict it to its owner: chmod 600 /key',
  });
  await expect(readAgentKey(base, '/no', await ports())).rejects.toThrow(
    'the key file /no does not exist',
  );
  await expect(readAgentKey(base, undefined, await ports(foreign))).rejects.toThrow(
    'LATCHKEY_AGENT_KEY contains a key of another kind (mcp_…)',
  );
  await expect(readAgentKey(base, '/key', await ports({ text: 'my words' }))).rejects.toThrow(
    '/key contains no agent key',
  );
  await expect(readAgentKey(base, '/key', await ports({ text: 'pk_live_short' }))).rejects.toThrow(
    '/key does not contain a complete agent key',
  );
});

test('agent key: a systemd credential may be group-readable, and nothing more', async () => {
  const path = '/run/credentials/latchkey-agent.service/agent-key';
  const read = async (mode: number, folder = dirname(path)) => {
    const given = await ports({ env: { CREDENTIALS_DIRECTORY: folder } });
    return readAgentKey(base, path, {
      ...given,
      readFile: async () => ({ text: key('c'), mode }),
    });
  };

  expect(await read(0o100440)).toBe(key('c'));
  await expect(read(0o100444)).rejects.toThrow('can be read by other users');
  await expect(read(0o100440, '/run/credentials')).rejects.toThrow('can be read by other users');
});

test('agent key: instructions for a replacement name the place that the current key is read from', () => {
  const folder = { CREDENTIALS_DIRECTORY: '/run/credentials/a.service' };
  const words = [
    replaceAgentKey(undefined, {}),
    replaceAgentKey(undefined, { LATCHKEY_AGENT_KEY: key('e') }),
    replaceAgentKey('/etc/key', folder),
    replaceAgentKey('/run/credentials/a.service/agent-key', folder),
  ];

  expect(words).toEqual([
    expect.stringMatching(/latchkey agent login$/),
    expect.stringMatching(/in LATCHKEY_AGENT_KEY$/),
    expect.stringMatching(/into \/etc\/key$/),
    expect.stringMatching(/systemctl restart latchkey-agent$/),
  ]);
});

test('agent: it requires TLS, except to a loopback address', () => {
  expect(tunnelUrl(serverBase('https://cloud.example.com/')).href).toBe(
    'wss://cloud.example.com/api/agents/connect',
  );
  expect(tunnelUrl(serverBase('http://127.0.0.1:8787')).protocol).toBe('ws:');
  for (const text of [
    'http://cloud.example.com',
    'ws://127.0.0.1',
    'https://u:p@h',
    'cloud',
    undefined,
  ])
    expect(() => serverBase(text)).toThrow(/--server-url/);
  expect(() => serverBase(`${base}/mcp/demo/files`)).toThrow(
    expect.objectContaining({
      remedy: `give the address of Latchkey without that path: --server-url ${base}`,
    }),
  );
  expect(() => serverBase(undefined, 'latchkey agent login')).toThrow(
    expect.objectContaining({
      remedy: 'add it: latchkey agent login --server-url https://latchkey.example.com',
    }),
  );
});

test('agent key: without a keychain, the command suggests a file before it prompts for the key', async () => {
  const missing = new SecretStoreError('unavailable', 'no keychain is running');
  const store = { ...memorySecretStore(), remove: () => Promise.reject(missing) };

  await expect(checkKeyStore(store, base)).rejects.toMatchObject({
    message: 'the key cannot be stored: no keychain is running',
    remedy: expect.stringContaining('--key-file FILE'),
  });
  await expect(checkKeyStore(memorySecretStore(), base)).resolves.toBeUndefined();
});
