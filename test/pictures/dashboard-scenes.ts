import type { Scene } from './scene.ts';
import { longName } from './furnished-server.ts';

const servers = '/servers/library';

/** Every page of the dashboard that only shows something or asks for something. */
export const dashboardScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press, fill } = dana;
  const { clientId, keyId } = furnished;
  const tables = {
    overview: '',
    servers: '/servers',
    keys: `${servers}/keys`,
    clients: `${servers}/clients`,
    agents: '/agents',
    people: '/people',
    audit: '/audit',
    consents: '/consents',
    'organization-clients': '/clients',
    applications: '/applications',
    usage: '/usage?by=tool',
  };
  for (const [name, path] of Object.entries(tables)) {
    await open(path);
    const between = name === 'audit' ? [560, 700, 1000, 1100] : [];
    await album.take(page, name, { isTable: true, between });
  }
  const pages = {
    server: servers,
    'server-agent': '/servers/sales',
    'server-form': '/new-server',
    'server-settings': `${servers}/settings`,
    'server-access': `${servers}/access`,
    'server-tools': '/servers/tickets/tools',
    'server-tools-demo': `${servers}/tools`,
    'server-http': '/servers/tickets',
    'server-long-title': '/servers/warehouse',
    'server-long-title-settings': '/servers/warehouse/settings',
    'keys-none': '/servers/warehouse/keys',
    'keys-filter-none': `${servers}/keys?filter=nobody`,
    'key-form': `${servers}/new-key`,
    key: `${servers}/keys/${keyId}`,
    'key-rotate': `${servers}/keys/${keyId}/rotate`,
    client: `${servers}/clients/${clientId}`,
    'client-form': `${servers}/new-client`,
    'organization-client-form': '/clients/new',
    'workload-form': '/clients/new-workload',
    'client-rotate': `${servers}/clients/${clientId}/rotate`,
    'clients-none': '/servers/warehouse/clients',
    agent: '/agents/copenhagen',
    'agent-offline': '/agents/berlin',
    'agent-form': '/new-agent',
    'agent-rotate': '/agents/berlin/rotate',
    groups: '/groups',
    invite: '/people/invite',
    'invite-several': '/people/invite-several',
    invitations: '/people/invitations',
    'usage-server': '/usage?by=server&range=1h',
    'usage-key': `/usage?by=key&of=${keyId}`,
    'audit-filter-none': '/audit?actor=nobody@example.com&outcome=refused',
    'audit-unknown-action': '/audit?action=key.creat',
    'single-sign-on-off': '/single-sign-on',
    'sign-in-settings': '/sign-in',
    'sign-in-new-provider': '/sign-in/new-provider',
    settings: '/settings',
    notices: '/settings/notices',
    mail: '/settings/mail',
    search: '/search?q=li',
    'search-none': '/search?q=nothing+of+that+name',
    'your-servers': '/my-servers',
  };
  for (const [name, path] of Object.entries(pages)) {
    await open(path);
    await album.take(page, name);
  }
  await page.goto(`${furnished.server.base}/outbound`);
  await album.take(page, 'outbound');
  await page.getByRole('textbox', { name: 'Host or range' }).fill('169.254.169.254');
  await press('Allow');
  await album.take(page, 'outbound-wrong');
  await open('');
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').getByRole('searchbox').fill('library');
  await page.getByRole('dialog').getByRole('link').first().waitFor();
  await album.take(page, 'search-open');
  await page.keyboard.press('Escape');
  await page.getByText('Organization', { exact: true }).click();
  await album.take(page, 'switcher-open');
  await open(`${servers}/new-key`);
  await page.getByLabel('Expires', { exact: true }).selectOption('date');
  await album.take(page, 'key-form-date');
  await open('/groups');
  await page.getByRole('link', { name: 'Finance' }).click();
  await album.take(page, 'group');
  await open('/people');
  await page.getByRole('link', { name: 'viola@example.com' }).click();
  await album.take(page, 'person');

  await open(`${servers}/access`);
  await page.getByLabel('Only members of these groups').check();
  await press('Save');
  await album.take(page, 'server-access-wrong');
  await page.getByLabel('Finance').check();
  await press('Save');
  await album.take(page, 'server-access-review');

  await open('/new-server');
  await fill({ Name: 'Not A Slug' });
  await press('Create server');
  await album.take(page, 'server-form-wrong');
  await open('/new-server');
  await fill({ Name: 'crm', 'URL of the HTTP server': 'http://10.0.0.5:3000/mcp' });
  await press('Create server');
  await album.take(page, 'server-form-private');
  await fill({ 'URL of the HTTP server': 'http://127.0.0.1:9/mcp' });
  await press('Create server');
  await album.take(page, 'server-form-failed');
  await fill({ 'URL of the HTTP server': furnished.upstreamUrl });
  await press('Test connection');
  await album.take(page, 'server-form-tested');
  await open(`${servers}/new-client`);
  await fill({ Name: longName });
  await page
    .getByLabel(/Redirect/)
    .first()
    .fill('javascript:alert(1)');
  await page.locator('main form button.primary').click();
  await album.take(page, 'client-form-wrong');
};
