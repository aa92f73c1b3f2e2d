import { join } from 'node:path';

import type { Scene } from './scene.ts';

const folder = join(import.meta.dirname, '../../docs/pictures');

/** The pictures of the documentation, over those that are there. */
export const readmeScenes: Scene = async ({ dana, furnished }) => {
  const { page, open, press } = dana;
  const take = async (name: string, colorScheme: 'light' | 'dark') => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.screenshot({ path: join(folder, `dashboard-${name}.png`) });
  };
  await page.setViewportSize({ width: 1120, height: 720 });
  await open('');
  await take('overview', 'light');
  await open('/servers/library/keys?state=active');
  await take('keys', 'light');
  await open('/usage?by=tool');
  await take('usage-dark', 'dark');
  await open('/servers/library/try?tool=query');
  await page.getByLabel('sql').fill('select count(*) as books from books');
  await press('Call query');
  await page.locator('.result h3:not(.failed)').waitFor();
  await page.evaluate('scrollTo(0, 0)');
  await take('try-dark', 'dark');
  await open('/servers/tickets/tools');
  await take('tools-dark', 'dark');
  await open('/servers/library/keys?state=active');
  await page.locator(`main a[data-question][href$="${furnished.keyId}/revoke"]`).click();
  await page.getByRole('dialog').waitFor();
  await take('question', 'light');
};
