import { expect, test } from 'vitest';

import { callList } from '#server/admin/calls';
import { personPseudonymize } from '#server/admin/pseudonyms';
import { deleteUser } from '#server/db/people';
import { administered } from '#support/administered';
import { administrationWithServer } from '#support/administration';
import { recordCalls } from '#support/made-calls';
import { newestEvents } from '#support/newest-events';

const organization = ['--organization', 'acme'];
const pseudonym = /^Person [\da-f]{12}$/;

async function withCalls() {
  const admin = await administrationWithServer();
  const { db } = admin.stores;
  const made = await admin.json(
    'user',
    'create',
    'dana@example.com',
    ...organization,
    '--role',
    'member',
  );
  const { id: userId }: { id: string } = Object(made);
  await recordCalls(db, (admin.clock.now() - 10) * 1000, [{ userId }, { userId }, {}]);
  return { admin, db, userId };
}

test('user pseudonymize: replaces a person in the calls so far, by address, and the audit log does not name them', async () => {
  const { admin, db, userId } = await withCalls();
  await using _ = admin;
  const done = await admin.json('user', 'pseudonymize', 'Dana@Example.com', ...organization);
  const [event] = await newestEvents(db, 1);
  const calls = await admin.json('call', 'list', 'acme');

  expect(done).toEqual({
    pseudonym: expect.stringMatching(pseudonym),
    organization: 'acme',
    calls: 2,
  });
  const { pseudonym: name }: { pseudonym: string } = Object(done);
  expect(calls).toMatchObject([{ person: null }, { person: name }, { person: name }]);
  expect(event).toMatchObject({
    action: 'person.pseudonymize',
    actor: 'operator',
    target: `pseudonym:${name.slice('Person '.length)}`,
  });
  expect(JSON.stringify(event)).not.toContain(userId);
  const table = await admin.run('call', 'list', 'acme', '--person', 'dana@example.com');
  expect(table[0]).toBe('no matching calls');
});

test.each(['by address', 'by ID'])(
  'user pseudonymize: replaces a deleted account %s',
  async (way) => {
    const { admin, db, userId } = await withCalls();
    await using _ = admin;
    await deleteUser(db, userId);
    const named = way === 'by ID' ? userId : 'dana@example.com';

    expect(await admin.json('user', 'pseudonymize', named, ...organization)).toMatchObject({
      calls: 2,
    });
    const again = admin.run('user', 'pseudonymize', 'dana@example.com', ...organization);
    await expect(again).rejects.toMatchObject({
      name: 'CommandError',
      message:
        'no person has the address dana@example.com, and no recorded call of acme carries it',
    });
  },
);

test('pseudonym: an owner names a member, or the caller of a call, and no one else', async () => {
  await using at = await administered();
  const owner = await at.person('owner');
  await at.person('member');
  await recordCalls(at.stores.db, at.clock.now() * 1000, [
    { userId: 'user_left', subject: 'ours' },
    { userId: 'pseudonym_1', subject: 'pseudonym' },
    {
      userId: 'user_theirs',
      subject: 'theirs',
      endpoint: { id: 'ep', organization: 'other', name: 'web' },
    },
  ]);
  at.clock.advance(10);
  const ids = new Map<string, string>();
  for (const name of ['acme', 'other']) {
    for (const { tool, id } of (await at.perform(callList, { organization: name })).items) {
      ids.set(tool ?? '', id);
    }
  }
  const actor = { ...owner, provedAt: at.clock.now() };
  const replace = (userId: string, tool?: string) => {
    const callId = tool === undefined ? {} : { callId: ids.get(tool) };
    return at.perform(personPseudonymize, { organization: 'acme', userId, ...callId }, actor);
  };

  for (const [userId, tool] of [
    ['user_left'],
    ['user_theirs', 'ours'],
    ['user_theirs', 'theirs'],
    ['user_left', 'theirs'],
    ['pseudonym_1', 'pseudonym'],
  ] as const) {
    await expect(replace(userId, tool)).rejects.toMatchObject({ code: 'not_found' });
  }
  expect(await replace('user_2')).toMatchObject({ pseudonym: expect.any(String) });
  expect(await replace('user_left', 'ours')).toMatchObject({ pseudonym: expect.any(String) });
});
