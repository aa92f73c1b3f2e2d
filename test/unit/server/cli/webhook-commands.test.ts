import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';

import { administrationWithServer, type Administration } from '#support/administration';
import { countedServer } from '#support/counted-server';

let admin: Administration;
beforeEach(async () => {
  admin = await administrationWithServer();
});
afterEach(() => admin[Symbol.asyncDispose]());

const url = 'https://127.0.0.1:1/in';
const made = z.object({ id: z.string(), secret: z.string() });
const create = async (...words: string[]) =>
  made.parse(await admin.json('webhook', 'create', 'acme', '--url', url, ...words));

test('an operator creates one, and its secret is shown once', async () => {
  const lines = await admin.run('webhook', 'create', 'acme', '--url', url, '--action', 'key.');
  const list = await admin.run('webhook', 'list', 'acme');

  expect(lines).toContainEqual(expect.stringMatching(/^secret +whsec_/));
  expect(lines.at(-1)).toBe('hint: store the secret now; it is not shown again');
  expect(list.join('\n')).toContain(url);
  expect(list.join('\n')).not.toContain('whsec_');
});

test('it is changed, rotated, disabled, enabled and removed', async () => {
  const { id, secret } = await create('--action', 'key.');
  const at = ['acme', id];
  const all = await admin.json('webhook', 'update', ...at, '--all-actions');
  const rotated = made.parse(await admin.json('webhook', 'rotate', ...at));
  const disabled = await admin.json('webhook', 'disable', ...at);
  const enabled = await admin.json('webhook', 'enable', ...at, '--from-now');
  await admin.run('webhook', 'remove', ...at);

  expect(all).toMatchObject({ id, actions: [], url });
  expect(rotated.secret).not.toBe(secret);
  expect(disabled).toMatchObject({ status: 'disabled', disabled_because: 'asked' });
  expect(enabled).toMatchObject({ status: 'delivering' });
  expect(await admin.json('webhook', 'list', 'acme')).toEqual([]);
  expect(await admin.run('webhook', 'list', 'acme')).toEqual([
    'no webhooks yet: latchkey-server webhook create acme --url URL',
  ]);
});

test('a test prints the answer, and fails if it was not accepted', async () => {
  let status = 204;
  await using receiver = await countedServer((_, response) => response.writeHead(status).end());
  const wish = ['--url', `${receiver.origin}/in`];
  const { id } = made.parse(await admin.json('webhook', 'create', 'acme', ...wish));
  const taken = await admin.json('webhook', 'test', 'acme', id);
  status = 404;

  expect(taken).toEqual({ id, answer: 'answered 204' });
  await expect(admin.run('webhook', 'test', 'acme', id)).rejects.toThrow(
    'the receiver answered 404',
  );
  expect(receiver.lines()).toEqual(['POST /in', 'POST /in']);
});

test.each([
  [['update', 'acme', 'ID'], 'give one of'],
  [['update', 'acme', 'ID', '--action', 'key.', '--all-actions'], 'give --action or'],
  [['disable', 'acme', 'whk_none'], 'webhook not found'],
  [['list', 'nobody'], 'organization nobody not found'],
  [['create', 'acme', '--url', 'http://192.0.2.1/'], 'url is not an https URL'],
])('refused with a reason: %j', async (words, reason) => {
  const { id } = await create();
  const argv = words.map((word) => (word === 'ID' ? id : word));

  await expect(admin.run('webhook', ...argv)).rejects.toThrow(reason);
});
