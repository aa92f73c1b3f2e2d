import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';

import { administrationWithServer, type Administration } from '#support/administration';

let admin: Administration;
beforeEach(async () => {
  admin = await administrationWithServer();
});
afterEach(() => admin[Symbol.asyncDispose]());

const created = z.object({ id: z.string(), token: z.string() });

test('an operator creates, rotates and revokes the token of a directory', async () => {
  const first = created.parse(await admin.json('scim', 'create-token', 'acme'));
  await expect(admin.run('scim', 'create-token', 'acme')).rejects.toThrow('rotate it instead');
  const second = created.parse(await admin.json('scim', 'rotate-token', 'acme'));
  const both = await admin.json('scim', 'show', 'acme');
  await admin.run('scim', 'revoke-token', 'acme', first.id);
  const shown = JSON.stringify(await admin.json('scim', 'show', 'acme'));

  expect(first.token).toMatch(/^scim_[0-9A-Za-z]{36}$/);
  expect(both).toMatchObject({
    path: '/scim/v2/acme',
    users: 0,
    tokens: [first.id, second.id].toSorted((one, other) => (one < other ? -1 : 1)),
  });
  expect(shown).toContain(second.id);
  expect(shown).not.toContain(first.id);
  expect(shown).not.toContain(second.token);
  expect(await admin.run('scim', 'errors', 'acme')).toEqual(['no errors']);
});

test('an operator hands over what someone who left had created', async () => {
  for (const [email, role] of [
    ['dana@example.com', 'owner'],
    ['lena@example.com', 'admin'],
    ['mel@example.com', 'member'],
  ] as const) {
    await admin.run('user', 'create', email, '--organization', 'acme', '--role', role);
  }
  const { db } = admin.stores;
  const { id: keyId } = z
    .object({ id: z.string() })
    .parse(await admin.json('key', 'create', 'acme/web', '--name', 'nightly'));
  const lena = await db
    .selectFrom('person')
    .select('id')
    .where('email', '=', 'lena@example.com')
    .executeTakeFirstOrThrow();
  await db.updateTable('api_key').set({ owner_id: lena.id }).where('id', '=', keyId).execute();
  await admin.run('user', 'leave', 'lena@example.com', '--organization', 'acme', '--yes');
  const listed = await admin.json('leaver', 'list', 'acme');
  const announced = JSON.stringify(await admin.json('audit', 'list', 'acme'));
  const handOver = (to: string) => admin.json('leaver', 'hand-over', 'acme', keyId, to);

  expect(listed).toMatchObject([
    { kind: 'key', id: keyId, former_email: 'lena@example.com', suspended: 'yes' },
  ]);
  expect(announced).toContain('leaver.suspend');
  expect(announced).toContain(`user:${lena.id} 1 key`);
  await expect(handOver('mel@example.com')).rejects.toThrow('neither an owner nor an admin');
  expect(await handOver('dana@example.com')).toMatchObject({ kind: 'key', id: keyId });
  expect(await admin.json('leaver', 'list', 'acme')).toEqual([]);
});

test('an operator chooses what happens to what people leave behind', async () => {
  const words = ['--leaver-resources', 'keep', '--invited-scim-groups', 'yes'];

  expect(await admin.json('organization', 'update', 'acme', ...words)).toMatchObject({
    leaver_resources: 'keep',
    invited_scim_groups: 'yes',
  });
  await expect(
    admin.run('organization', 'update', 'acme', '--leaver-resources', 'burn'),
  ).rejects.toThrow('--leaver-resources must be suspend or keep');
});
