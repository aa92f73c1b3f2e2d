import { findUserByEmail } from '#server/db/people';
import { askScim } from '#support/scim-directory';
import { longName } from './furnished-server.ts';
import type { Scene } from './scene.ts';

const leaver = 'a.very.long.address.of.somebody@subsidiary.example.com';

/** A directory: none, its token that is shown once, errors and people who wait; and what someone left behind. */
export const provisioningScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press, shownSecret, store } = dana;
  const { server, stores, clientId, keyId } = furnished;
  await open('/sign-in/scim');
  await album.take(page, 'provisioning-none');
  await open('/people/needs-owner');
  await album.take(page, 'needs-owner-none');
  await open('/sign-in/scim/new-token');
  await album.take(page, 'provisioning-new-token');
  await press('Create token');
  const token = await shownSecret();
  await album.take(page, 'provisioning-token-once');
  await store();

  const ask = (method: string, path: string, body: unknown) =>
    askScim(`${server.base}/scim/v2/acme${path}`, { method, token, body });
  const owner = await findUserByEmail(stores.db, leaver);
  for (const [table, id] of [
    ['api_key', keyId],
    ['oauth_client', clientId],
  ] as const) {
    await stores.db
      .updateTable(table)
      .set({ owner_id: owner?.id ?? null })
      .where('id', '=', id)
      .execute();
  }
  const { json: left } = await ask('POST', '/Users', { userName: leaver });
  await ask('POST', '/Users', { userName: leaver });
  await ask('POST', '/Users', { userName: 'new.colleague@example.com' });
  await ask('POST', '/Users', { displayName: longName });
  await ask('POST', '/Groups', { displayName: 'Finance', members: [{ value: 'su_nobody' }] });
  await ask('PATCH', `/Users/${String(left['id'])}`, {
    Operations: [{ op: 'replace', value: { active: false } }],
  });
  await open('/sign-in/scim');
  await album.take(page, 'provisioning', { isTable: true });
  await open('/sign-in/scim/rotate');
  await album.take(page, 'provisioning-rotate');
  await open('/people/needs-owner');
  await album.take(page, 'needs-owner');
  await open('');
  await album.take(page, 'overview-needs-owner', { isTable: true });
  await open('/sign-in/scim');
  await page.locator('main a[data-question][href$="/revoke"]').first().click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-scim-token-revoke');
};
