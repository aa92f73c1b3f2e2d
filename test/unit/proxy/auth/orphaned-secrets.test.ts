import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { orphanedSecrets } from '#proxy/auth/orphaned-secrets';
import { readOptions } from '#proxy/config/options';
import { temporaryFolder } from '#support/temporary-folder';

const secret = {
  account: 'api key ["https://acme.example/mcp","work"]',
  file: '/home/dana/.config/latchkey/connections.json',
};

test('orphaned secrets: a recorded one is found by the next process until it is cleaned up', async () => {
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

test('orphaned secrets: a record that was only half written is ignored', async () => {
  await using folder = await temporaryFolder('loose');
  const place = { platform: 'linux' as const, home: folder.path, env: {} };
  const loose = orphanedSecrets({ ...readOptions({}, {}), stateDir: folder.path }, place);
  await loose.note([secret]);
  const [name = ''] = await readdir(join(folder.path, 'loose'));
  await writeFile(join(folder.path, 'loose', name), JSON.stringify(secret).slice(0, 20));

  expect(await loose.all()).toEqual([]);
});
