import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { leftovers } from '#support/leftovers';
import { startProgram } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';

test('leftovers: a run that cleaned up left none', async () => {
  await using folder = await temporaryFolder();
  await mkdir(join(folder.path, 'node-compile-cache'));

  expect(await leftovers(folder.path)).toEqual([]);
});

test('leftovers: files, folders and running processes are named', async () => {
  await using folder = await temporaryFolder();
  const place = join(folder.path, 'home-1');
  await mkdir(place);
  const wait = ['-e', 'console.log("up"); setInterval(() => {}, 1000)'];
  await using byEnvironment = startProgram(process.execPath, { args: wait, env: { HOME: place } });
  await using byFolder = startProgram(process.execPath, { args: wait, cwd: place });
  await Promise.all([byEnvironment.line(/up/), byFolder.line(/up/)]);

  const left = await leftovers(folder.path);

  expect(left[0]).toBe('a test left home-1 in its temporary folder');
  for (const { pid } of [byEnvironment, byFolder])
    expect(left).toContainEqual(expect.stringContaining(`a test left process ${pid} running: `));
  expect(left).toHaveLength(3);
});
