import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { pageApp } from '#support/page-app';

/** An admin who has just looked at a page twice, and the database as another process has it open. */
async function visited(path: string) {
  const app = await pageApp();
  const other = new DatabaseSync(app.server.stores.connection.location() ?? '');
  onTestFinished(async () => {
    other.close();
    await app[Symbol.asyncDispose]();
  });
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const look = () => app.get(`/dashboard/acme${path}`, cookie);
  expect([(await look()).status, (await look()).status]).toEqual([200, 200]);
  return { app, other, look };
}

const revocations = [
  ['a session that ends', "delete from browser_session where person_id = 'user_ada'", 303],
  ['a person who is removed', "delete from person where id = 'user_ada'", 303],
  ['a lesser role', "update membership set role = 'member' where person_id = 'user_ada'", 403],
  ['a membership that ends', "delete from membership where person_id = 'user_ada'", 404],
  ['a second factor that is required', 'update organization set second_factor_required = 1', 403],
  ['an organization that is disabled', 'update organization set disabled_at = 1', 404],
] as const;

test.each(revocations)(
  '%s by another process counts at the very next request',
  async (_what, written, status) => {
    const { other, look } = await visited('/audit');

    other.exec(written);

    expect((await look()).status).toBe(status);
  },
);

const recalledPages = ['', '/usage', '/people', '/new-server'].flatMap((path) =>
  // Members may look at both pages, and see less of the first.
  revocations
    .filter(([what]) => what !== 'a lesser role')
    .map(
      ([what, written, status]) => [`/dashboard/acme${path}`, what, path, written, status] as const,
    ),
);

test.each(recalledPages)(
  'so it does at %s, which is recalled: %s',
  async (_at, _what, path, written, status) => {
    const { other, look } = await visited(path);

    other.exec(written);

    expect((await look()).status).toBe(status);
  },
);

test('what another process writes is on the overview at the very next request', async () => {
  const { other, look } = await visited('');
  expect((await look()).text).not.toContain('renamed');

  other.exec("update mcp_server set name = 'renamed' where organization_id = 'org_acme'");

  expect((await look()).text).toContain('renamed');
});

test('a member who is gone is on no list at the very next request', async () => {
  const { app, other, look } = await visited('/people');
  await app.browser('user_bo', { organizationId: 'org_acme', role: 'viewer' });
  expect((await look()).text).toContain('user_bo');

  other.exec("delete from membership where person_id = 'user_bo'");

  expect((await look()).text).not.toContain('user_bo');
});

test('a lesser role sees no refusals that an admin was shown', async () => {
  const { other, look } = await visited('');
  expect((await look()).text).toContain('Refused lately');

  other.exec("update membership set role = 'member' where person_id = 'user_ada'");

  expect((await look()).text).not.toContain('Refused lately');
});

test('what one organization was shown is not what another is shown', async () => {
  const { app, look } = await visited('/usage');
  await app.server.stores.organizations.add({ id: 'org_other', name: 'other', createdAt: 1 });
  const theirs = await app.browser('user_oz', { organizationId: 'org_other', role: 'admin' });

  expect((await look()).text).toContain('/dashboard/acme/usage?range=7d');
  const shown = await app.get('/dashboard/other/usage', theirs.cookie);
  expect(shown.text).toContain('/dashboard/other/usage?range=7d');
  expect(shown.text).not.toContain('acme');
});
