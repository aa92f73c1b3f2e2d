import { expect, test } from 'vitest';

import { administration, type Administration } from '#support/administration';
import { newestEvents } from '#support/newest-events';

const base = ['--base-url', 'https://latchkey.example.com'];
const person = (...more: string[]) => ['dana@example.com', ...more];

/** The organizations `acme` and `other`; Dana is a member of both. */
async function withDana(): Promise<Administration> {
  const admin = await administration();
  for (const name of ['acme', 'other']) {
    await admin.run('organization', 'create', name);
    const place = ['--organization', name, '--role', 'member'];
    await admin.run('user', 'create', ...person(...place));
  }
  return admin;
}

/** The actions in the audit log of an organization, or in the log without an organization; newest first. */
async function actionsIn(admin: Administration, ...organization: string[]) {
  const events = await admin.json('audit', 'list', ...organization);
  if (!Array.isArray(events)) throw new TypeError('no list');
  return events.map((event) => String(Object(event).action));
}

test('230: audit log: a link for a new password that the operator makes is in the log of each organization of the person, without the link', async () => {
  await using admin = await withDana();
  await admin.run('organization', 'create', 'strangers');

  const { link } = Object(await admin.json('user', 'reset-link', ...person(...base)));

  for (const organization of ['acme', 'other']) {
    const [newest] = Object(await admin.json('audit', 'list', organization, '--limit', '1'));
    expect(newest).toMatchObject({
      actor: 'operator',
      action: 'user.reset-link',
      target: expect.stringMatching(/^user:user_/),
    });
    expect(JSON.stringify(newest)).not.toContain(String(link).split('/').at(-1));
  }
  expect(await actionsIn(admin, 'strangers')).not.toContain('user.reset-link');
  expect(await actionsIn(admin)).not.toContain('user.reset-link');
});

test('230: audit log: an account that the operator removes is in the log of each organization that the person belonged to', async () => {
  await using admin = await withDana();

  await admin.run('user', 'remove', ...person('--yes'));

  expect((await actionsIn(admin, 'acme'))[0]).toBe('user.remove');
  expect((await actionsIn(admin, 'other'))[0]).toBe('user.remove');
});

test('audit log: what is done to the account of a person without an organization belongs to none', async () => {
  await using admin = await administration();
  await admin.run('organization', 'create', 'acme');
  await admin.run('user', 'create', ...person('--organization', 'acme', '--role', 'member'));
  await admin.stores.db.deleteFrom('membership').execute();

  await admin.run('user', 'reset-link', ...person(...base));

  expect(await actionsIn(admin)).toEqual(['user.reset-link', 'organization.create']);
});

test('230: audit log: what the operator does for the whole installation is in no organization’s log, but is listed without one', async () => {
  await using admin = await withDana();
  await admin.run('outbound', 'allow', 'mcp.internal');
  await admin.run('outbound', 'remove', 'mcp.internal');

  const own = await admin.json('audit', 'list', '--limit', '2');
  const allowed = await admin.json('audit', 'list', '--action', 'outbound.allow');

  expect(own).toMatchObject([
    { actor: 'operator', action: 'outbound.remove', target: 'mcp.internal' },
    { actor: 'operator', action: 'outbound.allow', target: 'mcp.internal' },
  ]);
  expect(allowed).toMatchObject([{ action: 'outbound.allow' }]);
  expect(await actionsIn(admin, 'acme')).not.toContain('outbound.allow');
  expect(await newestEvents(admin.stores.db, 1)).toMatchObject([{ organization: undefined }]);
});
