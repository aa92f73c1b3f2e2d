import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  lstat,
  mkdir,
  readFile,
  readdir,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { backUpFile } from '#proxy/connections/file-backups';
import { fileSnapshot, replaceFile } from '#proxy/config/replace-file';
import { temporaryFolder } from '#support/temporary-folder';

const text = (content: string) => Buffer.from(content);

test('file replacement: the permissions stay, and no temporary file is left', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'mcp.json');
  await writeFile(path, 'old');
  await chmod(path, 0o640);

  await replaceFile(await fileSnapshot(path), text('new'));

  expect(await readFile(path, 'utf8')).toBe('new');
  expect((await stat(path)).mode & 0o777).toBe(0o640);
  expect(await readdir(folder.path)).toEqual(['mcp.json']);
});

test('file replacement: it deletes the old temporary file of a crashed process, and no recent one', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'mcp.json');
  const left = '.mcp.json.0123456789ab.tmp';
  const young = '.mcp.json.ba9876543210.tmp';
  const foreign = '.mcp.json.bak.tmp';
  for (const name of [left, young, foreign]) await writeFile(join(folder.path, name), 'half');
  for (const name of [left, foreign]) await utimes(join(folder.path, name), 1, 1);

  await replaceFile(await fileSnapshot(path), text('new'));

  expect((await readdir(folder.path)).sort()).toEqual([foreign, young, 'mcp.json'].sort());
});

test('file replacement: a new file is readable by its owner only, and its folders are created', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'a', 'b', 'mcp.json');

  await replaceFile(await fileSnapshot(path), text('new'));

  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test('file replacement: the target of a symbolic link is replaced, and the link stays', async () => {
  await using folder = await temporaryFolder();
  const real = join(folder.path, 'dotfiles', 'mcp.json');
  const path = join(folder.path, 'mcp.json');
  await mkdir(join(folder.path, 'dotfiles'));
  await writeFile(real, 'old');
  await symlink(real, path);

  await replaceFile(await fileSnapshot(path), text('new'));

  expect(await readFile(real, 'utf8')).toBe('new');
  expect((await lstat(path)).isSymbolicLink()).toBe(true);
});

test('file replacement: a broken link and a folder are refused', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'mcp.json');
  await symlink(join(folder.path, 'nowhere'), path);

  await expect(fileSnapshot(path)).rejects.toThrow('is a link to a file that does not exist');
  await expect(fileSnapshot(folder.path)).rejects.toThrow('is not a file');
});

test('file replacement: a file that changed meanwhile is not overwritten', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'mcp.json');
  const absent = await fileSnapshot(path);
  await writeFile(path, 'theirs');
  const present = await fileSnapshot(path);
  await writeFile(path, 'theirs again');

  await expect(replaceFile(absent, text('ours'))).rejects.toThrow(
    'was just changed by another program',
  );
  await expect(replaceFile(present, text('ours'))).rejects.toThrow(
    'was just changed by another program',
  );
  expect(await readdir(folder.path)).toEqual(['mcp.json']);
});

test('file backup: two backups in the same second are both kept', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'mcp.json');
  expect(await backUpFile(await fileSnapshot(path), 0)).toBeUndefined();
  await writeFile(path, 'old', { mode: 0o640 });
  const snapshot = await fileSnapshot(path);

  const backups = [await backUpFile(snapshot, 0), await backUpFile(snapshot, 0)];

  expect(backups).toEqual([
    `${snapshot.realPath}.1970-01-01T00-00-00Z.backup`,
    `${snapshot.realPath}.1970-01-01T00-00-00Z-2.backup`,
  ]);
});

test('file backup: only its owner can read it, even if others can read the file', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'mcp.json');
  await writeFile(path, '{"env":{"KEY":"secret"}}');
  const modes: number[] = [];
  for (const mode of [0o644, 0o400]) {
    await chmod(path, mode);
    const backup = await backUpFile(await fileSnapshot(path), 0);
    modes.push((await stat(backup ?? '')).mode & 0o777);
  }

  expect(modes).toEqual([0o600, 0o400]);
});

test('file replacement: killed while it writes, it leaves the old file or the new one', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'mcp.json');
  const contents = ['a', 'b'].map((letter) => letter.repeat(3_000_000));
  await writeFile(path, contents[0] ?? '');
  const module = (name: string) =>
    JSON.stringify(join(import.meta.dirname, '../../../../proxy', name));
  const script = `
    const { fileSnapshot, replaceFile } = await import(${module('config/replace-file.ts')});
    for (let turn = 1; ; turn++) {
      const snapshot = await fileSnapshot(${JSON.stringify(path)});
      console.log('writing');
      await replaceFile(snapshot, Buffer.from((turn % 2 ? 'b' : 'a').repeat(3_000_000)));
    }`;
  for (const round of [1, 2, 3, 4]) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      cwd: join(import.meta.dirname, '../../../..', 'proxy'),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    for (let turn = 0; turn < round; turn++) await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await ended;

    expect(contents).toContain(await readFile(path, 'utf8'));
  }
}, 60_000);
