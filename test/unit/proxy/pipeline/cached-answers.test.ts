import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readMessage } from '#mcp/raw-message';
import { fileAnswers, question } from '#proxy/pipeline/cached-answers';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://cloud.example.com/mcp/acme/sales';
const bytes = (text: string) => Buffer.from(text);

test('offline cache file: an answer is read back as stored, for its own account only', async () => {
  await using folder = await temporaryFolder();
  const mine = fileAnswers(folder.path, { url, account: 'mine' });
  await mine.keep('tools', bytes('{"a":1}'));
  await mine.keep('tools', bytes('{"a":2}'));

  expect((await mine.read('tools'))?.toString()).toBe('{"a":2}');
  expect(await mine.read('prompts')).toBeUndefined();
  expect(await fileAnswers(folder.path, { url, account: 'yours' }).read('tools')).toBeUndefined();
  expect(
    await fileAnswers(folder.path, { url: `${url}/`, account: 'mine' }).read('tools'),
  ).toBeUndefined();
});

test('offline cache file: only its owner can read it, and it reveals nothing about the account', async () => {
  await using folder = await temporaryFolder();
  const answers = fileAnswers(folder.path, { url, account: 'mcp_key' });
  await answers.keep('tools', bytes('{}'));

  const names = readdirSync(folder.path, { recursive: true, encoding: 'utf8' });
  const modes = names.map((name) => statSync(join(folder.path, name)).mode & 0o777);

  expect(modes).toEqual([0o700, 0o700, 0o600]);
  expect(names.every((name) => /^[0-9a-f]{40}(\/[0-9a-f]{40}){0,2}(\.json)?$/.test(name))).toBe(
    true,
  );
});

test.each([
  ['a key', `{"text":"mcp_${'k'.repeat(36)}"}`],
  ['a personal token', `{"text":"pat_${'k'.repeat(36)}"}`],
  ['a key behind a line feed', JSON.stringify({ text: `key:\nmcp_${'k'.repeat(36)}` })],
  ['a signed token behind a tab', JSON.stringify({ text: '\teyJhbGciOiJFZERTQSJ9.e30.c2ln' })],
  ['a signed token', '{"text":"eyJhbGciOiJFZERTQSJ9.e30.c2ln"}'],
  ['more than four megabytes', `"${'x'.repeat(4 * 1024 * 1024)}"`],
])('offline cache file: %s is not stored', async (_, text) => {
  await using folder = await temporaryFolder();
  const answers = fileAnswers(folder.path, { url, account: 'mine' });
  await answers.keep('tools', bytes(text));

  expect(await answers.read('tools')).toBeUndefined();
});

test('offline cache file: beyond 64 answers the oldest are deleted, and so are unfinished writes', async () => {
  await using folder = await temporaryFolder();
  const answers = fileAnswers(folder.path, { url, account: 'mine' });
  await answers.keep('oldest', bytes('{}'));
  const [server = ''] = readdirSync(folder.path);
  const [account = ''] = readdirSync(join(folder.path, server));
  const inside = join(folder.path, server, account);
  const [oldest = ''] = readdirSync(inside);
  writeFileSync(join(inside, 'left.part'), '{');
  for (const name of [oldest, 'left.part']) utimesSync(join(inside, name), 1, 1);
  for (let index = 0; index < 64; index += 1) await answers.keep(`${index}`, bytes('{}'));

  expect(await answers.read('oldest')).toBeUndefined();
  expect(await answers.read('63')).toBeDefined();
  expect(readdirSync(inside)).toHaveLength(64);
});

test('offline cache file: a folder that cannot be written is not an error', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'file');
  writeFileSync(file, '');
  const answers = fileAnswers(file, { url, account: 'mine' });
  await answers.keep('tools', bytes('{}'));

  expect(await answers.read('tools')).toBeUndefined();
});

test('offline cache file: forget deletes the answers', async () => {
  await using folder = await temporaryFolder();
  const answers = fileAnswers(folder.path, { url, account: 'mine' });
  await answers.keep('tools', bytes('{}'));
  await answers.forget();
  await answers.forget();

  expect(readdirSync(folder.path)).toEqual([]);
});

const message = (value: object) => readMessage(Buffer.from(JSON.stringify({ id: 1, ...value })));
const initialize = (protocolVersion: string, capabilities: object) =>
  message({ method: 'initialize', params: { protocolVersion, capabilities, clientInfo: {} } });
const list = (params?: object) => message({ method: 'tools/list', params });
const plain = initialize('2025-11-25', {});

test('cache key: a repeated request has the same one', () => {
  const again = list({ _meta: { progressToken: 7 } });

  expect(question(again, plain)).toBe(question(list({}), plain));
  expect(question(list(), plain)).toBe(question(list({}), plain));
});

test.each([
  ['another version', list(), initialize('2025-06-18', {})],
  ['other capabilities', list(), initialize('2025-11-25', { sampling: {} })],
  ['another page', list({ cursor: '2' }), plain],
  ['another list', message({ method: 'prompts/list' }), plain],
  [
    'the other era',
    list({ _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } }),
    plain,
  ],
])('cache key: %s has a different one', (_, request, shaken) => {
  expect(question(request, shaken)).not.toBe(question(list(), plain));
});
