import { chmod, mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { rememberedServer } from '#proxy/pipeline/remembered-server';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://acme.example/mcp/acme/sales?key=1';

test('remembered server: stored for its URL alone, in a file of its owner alone', async () => {
  await using folder = await temporaryFolder('servers');
  const directory = join(folder.path, 'servers');
  await rememberedServer(directory, url).remember('modern');

  const [file = ''] = await readdir(directory);

  expect(rememberedServer(directory, url).recall()).toBe('modern');
  expect(rememberedServer(directory, `${url}2`).recall()).toBeUndefined();
  expect((await stat(join(directory, file))).mode & 0o777).toBe(0o600);
});

test('remembered server: a forgotten one is gone', async () => {
  await using folder = await temporaryFolder('servers');
  const server = rememberedServer(folder.path, url);
  await server.remember('sse');
  await server.remember(undefined);

  expect(server.recall()).toBeUndefined();
  expect(await readdir(folder.path)).toEqual([]);
});

test('remembered server: a directory that cannot be written loses only the memory', async () => {
  await using folder = await temporaryFolder('servers');
  const blocked = join(folder.path, 'file');
  await mkdir(blocked);
  await chmod(blocked, 0o500);
  const server = rememberedServer(join(blocked, 'not\0possible'), url);

  await expect(server.remember('modern')).resolves.toBeUndefined();
  expect(server.recall()).toBeUndefined();
});
