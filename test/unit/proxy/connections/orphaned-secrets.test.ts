import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { accountUse, orphanedSecrets } from '#proxy/connections/orphaned-secrets';
import { readOptions } from '#proxy/config/options';
import { registryFile } from '#proxy/config/user-files';
import { temporaryFolder } from '#support/temporary-folder';

const secret = {
  account: 'api key ["https://acme.example/mcp","work"]',
  file: '/home/dana/.config/latchkey/connections.json',
};

test('orphaned secrets: the next process finds the note of a secret until it is cleaned up', async () => {
  await using folder = await temporaryFolder('loose');
  const place = { platform: 'linux' as const, home: folder.path, env: {} };
  const options = { ...readOptions({}, {}), stateDir: folder.path };
  await orphanedSecrets(options, place).note([secret]);
  const next = orphanedSecrets(options, place);
  const found = await next.all();
  await next.settled(found);

  expect(found).toEqual([secret]);
  expect(await next.all()).toEqual([]);
});

test('orphaned secrets: a note that was only partly written is ignored', async () => {
  await using folder = await temporaryFolder('loose');
  const place = { platform: 'linux' as const, home: folder.path, env: {} };
  const loose = orphanedSecrets({ ...readOptions({}, {}), stateDir: folder.path }, place);
  await loose.note([secret]);
  const [name = ''] = await readdir(join(folder.path, 'loose'));
  await writeFile(join(folder.path, 'loose', name), JSON.stringify(secret).slice(0, 20));

  expect(await loose.all()).toEqual([]);
});

const person = { platform: 'linux' as const, home: '/home/dana', env: {} };

/** A host on which reading `file` fails with `code`, and no other file exists. */
function failing(file: string, code: string): Parameters<typeof accountUse>[2] {
  const readText = (path: string) => {
    if (path === file) throw Object.assign(new Error(code), { code });
    return undefined;
  };
  const none = async () => Promise.reject(new Error('there is no connection'));
  return { ...person, readText, readConnection: none, account: none };
}

test.each([
  ['EACCES', 'free'],
  ['EISDIR', 'free'],
  ['ELOOP', 'free'],
  // EBUSY is a lock that passes, and macOS returns EPERM to one program and not to another.
  ['EBUSY', 'unknown'],
  ['EPERM', 'unknown'],
])(
  'account use: if reading an assistant’s file fails with %s, a client secret is %s',
  async (code, expected) => {
    const host = failing('/home/dana/.cursor/mcp.json', code);
    const use = await accountUse([registryFile(host)], readOptions({}, {}), host);

    expect(use('client secret ["https://acme.example/mcp","client_1"]')).toBe(expected);
    expect(use(secret.account)).toBe('free');
  },
);

test('account use: while our own file cannot be read, it is unknown for every account', async () => {
  const host = failing(registryFile(person), 'EACCES');
  const use = await accountUse([registryFile(host)], readOptions({}, {}), host);

  expect(use(secret.account)).toBe('unknown');
});
