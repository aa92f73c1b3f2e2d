import { createHash } from 'node:crypto';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { ProgramFiles } from '#server/download/program-files';
import { fakeClock } from '#support/fake-clock';
import { stillClock } from '#support/still-clock';
import { temporaryFolder } from '#support/temporary-folder';

const sha256 = (content: string) => createHash('sha256').update(content).digest('hex');

/** Writes a program and the description that its build writes beside it. */
async function place(file: string, content: string, described: object = {}): Promise<void> {
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, content);
  const description = { version: '1.2.3', sha256: sha256(content), ...described };
  await writeFile(`${file}.json`, JSON.stringify(description));
}

function programsIn(...folders: readonly string[]) {
  const failures: string[] = [];
  const clock = fakeClock();
  const failed = (path: string, error: unknown) => void failures.push(`${path}: ${String(error)}`);
  return { programs: new ProgramFiles(folders, { clock, failed }), clock, failures };
}

test('program files: executables of each system and packages of the tray app are listed, other files are not', async () => {
  await using folder = await temporaryFolder('programs');
  const at = (path: string) => join(folder.path, path);
  await place(at('linux-x64/latchkey'), 'for Linux');
  await place(at('win32-x64/latchkey.exe'), 'for Windows');
  await place(at('Latchkey-mac-arm64.dmg'), 'an app');
  await place(at('win32-arm64/latchkey'), 'without the extension');
  await place(at('sunos-x64/latchkey'), 'for an unknown system');
  await place(at('master.key'), 'not a program');
  const { programs, failures } = programsIn(join(folder.path, 'missing'), folder.path);

  const listed = await programs.list();

  expect(listed).toEqual([
    {
      kind: 'executable',
      fileName: 'latchkey-1.2.3-linux-x64',
      platform: 'linux',
      arch: 'x64',
      version: '1.2.3',
      size: 9,
      sha256: sha256('for Linux'),
    },
    expect.objectContaining({ fileName: 'latchkey-1.2.3-win32-x64.exe', platform: 'win32' }),
    expect.objectContaining({
      kind: 'app',
      fileName: 'Latchkey-mac-arm64.dmg',
      platform: 'darwin',
      arch: 'arm64',
    }),
  ]);
  expect(failures).toEqual([]);
});

test('program files: the first of two folders wins where both have a file of the same name', async () => {
  await using first = await temporaryFolder('first');
  await using second = await temporaryFolder('second');
  await place(join(first.path, 'linux-x64/latchkey'), 'first');
  await place(join(second.path, 'linux-x64/latchkey'), 'second');
  const { programs } = programsIn(first.path, second.path);

  const listed = await programs.list();

  expect(listed.map((one) => one.sha256)).toEqual([sha256('first')]);
});

test('235: program files: while files are being read, however long that takes, requests wait for that and begin no other reading', async () => {
  await using folder = await temporaryFolder('programs');
  await place(join(folder.path, 'linux-x64/latchkey'), 'for Linux');
  const clock = stillClock();
  const programs = new ProgramFiles([folder.path], { clock, failed: () => undefined });

  const first = programs.list();
  clock.advance(11);
  const second = programs.list();
  clock.advance(11);
  const third = programs.list();
  const listed = await Promise.all([first, second, third]);
  clock.advance(11);
  const later = await programs.list();

  expect(listed[1]).toBe(listed[0]);
  expect(listed[2]).toBe(listed[0]);
  expect(later).not.toBe(listed[0]);
  expect(later).toEqual(listed[0]);
});

test.for([
  ['whose description is missing', undefined, 'latchkey.json is missing'],
  ['with another digest than described', { sha256: sha256('all of it') }, 'copy both again'],
  ['with a version that is a path', { version: '../1.2.3' }, 'has no version and SHA-256'],
  ['with a short digest', { sha256: 'abc' }, 'has no version and SHA-256'],
] as const)(
  '218: program files: a file %s is not offered, and reported once',
  async ([, described, reason]) => {
    await using folder = await temporaryFolder('programs');
    const file = join(folder.path, 'linux-x64/latchkey');
    await place(file, 'half of it', described);
    if (!described) await rm(`${file}.json`);
    const { programs, clock, failures } = programsIn(folder.path);

    const listed = [await programs.list()];
    await clock.advance(10);
    listed.push(await programs.list());

    expect(listed).toEqual([[], []]);
    expect(failures).toEqual([expect.stringContaining(reason)]);
  },
);

test('program files: a folder in the place of a file, and an empty file, are not offered', async () => {
  await using folder = await temporaryFolder('programs');
  await mkdir(join(folder.path, 'linux-x64/latchkey'), { recursive: true });
  await place(join(folder.path, 'linux-arm64/latchkey'), '');
  const { programs, failures } = programsIn(folder.path);

  expect(await programs.list()).toEqual([]);
  expect(failures).toEqual([
    expect.stringContaining('it has 0 bytes'),
    expect.stringContaining('it is not a file'),
  ]);
});

test('program files: a file that is added or mended is found ten seconds later, without a restart', async () => {
  await using folder = await temporaryFolder('programs');
  const file = join(folder.path, 'linux-x64/latchkey');
  await place(file, 'half', { sha256: sha256('whole') });
  const { programs, clock, failures } = programsIn(folder.path);

  const before = await programs.list();
  await writeFile(file, 'whole');
  const tooSoon = await programs.list();
  await clock.advance(10);
  const after = await programs.list();

  expect([before, tooSoon]).toEqual([[], []]);
  expect(after.map(({ size }) => size)).toEqual([5]);
  expect(failures).toHaveLength(1);
});

test('218: program files: the content is that of the digest; a file replaced since is not opened but listed again', async () => {
  await using folder = await temporaryFolder('programs');
  const file = join(folder.path, 'linux-x64/latchkey');
  await place(file, 'first');
  const { programs } = programsIn(folder.path);

  const [first] = await programs.list();
  if (!first) throw new Error('nothing is offered');
  const opened = await programs.open(first);
  const content = opened && (await text(opened));
  await rm(file);
  await place(file, 'other');
  const stale = await programs.open(first);
  const [second] = await programs.list();
  const again = second && (await programs.open(second));

  expect(content).toBe('first');
  expect(stale).toBeUndefined();
  expect(second?.sha256).toBe(sha256('other'));
  expect(again && (await text(again))).toBe('other');
});

test('program files: a link is followed, and a removed file is not opened', async () => {
  await using folder = await temporaryFolder('programs');
  await using elsewhere = await temporaryFolder('elsewhere');
  const file = join(elsewhere.path, 'latchkey');
  await place(file, 'linked');
  await symlink(elsewhere.path, join(folder.path, 'linux-x64'));
  const { programs } = programsIn(folder.path);

  const [linked] = await programs.list();
  await rm(file);

  expect(linked?.sha256).toBe(sha256('linked'));
  expect(linked && (await programs.open(linked))).toBeUndefined();
});
