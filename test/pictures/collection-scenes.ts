import { noteDefinitions } from '#server/db/note-definitions';
import { findServer, updateServer } from '#server/db/servers';
import { toolDefinition } from '#server/tools/definition';
import { mcpCall } from '#support/mcp-call';
import { longName } from './furnished-server.ts';
import type { Scene } from './scene.ts';

const subjects = ['account', 'contact', 'deal', 'invoice', 'meeting', 'quote', 'region', 'team'];
const verbs = ['archive', 'create', 'find', 'list', 'update'];

/** Collections: none yet, the choice and its running count, names that collide, what a person sees, and the questions. */
export const collectionScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press, fill } = dana;
  const { server, stores } = furnished;
  const sales = await findServer(stores.db, 'acme', 'sales');
  const definitions = subjects
    .flatMap((subject) => verbs.map((verb) => `${verb}_${subject}`))
    .flatMap((name) => {
      const inputSchema = {
        type: 'object',
        properties: { id: { type: 'string', description: `Of what the tool ${name} is about` } },
      };
      const description = `${name.replace('_', ' ')} of the customers. ${'Read before you write. '.repeat(25)}`;
      return toolDefinition({ name, description, inputSchema }) ?? [];
    });
  const noted = { kind: 'tool', definitions, isLast: true } as const;
  await noteDefinitions(stores.db, sales?.target.id ?? '', noted, Math.floor(Date.now() / 1000));
  await updateServer(stores.db, sales?.id ?? '', { title: 'Sales' });

  await open('/new-collection');
  await album.take(page, 'collection-form');
  await fill({ Name: 'Not A Slug' });
  await press('Create collection');
  await album.take(page, 'collection-form-wrong');
  await fill({ Name: 'desk', 'Title (optional)': 'Service desk' });
  for (const name of [/^Library/, /^Warehouse/, /^Sales/, 'tickets']) {
    await page.getByRole('checkbox', { name }).check();
  }
  await page.getByText(/has \d+ tools, about/).waitFor();
  await album.take(page, 'collection-form-count');
  await press('Create collection');
  await page.waitForURL('**/servers/desk/members?done=created');
  await album.take(page, 'collection-created');

  const made = await server.command(['key', 'create', 'acme/desk', '--name', 'desk', '--json']);
  await mcpCall(`${server.base}/mcp/acme/desk`, { key: String(JSON.parse(made).key) });
  await open('/servers/desk/members');
  await album.take(page, 'collection', { isTable: true });
  await page.getByLabel('E-mail of a member').fill('viola@example.com');
  await page.getByLabel('Assistant').selectOption('cursor');
  await press('Show');
  await album.take(page, 'collection-seen');
  await open('/servers/desk/members?as=nobody@example.com');
  await album.take(page, 'collection-seen-unknown');
  await page
    .getByRole('link', { name: /^Decide/ })
    .first()
    .click();
  await page.getByRole('button', { name: 'Save' }).waitFor();
  await album.take(page, 'collection-name');
  await page.getByLabel('Show it under another name').check();
  await fill({ 'Other name (optional)': 'not a name!' });
  await press('Save');
  await album.take(page, 'collection-name-wrong');

  await open('/servers/desk/members/sales/tools');
  await album.take(page, 'collection-tools');
  await page.getByLabel('Chosen tools').check();
  for (const verb of ['create', 'find', 'list', 'update']) {
    for (const subject of subjects) {
      await page.getByRole('checkbox', { name: `${verb}_${subject}` }).check();
    }
  }
  await page.getByText(/has 3\d tools, about/).waitFor();
  await album.take(page, 'collection-tools-count');
  await open('/servers/desk/members/library/remove');
  await album.take(page, 'question-collection-remove');
  for (const [name, path] of Object.entries({
    'collection-connect': '/servers/desk',
    'collection-settings': '/servers/desk/settings',
    'servers-with-collection': '/servers',
  })) {
    await open(path);
    await album.take(page, name);
  }
  await server.command(['server', 'update', 'acme/desk', '--title', longName]);
  await open('/servers/desk/members');
  await album.take(page, 'collection-long-title');
};
