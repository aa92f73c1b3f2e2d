import type { Scene } from './scene.ts';

/** The page Deploy: nothing chosen, a wrong choice, servers that are installed and published, and the question. */
export const deployScenes: Scene = async ({ dana, album }) => {
  const { page, open, press, fill } = dana;
  const tickets = '/deploy/servers/tickets';
  await open('/deploy');
  await album.take(page, 'deploy-nothing');
  await open(tickets);
  await page.getByLabel('For members of these groups').check();
  await press('Save');
  await album.take(page, 'deploy-server-wrong');
  await page.getByLabel('For everyone in the organization').check();
  await press('Save');
  await page.waitForURL('**/deploy/servers/tickets?done=saved');
  await fill({
    'Public title (optional)': 'Tickets',
    'Public description': 'Search, open and answer tickets of the help desk',
  });
  await press('Publish');
  await page.waitForURL('**/deploy/servers/tickets?done=published');
  await album.take(page, 'deploy-server-public');
  await page.locator('main a[data-question][href$="/unpublish"]').click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-unpublish');
  await open('/deploy?connection=latchkey');
  await album.take(page, 'deploy');
};
