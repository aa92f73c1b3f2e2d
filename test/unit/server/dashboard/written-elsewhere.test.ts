import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { pageApp } from '#support/page-app';

/** An admin who has just looked at the audit log, and the database as another process has it open. */
async function visited() {
  const app = await pageApp();
  const other = new DatabaseSync(app.server.stores.connection.location() ?? '');
  onTestFinished(async () => {
    other.close();
    await app[Symbol.asyncDispose]();
  });
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const look = async () => (await app.get('/dashboard/acme/audit', cookie)).status;
  expect([await look(), await look()]).toEqual([200, 200]);
  return { other, look };
}

test.each([
  ['a session that ends', "delete from browser_session where person_id = 'user_ada'", 303],
  ['a person who is removed', "delete from person where id = 'user_ada'", 303],
  ['a lesser role', "update membership set role = 'member' where person_id = 'user_ada'", 403],
  ['a membership that ends', "delete from membership where person_id = 'user_ada'", 404],
  ['a second factor that is required', 'update organization set second_factor_required = 1', 403],
  ['an organization that is disabled', 'update organization set disabled_at = 1', 404],
])('%s by another process counts at the very next request', async (_what, written, status) => {
  const { other, look } = await visited();

  other.exec(written);

  expect(await look()).toBe(status);
});
