import type { Scene } from './scene.ts';

/** What is shown once, and the rotations that follow. */
export const secretScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press, fill } = dana;
  const { clientId, keyId } = furnished;
  const once = async (name: string) => {
    await dana.clientSecretViewSchema();
    await album.take(page, name);
  };
  await open('/servers/library/new-key');
  await fill({ Name: 'Weekly report' });
  await press('Generate API key');
  await once('key-once');
  await page.getByText('VS Code', { exact: true }).first().click();
  await album.take(page, 'key-once-other-assistant');
  await press('Done');
  await album.take(page, 'key-once-not-stored');
  await dana.store();
  await page.waitForURL('**/keys?done=made');
  await album.take(page, 'key-made');
  await open('/servers/library/new-client');
  await fill({ Name: 'Cursor' });
  await page.locator('main form button.primary').click();
  await once('client-once');
  await dana.store();
  await open('/new-agent');
  await fill({ Name: 'oslo' });
  await press('Create agent');
  await once('agent-once');
  await dana.store();
  await open(`/servers/library/keys/${keyId}/rotate`);
  await press('Make the new key');
  await once('key-rotation');
  await page.getByLabel('I have stored it').check();
  await open(`/servers/library/clients/${clientId}/rotate`);
  await press('Make the new secret');
  await once('client-rotation');
  await page.getByLabel('I have stored it').check();
  await open('/agents/berlin/rotate');
  await page.locator('main form button.primary').click();
  await once('agent-rotation');
  await page.getByLabel('I have stored it').check();
  await open('/people/invite');
  await page.getByLabel('For whom').fill('Viktor');
  await press('Make the link');
  await once('invitation-once');
  await dana.store();
};
