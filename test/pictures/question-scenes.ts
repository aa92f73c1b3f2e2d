import type { Scene } from './scene.ts';

/** Every question before something ends, as a dialog over its page; one of them as a page of its own. */
export const questionScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open } = dana;
  const { clientId, keyId } = furnished;
  const person = async () => {
    await open('/people');
    await page.getByRole('link', { name: 'viola@example.com' }).click();
  };
  const ask = async (
    name: string,
    where: string | (() => Promise<void>),
    end: string,
    within = '/',
  ) => {
    if (typeof where === 'string') await open(where);
    else await where();
    await page.locator(`main a[data-question][href*="${within}"][href$="${end}"]`).first().click();
    await page.getByRole('dialog').waitFor();
    await album.take(page, `question-${name}`);
  };
  await ask('server-disable', '/servers/library/settings', '/disable');
  await ask('server-delete', '/servers/library/settings', '/servers/library/delete');
  await ask('key-revoke', '/servers/library/keys', `${keyId}/revoke`);
  await ask('client-revoke', `/servers/library/clients/${clientId}`, `${clientId}/revoke`);
  await ask('secret-revoke', `/servers/library/clients/${clientId}`, '/revoke', '/secrets/');
  await ask('agent-key-revoke', '/agents/berlin', '/revoke', '/keys/');
  await ask('agent-revoke', '/agents/copenhagen', '/agents/copenhagen/revoke');
  await ask(
    'group-delete',
    () => open('/groups').then(() => page.getByRole('link', { name: 'Finance' }).click()),
    '/delete',
  );
  for (const end of ['sign-out', 'reset-second-factor', 'make-owner']) {
    await ask(`person-${end}`, person, `/${end}`);
  }
  await ask('invitation-revoke', '/people/invitations', '/revoke');
  await ask('consent-withdraw', '/consents', '/withdraw');
  await open('/servers/library/delete');
  await album.take(page, 'question-as-page');
  await page.locator('main form input[name=typed]').fill('libra');
  await page.locator('main form button').first().click();
  await album.take(page, 'question-as-page-wrong');
};
