import type { Scene } from './scene.ts';

/** Pages that say that something did not work, links, and an organization that has nothing yet. */
export const errorScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, fill } = dana;
  const { base } = furnished.server;
  await open('/servers/nobody');
  await album.take(page, 'error-not-found');
  await open('/no-such-page');
  await album.take(page, 'error-no-such-page-of-organization');
  await page.goto(`${base}/dashboard/nobody`);
  await album.take(page, 'error-no-such-organization');
  await page.goto(`${base}/no-such-page`);
  await album.take(page, 'error-no-such-page');
  await page.goto(`${base}/reset/link_that_never_was`);
  await album.take(page, 'error-link-over');
  await open('/settings');
  await page.evaluate(
    `for (const field of document.querySelectorAll('[name=csrf_token]')) field.value = 'old'`,
  );
  await page.locator('main form button.primary').first().click();
  await album.take(page, 'error-forged');
  await page.goto(`${base}/new-organization`);
  await album.take(page, 'organization-form');
  await fill({ Name: 'empty' });
  await page.locator('main form button.primary').click();
  await page.waitForURL('**/dashboard/empty**');
  await album.take(page, 'empty-overview');
  for (const name of ['servers', 'agents', 'groups', 'people', 'consents', 'audit', 'usage']) {
    await page.goto(`${base}/dashboard/empty/${name}`);
    await album.take(page, `empty-${name}`);
  }
  await page.goto(`${base}/organizations`);
  await album.take(page, 'organizations');
};
