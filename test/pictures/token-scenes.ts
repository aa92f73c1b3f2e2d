import { longName } from './furnished-server.ts';
import type { Scene } from './scene.ts';

/** Personal tokens: none, one that is shown once, some, and the question before one ends. */
export const tokenScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, fill, press } = dana;
  const home = `${furnished.server.base}/account/tokens`;
  await page.goto(home);
  await album.take(page, 'tokens-none');
  await press('Create token');
  await album.take(page, 'tokens-wrong');
  await fill({ Name: 'Nightly report' });
  await press('Create token');
  await dana.shownSecret();
  await album.take(page, 'token-once');
  await dana.store();
  await page.goto(home);
  await fill({ Name: longName });
  await press('Create token');
  await dana.shownSecret();
  await dana.store();
  await page.goto(home);
  await album.take(page, 'tokens', { isTable: true });
  await page.locator('main a[data-question][href$="/revoke"]').first().click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-token-revoke');
};
