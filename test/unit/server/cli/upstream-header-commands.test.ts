import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { findServer } from '#server/db/servers';
import { administrationWithServer, type Administration } from '#support/administration';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const url = 'https://mcp.example/mcp';
const value = 'kq8-a-value-that-nobody-sees-again';

let admin: Administration;
let folder: TemporaryFolder;
beforeEach(async () => {
  admin = await administrationWithServer();
  folder = await temporaryFolder();
  await admin.run('server', 'update', 'acme/web', '--http-url', url);
});
afterEach(async () => {
  await folder[Symbol.asyncDispose]();
  await admin[Symbol.asyncDispose]();
});

function file(text: string): string {
  const path = join(folder.path, 'value');
  writeFileSync(path, text);
  return path;
}
const given = (name: string, text: string) => ['--http-header-file', `${name}=${file(text)}`];

/** What the requests of a server carry now. */
async function sent(name = 'web') {
  const server = await findServer(admin.stores.db, 'acme', name);
  if (server?.target.upstream.kind !== 'http') return undefined;
  const { headers = [], url: there } = server.target.upstream;
  return admin.stores.upstreamSetup.openHeaders(
    { targetId: server.target.id, url: there },
    headers,
  );
}

test.each([
  ['as it is', value],
  ['without a newline at its end', `${value}\n`],
  ['without a newline of Windows at its end', `${value}\r\n`],
])('a server is created with a header whose value is read from the file %s', async (_, text) => {
  const words = ['--http-url', url, ...given('X-Api-Key', text)];
  const lines = await admin.run('server', 'create', 'acme/keyed', ...words);

  expect(await sent('keyed')).toEqual({ 'x-api-key': value });
  expect(lines.join()).not.toContain(value);
});

test('a header is set, listed, replaced, restored and removed', async () => {
  const at = admin.clock.now();
  const until = at + 7 * 86_400;
  const run = (verb: string, ...words: string[]) =>
    admin.json('server', verb, 'acme/web', ...words);
  const made = await run(
    'set-header',
    ...given('X-Key', value),
    '--http-header-file',
    `a=${file(value)}`,
  );
  const replaced = await run('set-header', ...given('x-key', `${value}2`));
  const restored = await run('restore-header', 'x-key');
  const then = await sent();
  const forgotten = await run('remove-header', 'x-key', '--previous');
  const removed = await run('remove-header', 'x-key');

  const none = { previous_hint: null, previous_until_at: null, refused_at: null };
  const row = { name: 'x-key', hint: '…gain', set_at: at };
  const other = { ...row, name: 'a', ...none };
  const previous = { previous_hint: '…gain', previous_until_at: until, refused_at: null };
  expect(made).toEqual([other, { ...row, ...none }]);
  expect(replaced).toEqual([other, { ...row, hint: '…ain2', ...previous }]);
  expect(restored).toEqual([other, { ...row, ...previous, previous_hint: '…ain2' }]);
  expect(then).toEqual({ a: value, 'x-key': value });
  expect(forgotten).toEqual([other, { ...row, ...none }]);
  expect(removed).toEqual([other]);
  expect(await run('list-headers')).toEqual([other]);
  expect(await admin.run('server', 'remove-header', 'acme/web', 'a')).toEqual(['no fixed headers']);
});

test('changing the upstream URL lists the headers that were removed, and what to do', async () => {
  await admin.run('server', 'set-header', 'acme/web', ...given('X-Key', value));
  const lines = await admin.run('server', 'update', 'acme/web', '--http-url', 'https://b.example/');
  const moved = ['--http-url', 'https://c.example/', ...given('X-Key', value)];
  const again = await admin.json('server', 'update', 'acme/web', ...moved);

  expect(lines).toEqual(
    expect.arrayContaining([
      'removed_headers  x-key',
      'hint: the removed headers were for another origin; to set them again:',
      '      latchkey-server server set-header acme/web --http-header-file x-key=FILE',
    ]),
  );
  expect(again).toMatchObject({ removed_headers: [] });
  expect(await sent()).toEqual({ 'x-key': value });
});

describe('refused without repeating what may be a secret:', () => {
  const header = '--http-header-file';
  const set = ['set-header', 'acme/web', header];
  test.each<[string, () => string[], string]>([
    [
      'a value in the place of a file',
      () => [...set, `x-key=${value}`],
      'file of x-key does not exist',
    ],
    [
      'a long value in the place of a file',
      () => [...set, `x-key=${value.repeat(9)}`],
      'file of x-key cannot be read (ENAMETOOLONG)',
    ],
    ['a folder in the place of a file', () => [...set, 'x-key=.'], 'file of x-key is a folder'],
    ['a value in the place of both', () => [...set, value], 'takes NAME=FILE'],
    ['no file', () => [...set, 'x-key='], 'takes NAME=FILE'],
    ['a whole header', () => [...set, `Key: ${value}=x`], 'is not the name of an HTTP header'],
    ['a header of HTTP', () => [...set, `Host=${file(value)}`], 'HTTP itself sets'],
    ['two lines', () => [...set, `x-key=${file(`${value}\n${value}\n`)}`], 'without line breaks'],
    ['two newlines', () => [...set, `x-key=${file(`${value}\n\n`)}`], 'without line breaks'],
    ['an empty file', () => [...set, `x-key=${file('\n')}`], 'file of x-key is empty'],
    ['one twice', () => [...set, `x-a=${file(value)}`, header, `X-A=${file(value)}`], 'twice'],
    ['no header', () => ['set-header', 'acme/web'], '--http-header-file NAME=FILE is missing'],
    [
      'another upstream',
      () => ['create', 'acme/new', '--demo', header, `x-key=${file(value)}`],
      'requires --http-url',
    ],
    [
      'an update without a URL',
      () => ['update', 'acme/web', header, `x-key=${file(value)}`],
      'requires --http-url',
    ],
    [
      'a header that is not there',
      () => ['remove-header', 'acme/web', 'x-none'],
      'header not found',
    ],
  ])('%s', async (_, words, reason) => {
    const error = await admin.run('server', ...words()).catch((thrown: unknown) => thrown);

    expect(String(error)).toContain(reason);
    expect(JSON.stringify([error, String(error)])).not.toContain(value);
  });
});

test('a server whose upstream is not HTTP has no fixed headers', async () => {
  await admin.run('server', 'update', 'acme/web', '--demo');

  await expect(
    admin.run('server', 'set-header', 'acme/web', ...given('x-key', value)),
  ).rejects.toThrow('only an HTTP upstream can have fixed headers');
});
