import { execFile } from 'node:child_process';
import { renameSync } from 'node:fs';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { SkillsExtension } from '@modelcontextprotocol/server/ext/skills';
import { expect, test } from 'vitest';

import {
  readSkillFolder,
  skillFolderLimits,
  fingerprintSkillFolder,
  type SkillFolderLimits,
} from '#server/upstreams/skills/read-skill-folder';
import { skillText, writeFiles } from '#support/skill-text';
import { temporaryFolder } from '#support/temporary-folder';

/** The URIs of all files of a folder that would be served. */
async function served(root: string, limits: Partial<SkillFolderLimits> = {}) {
  const { files } = await readSkillFolder(root, { ...skillFolderLimits, ...limits });
  const { entries } = await SkillsExtension.load(files, { onWarning: () => undefined });
  return entries.flatMap(({ resources }) =>
    resources === 'dynamic' ? [] : resources.map(({ uri }) => uri),
  );
}

const good = { 'good/SKILL.md': skillText('good'), 'good/notes/a.txt': 'a' };

test('skills are served with all their files, and hidden files and those beside them are not', async () => {
  await using folder = await temporaryFolder();
  await writeFiles(folder.path, {
    ...good,
    'team/deep/SKILL.md': skillText('deep'),
    'good/.env': 'SECRET=1',
    '.git/config': 'x',
    'README.md': 'no skill',
  });

  expect((await served(folder.path)).toSorted()).toEqual([
    'skill://good/SKILL.md',
    'skill://good/notes/a.txt',
    'skill://team/deep/SKILL.md',
  ]);
});

test.each([
  ['a link to a file outside', (root: string) => symlink('/etc/passwd', join(root, 'bad/x.txt'))],
  ['a link to a folder outside', (root: string) => symlink('/etc', join(root, 'bad/etc'))],
  ['a link to a file inside', (root: string) => symlink('SKILL.md', join(root, 'bad/again.md'))],
  ['a link to a device', (root: string) => symlink('/dev/zero', join(root, 'bad/zero'))],
  ['a pipe', (root: string) => promisify(execFile)('mkfifo', [join(root, 'bad/pipe')])],
])('79: a skill that contains %s is not served, the others are', async (_, make) => {
  await using folder = await temporaryFolder();
  await writeFiles(folder.path, { ...good, 'bad/SKILL.md': skillText('bad') });
  await make(folder.path);

  expect(await served(folder.path)).toEqual(['skill://good/SKILL.md', 'skill://good/notes/a.txt']);
});

test('79: a skill whose SKILL.md or folder is itself a link is not served', async () => {
  await using folder = await temporaryFolder();
  await using outside = await temporaryFolder();
  await writeFiles(outside.path, {
    'stolen/SKILL.md': skillText('stolen'),
    'a.md': skillText('a'),
  });
  await writeFiles(folder.path, good);
  await symlink(join(outside.path, 'stolen'), join(folder.path, 'stolen'));
  await mkdir(join(folder.path, 'a'));
  await symlink(join(outside.path, 'a.md'), join(folder.path, 'a/SKILL.md'));

  expect(await served(folder.path)).toEqual(['skill://good/SKILL.md', 'skill://good/notes/a.txt']);
});

test('the folder itself may be a link, as in a release that is switched over', async () => {
  await using folder = await temporaryFolder();
  await writeFiles(folder.path, { 'one/good/SKILL.md': skillText('good') });
  await symlink(join(folder.path, 'one'), join(folder.path, 'now'));

  expect(await served(join(folder.path, 'now'))).toEqual(['skill://good/SKILL.md']);
});

test('a file that is too large excludes its skill, and is not read', async () => {
  await using folder = await temporaryFolder();
  await writeFiles(folder.path, {
    ...good,
    'big/SKILL.md': skillText('big'),
    'big/data.bin': new Uint8Array(5000),
  });
  const { problems } = await readSkillFolder(folder.path, {
    ...skillFolderLimits,
    maxFileBytes: 4096,
  });

  expect(problems).toEqual([{ path: 'big/data.bin', message: 'is larger than 4096 bytes' }]);
  expect(await served(folder.path, { maxFileBytes: 4096 })).not.toContain('skill://big/SKILL.md');
});

test.each([
  ['bytes', { maxBytes: 20 }, 'contains more than 20 bytes'],
  ['files', { maxEntries: 2 }, 'contains more than 2 files and folders'],
  ['depth', { maxDepth: 1 }, 'is nested deeper than 1 folders'],
])('a folder beyond the limit of %s is not read at all', async (_, limits, words) => {
  await using folder = await temporaryFolder();
  await writeFiles(folder.path, good);

  await expect(readSkillFolder(folder.path, { ...skillFolderLimits, ...limits })).rejects.toThrow(
    words,
  );
});

test('a folder that does not exist is an error that names it', async () => {
  await using folder = await temporaryFolder();

  await expect(readSkillFolder(join(folder.path, 'none'))).rejects.toThrow('does not exist');
  await expect(fingerprintSkillFolder(join(folder.path, 'none'))).rejects.toThrow('does not exist');
});

test('any change in a folder changes its fingerprint', async () => {
  await using folder = await temporaryFolder();
  await writeFiles(folder.path, good);
  const prints = [
    await fingerprintSkillFolder(folder.path),
    await fingerprintSkillFolder(folder.path),
  ];
  const after = async (change: () => Promise<unknown>) => {
    await change();
    prints.push(await fingerprintSkillFolder(folder.path));
  };
  await after(() => writeFile(join(folder.path, 'good/notes/a.txt'), 'b'));
  await after(() =>
    rename(join(folder.path, 'good/notes/a.txt'), join(folder.path, 'good/notes/b.txt')),
  );
  await after(() => mkdir(join(folder.path, 'good/empty')));

  expect(prints[0]).toBe(prints[1]);
  expect(new Set(prints).size).toBe(4);
});

/** Limits that call `happens` when they are read before the second folder. */
function limitsBeforeSecond(happens: () => void): SkillFolderLimits {
  let folders = 0;
  return {
    ...skillFolderLimits,
    get maxDepth() {
      folders += 1;
      if (folders === 2) happens();
      return skillFolderLimits.maxDepth;
    },
  };
}

test.each([
  ['content', readSkillFolder],
  ['fingerprint', fingerprintSkillFolder],
])('a folder that disappears while its %s is read does not exist', async (_, read) => {
  await using folder = await temporaryFolder();
  const root = join(folder.path, 'skills');
  await writeFiles(root, good);
  const limits = limitsBeforeSecond(() => renameSync(root, `${root}.gone`));

  await expect(read(root, limits)).rejects.toThrow(`the folder ${root} does not exist`);
});

test('an inner folder that disappears while the others are read is empty', async () => {
  await using folder = await temporaryFolder();
  await writeFiles(folder.path, { ...good, 'late/SKILL.md': skillText('late') });
  const late = join(folder.path, 'late');
  const limits = limitsBeforeSecond(() => renameSync(late, `${late}.gone`));

  const { files } = await readSkillFolder(folder.path, limits);
  expect(await files.list('good')).toHaveLength(2);
  expect(await files.list('late')).toEqual([]);
});
