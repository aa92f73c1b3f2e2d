import { findServer, noteHeadersRefused } from '#server/db/servers';
import { keyedUpstream } from '#support/upstreams/keyed-upstream';
import { tokenUpstream } from '#support/token-upstream';
import type { Scene } from './scene.ts';

const crm = '/servers/crm';
const between = [900];

/** The credentials and headers that an administrator sets up for an upstream, and the accounts of people there. */
export const upstreamScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press, fill } = dana;
  const { server } = furnished;
  const redirectUris = [`${server.base}/dashboard/acme${crm}/account/callback`];
  await using upstream = await tokenUpstream({ redirectUris });
  await server.command(['server', 'create', 'acme/crm', '--http-url', upstream.url]);
  await open(`${crm}/upstream`);
  await album.take(page, 'upstream-none');
  await page.getByLabel('Each person’s own account').check();
  await album.take(page, 'upstream-form');
  await fill({ 'Client ID': '' });
  await press('Save');
  await page.getByRole('alert').waitFor();
  await album.take(page, 'upstream-wrong');
  await fill({
    'Client ID': upstream.clientId,
    'Client secret (optional)': upstream.clientSecret,
  });
  await press('Save');
  await page.waitForURL('**/upstream?done=saved');
  await album.take(page, 'upstream-saved');
  await open('/servers/crm');
  await album.take(page, 'server-own-account');

  await open(`${crm}/account`);
  await album.take(page, 'own-account-none');
  await press('Connect your account');
  await page.locator('input[name=login]').fill('dana-there');
  await page.locator('input[name=password]').fill('x');
  await page.locator('button[type=submit]').click();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL('**/account?done=connected');
  await album.take(page, 'own-account');
  await page.locator('main a[data-question]').click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-own-account');
  await open(`${crm}/upstream`);
  await album.take(page, 'upstream-connected');
  await page.locator('main a[data-question]').first().click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-account-of-somebody');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await ownKeys(dana, furnished, album);
  await open(`${crm}/upstream`);
  await fill({ Header: 'Host', Value: 'a value' });
  await press('Save header');
  await page.getByRole('alert').waitFor();
  await album.take(page, 'upstream-header-wrong', { between });
  for (const [name, value] of [
    ['X-Api-Key', 'first-value-of-a-key-of-the-upstream'],
    ['CF-Access-Client-Secret', 'another-value-of-a-key-of-the-upstream'],
    ['X-Tenant', 'acme'],
  ] as const) {
    await fill({ Header: name, Value: value });
    await press('Save header');
    await page.waitForURL('**/upstream?done=header');
  }
  await album.take(page, 'upstream-headers', { between });
  await page.getByRole('link', { name: 'Replace x-api-key' }).click();
  await album.take(page, 'upstream-header-replace', { between });
  await fill({ Value: 'second-value-of-a-key-of-the-upstream' });
  await press('Replace value');
  await page.waitForURL('**/upstream?done=header');
  await album.take(page, 'upstream-header-replaced', { between });
  const crmServer = await findServer(furnished.stores.db, 'acme', 'crm');
  if (crmServer?.target.upstream.kind !== 'http') throw new TypeError('crm has no HTTP upstream');
  const now = Math.floor(Date.now() / 1000);
  const { headers = [] } = crmServer.target.upstream;
  await noteHeadersRefused(furnished.stores.db, crmServer.target.id, headers, now);
  await open(`${crm}/upstream`);
  await album.take(page, 'upstream-header-refused', { between });
  for (const [link, name] of [
    ['Delete the previous value of x-api-key', 'question-forget-header'],
    ['Remove x-api-key', 'question-remove-header'],
  ] as const) {
    await page.getByRole('link', { name: link }).click();
    await page.getByRole('dialog').waitFor();
    await album.take(page, name);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  }
};

/** A server that requires each person’s own key, and the states of Dana’s key. */
async function ownKeys(
  { page, open, press, fill }: Parameters<Scene>[0]['dana'],
  { server }: Parameters<Scene>[0]['furnished'],
  album: Parameters<Scene>[0]['album'],
): Promise<void> {
  const [first, second] = ['first-key-of-dana-at-the-upstream', 'second-key-of-dana-there'];
  await using upstream = await keyedUpstream();
  upstream.keys.set(first, 'dana');
  await server.command(['server', 'create', 'acme/helpdesk', '--http-url', upstream.url]);
  await open('/servers/helpdesk/upstream');
  await page.getByLabel('Each person’s own key').check();
  await fill({
    'Name of the key': 'Personal access token',
    'Where people get it (optional)': 'https://tickets.example.com/settings/tokens',
    'Header of the key': 'X-Their-Key',
  });
  await album.take(page, 'upstream-key-form');
  await press('Save');
  await page.waitForURL('**/upstream?done=saved');
  await album.take(page, 'upstream-key-saved');
  await open('/servers/helpdesk/account');
  await album.take(page, 'own-key-none');
  await fill({ 'Personal access token': 'short' });
  await press('Try and save');
  await page.getByRole('alert').waitFor();
  await album.take(page, 'own-key-wrong');
  for (const key of [first, second]) {
    await fill({ 'Personal access token': key });
    await press('Try and save');
    await page.waitForURL('**/account?done=listed');
  }
  await album.take(page, 'own-key-unproved');
  await open('/servers/helpdesk/upstream');
  await fill({ 'Tool to try a key with (optional)': 'whoami' });
  await press('Save');
  await page.waitForURL('**/upstream?done=saved');
  await open('/servers/helpdesk/account');
  await press('Try it again');
  await page.getByText('The MCP server refuses this key').waitFor();
  await album.take(page, 'own-key-refused');
  await fill({ 'Personal access token': first });
  await press('Try and save');
  await page.waitForURL('**/account?done=proved');
  await album.take(page, 'own-key-proved');
  await page.locator('main a[data-question]').click();
  await page.getByRole('dialog').waitFor();
  await album.take(page, 'question-own-key');
  await open('/servers/helpdesk/upstream');
  await album.take(page, 'upstream-keys-of-people');
}
