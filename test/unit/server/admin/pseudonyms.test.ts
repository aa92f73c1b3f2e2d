import { expect, test } from 'vitest';

import { deleteUser } from '#server/db/people';
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
  expect(table).toEqual(['no matching calls']);
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
      message: 'nobody has the address dana@example.com, and no recorded call of acme carries it',
    });
  },
);
