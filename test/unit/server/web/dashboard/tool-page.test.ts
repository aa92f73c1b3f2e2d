import { afterEach, beforeEach, expect, test } from 'vitest';

import { toolDefinition } from '#server/tools/definition';
import { listToolDefinitions, noteTools } from '#support/listed-tools';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const path = '/dashboard/acme/servers/sales/tools/one?name=search';

let app: PageApp;
let admin: SignedInBrowser;
beforeEach(async () => {
  app = await pageApp();
  admin = await app.browser('ada', { organizationId: 'org_acme', role: 'admin' });
  const { stores, clock } = app.server;
  const tool = {
    name: 'search',
    title: 'Search',
    description: 'Finds\u200b books.',
    annotations: { readOnlyHint: true },
  };
  const listed = toolDefinition(tool);
  await noteTools(stores.db, 'target_sales', listed ? [listed] : [], clock.now());
});
afterEach(() => app[Symbol.asyncDispose]());

const open = async () => (await app.get(path, admin.cookie)).text;
const save = (typed: Readonly<Record<string, string>>, by = admin) => {
  const body = new URLSearchParams({ csrf_token: by.csrfToken, ...typed }).toString();
  return app.post({ path, cookie: by.cookie, body });
};
const correction = async () => {
  const [tool] = await listToolDefinitions(app.server.stores.db, 'target_sales');
  return tool?.correction?.correction;
};

test('tool page: it shows what the server says beside what assistants see', async () => {
  const text = await open();

  expect(text).toMatch(/id="title"[^]*The server says<\/p>\s*<p dir="auto">Search<\/p>/);
  expect(text).toContain('Finds<mark class="revealed">U+200B</mark> books.');
  expect(text).toMatch(/id="readOnly"[^]*<p dir="auto">Yes<\/p>[^]*id="destructive"[^]*>Nothing</);
});

test('tool page: a correction is saved, shown again, and removed', async () => {
  const typed = { title: 'Find', description: 'Two\r\nlines', readOnly: '', destructive: 'true' };
  const answer = await save(typed);
  const saved = await correction();
  const text = await open();
  await save({ ...typed, step: 'remove' });

  expect(answer.location).toBe(`${path}&done=corrected`);
  expect(saved).toEqual({
    title: 'Find',
    description: 'Two\nlines',
    annotations: { destructiveHint: true },
  });
  expect(text).toMatch(/<dt>Corrected by<\/dt>\s*<dd><span dir="auto">ada@example\.com/);
  expect(text).toMatch(/<select id="destructive"[^]*?<option value="true" selected>/);
  expect(await correction()).toBeUndefined();
});

test('tool page: a title that is too long is refused beside its field, and stays', async () => {
  const title = 'x'.repeat(201);
  const { status, text } = await save({ title, readOnly: 'false' });

  expect(status).toBe(422);
  expect(text).toContain('<a href="#title">The title');
  expect(text).toContain(`value="${title}"`);
  expect(text).toMatch(/<select id="readOnly"[^]*?<option value="false" selected>/);
  expect(await correction()).toBeUndefined();
});

test('tool page: a member sees it without anything to change, and may not correct it', async () => {
  const mia = await app.browser('mia');
  const { text } = await app.get(path, mia.cookie);
  const { status } = await save({ title: 'Find' }, mia);

  expect(text).toContain('What the server says');
  expect(text).not.toMatch(/Save correction|role="switch"|Who can use it/);
  expect(status).toBe(403);
});

test('tool page: a tool that is not known is not found', async () => {
  const unknown = path.replace('search', 'constructor');
  const { status } = await app.get(unknown, admin.cookie);

  expect(status).toBe(404);
});
