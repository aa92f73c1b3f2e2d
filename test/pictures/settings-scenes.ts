import type { Scene } from './scene.ts';

const settings = '/servers/tickets/settings';
const limits = {
  'Calls per minute': '120',
  'Concurrent calls': '8',
  Timeout: '30',
  'Max request size': '0.5',
  'Max response size': '1',
};

/** The settings of a server: limits, invalid limits, a form that another save has made stale; and a disabled server. */
export const settingsScenes: Scene = async ({ dana, album }) => {
  const { page, context, open, press, fill } = dana;
  const save = async () => {
    await press('Save');
    await page.waitForURL(`**${settings}?done=saved`);
  };
  await open(settings);
  await fill(limits);
  await save();
  await album.take(page, 'settings-limits');
  const other = await context.newPage();
  await open(settings, other);
  await fill({ 'Calls per minute': '0', Timeout: 'long', 'Max request size': '4 GB' });
  await press('Save');
  await album.take(page, 'settings-limits-wrong');
  await fill(limits);
  await save();
  await other.getByLabel('Calls per minute').fill('9');
  await other.getByRole('button', { name: 'Save', exact: true }).click();
  await album.take(other, 'settings-stale');
  await other.close();

  await open('/servers/tickets/disable');
  await press('Disable server');
  await page.waitForURL('**/servers/tickets?done=disabled');
  await open('/servers/tickets');
  await album.take(page, 'server-disabled');
  await open('/servers');
  await album.take(page, 'servers-one-disabled');
  await open(settings);
  await page.locator('main a[data-question][href$="/enable"]').click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-server-enable');
  await press('Enable server');
  await page.waitForURL('**/servers/tickets?done=enabled');
};
