import type { Scene } from './scene.ts';
import { insertGroup } from '#server/db/groups';

/** The page that tries tools: nothing chosen, wrong arguments, an answer, an error, a server that Dana may not use, an offline agent. */
export const tryScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press } = dana;
  await open('/servers/library/try');
  await album.take(page, 'try');
  await open('/servers/library/try?tool=query');
  await page.getByLabel('sql').fill('select name, born from authors order by name');
  await page.getByLabel('limit').fill('many');
  await press('Call query');
  await album.take(page, 'try-wrong');
  await page.getByLabel('limit').fill('3');
  await press('Call query');
  await page.locator('.result h3:not(.failed)').waitFor();
  await album.take(page, 'try-answer');
  await page.getByLabel('sql').fill('drop table books');
  await press('Call query');
  await page.locator('.result .failed').waitFor();
  await album.take(page, 'try-failed');
  const group = { id: 'group_board', organizationId: furnished.organizationId, name: 'Board' };
  await insertGroup(furnished.stores.db, { ...group, createdAt: 0 });
  await open('/servers/warehouse/access');
  await page.getByLabel('Only members of these groups').check();
  await page.getByLabel('Board').check();
  await press('Save');
  await press('Change access');
  await open('/servers/warehouse/try');
  await album.take(page, 'try-kept-to-groups');
  await open('/servers/payroll/try');
  await album.take(page, 'try-agent-offline');
};
