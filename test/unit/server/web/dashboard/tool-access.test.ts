import { afterEach, beforeEach, expect, test } from 'vitest';

import { createKey } from '#server/admin/create-credentials';
import { insertGroup, insertGroupMember } from '#server/db/groups';
import { findServer, updateServer } from '#server/db/servers';
import { changeToolRules } from '#server/db/tool-rules';
import { accessRulesText } from '#server/model/tool-rights';
import { toolDefinition } from '#server/tools/definition';
import { newestEvents } from '#support/newest-events';
import { noteTools } from '#support/listed-tools';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const path = '/dashboard/acme/servers/sales/tools/access';

let app: PageApp;
let admin: SignedInBrowser;
beforeEach(async () => {
  app = await pageApp();
  const { db } = app.server.stores;
  admin = await app.browser('ada', { organizationId: 'org_acme', role: 'admin' });
  await app.browser('fay', { organizationId: 'org_acme', role: 'member' });
  for (const name of ['Finance', 'Support']) {
    const id = `group_${name.toLowerCase()}`;
    await insertGroup(db, { id, organizationId: 'org_acme', name, createdAt: 1 });
  }
  await insertGroupMember(db, 'org_acme', 'group_finance', 'fay');
  const listed = ['drop', 'refund', 'search'].flatMap((name) => toolDefinition({ name }) ?? []);
  await noteTools(db, 'target_sales', listed, app.server.clock.now());
  await changeToolRules(db, 'target_sales', {
    named: [
      { kind: 'tool', name: 'refund', audience: new Set(['group_finance']) },
      { kind: 'tool', name: 'search', audience: 'everyone' },
      { kind: 'prompt', name: 'summary', audience: 'everyone' },
    ],
  });
  await updateServer(db, 'srv_sales', { hiddenTools: ['drop'] });
});
afterEach(() => app[Symbol.asyncDispose]());

const rules = async () => {
  const server = await findServer(app.server.stores.db, 'acme', 'sales');
  return server?.target.rules ? JSON.parse(accessRulesText(server.target.rules) ?? '{}') : {};
};
/** The form that a browser sends of the matrix: rows whose key is in `boxes` with those boxes, the other rows as they are. */
const sent = (text: string, boxes: Readonly<Record<string, readonly string[]>>) => {
  const fields = new URLSearchParams({
    csrf_token: admin.csrfToken,
    seen: /name="seen" value="([^"]+)"/.exec(text)?.[1] ?? '',
  });
  for (const row of text.match(/<tr id="row-[^]*?<\/tr>/g) ?? []) {
    const [, place = '', key = ''] = /name="row\.(\d+)" value="([^"]+)"/.exec(row) ?? [];
    fields.set(`row.${place}`, key);
    const checked = [...row.matchAll(/name="(\d+\.[^"]+)" checked/g)].map(([, name = '']) => name);
    const wanted = boxes[key]?.map((box) => `${place}.${box}`) ?? checked;
    for (const name of wanted) fields.set(name, 'on');
  }
  return fields;
};
const post = async (fields: URLSearchParams, by: SignedInBrowser = admin, at = path) =>
  app.post({ path: at, cookie: by.cookie, body: fields.toString() });
const open = async (query = '') => (await app.get(path + query, admin.cookie)).text;
const rowOf = (text: string, key: string) =>
  (text.match(/<tr id="row-[^]*?<\/tr>/g) ?? []).find((row) => row.includes(`value="${key}"`)) ??
  '';

test('matrix: each tool has a box for everyone and for each group, checked as the rules are', async () => {
  const text = await open();

  expect(rowOf(text, 'tool:refund')).toMatch(/name="\d+\.group\.group_finance" checked/);
  expect(rowOf(text, 'tool:refund')).not.toMatch(/everyone" checked/);
  expect(rowOf(text, 'tool:search')).toMatch(/name="\d+\.everyone" checked/);
  expect(rowOf(text, 'tool:drop')).toContain('Hidden');
  expect(rowOf(text, 'tool')).toMatch(/New tools[^]*everyone" checked/);
  expect(text).toMatch(/Finance<\/span> <span class="soft">1 person/);
});

test('matrix: a change that takes something from someone is shown before it is saved', async () => {
  const { db } = app.server.stores;
  const made = { name: 'nightly', scopes: ['mcp:tools:execute'], expiresAt: undefined } as const;
  const owner = { type: 'server', serverId: 'srv_sales' } as const;
  await createKey({ ...made, owner }, { db, clock: app.server.clock });
  const fields = sent(await open(), { 'tool:search': ['group.group_support'] });
  const { status, text } = await post(fields);
  const before = await rules();
  fields.set('step', 'save');
  const answer = await post(fields);

  expect(status).toBe(200);
  expect(text).toMatch(
    /Lose access[^]*ada@example\.com[^]*fay@example\.com[^]*nightly[^]*Gain access/,
  );
  expect(before.named.tool.search).toBe('everyone');
  expect(answer.location).toBe(`${path}?done=saved`);
  expect((await rules()).named.tool).toEqual({
    refund: ['group_finance'],
    search: ['group_support'],
  });
});

test('matrix: going back from the preview keeps what was chosen, and saves nothing', async () => {
  const fields = sent(await open(), { 'tool:search': ['group.group_support'] });
  fields.set('step', 'edit');
  const { text } = await post(fields);

  expect(rowOf(text, 'tool:search')).toMatch(/group_support" checked/);
  expect((await rules()).named.tool.search).toBe('everyone');
});

test('matrix: a change that affects no one is saved at once', async () => {
  const fields = sent(await open(), { 'tool:drop': ['group.group_finance'] });
  const answer = await post(fields);

  expect(answer.location).toBe(`${path}?done=saved`);
  expect((await rules()).named.tool.drop).toEqual(['group_finance']);
});

test('matrix: no box at all is refused beside its row, and says how to take a tool from everyone', async () => {
  const { status, text } = await post(sent(await open(), { 'tool:search': [] }));

  expect(status).toBe(422);
  expect(rowOf(text, 'tool:search')).toContain('Choose Everyone or at least one group for search.');
  expect(text).toMatch(/href="#row-2">Choose Everyone/);
});

test('matrix: everyone and a group together are refused beside the row, and nothing is saved', async () => {
  const boxes = {
    'tool:search': ['everyone', 'group.group_support'],
    tool: ['everyone', 'group.group_finance', 'group.group_support'],
    'tool:drop': ['group.group_finance'],
  };
  const { status, text } = await post(sent(await open(), boxes));

  expect(status).toBe(422);
  expect(rowOf(text, 'tool:search')).toContain(
    'For search, Everyone and Support are both ticked. Untick Everyone to restrict the tool to Support.',
  );
  expect(rowOf(text, 'tool')).toContain(
    'For new tools, Everyone, Finance and Support are all ticked. Untick Everyone to restrict new tools to Finance and Support.',
  );
  expect(rowOf(text, 'tool:search')).toMatch(/everyone" checked[^]*group_support" checked/);
  expect((await rules()).named.tool.drop).toBeUndefined();
});

test('matrix: rules that someone else changed meanwhile are not overwritten', async () => {
  const fields = sent(await open(), { 'tool:search': ['group.group_support'] });
  await changeToolRules(app.server.stores.db, 'target_sales', {
    named: [{ kind: 'tool', name: 'search', audience: new Set(['group_finance']) }],
  });
  fields.set('step', 'save');
  const { status, text } = await post(fields);

  expect(status).toBe(422);
  expect(text).toContain('Someone changed the rules after you had opened this page.');
  expect((await rules()).named.tool.search).toEqual(['group_finance']);
});

test('matrix: rows and the default are changed by one operation, with an entry for each of them', async () => {
  const fields = sent(await open(), {
    tool: ['group.group_support'],
    'tool:search': ['group.group_finance'],
    'tool:refund': ['everyone'],
  });
  fields.set('step', 'save');
  const answer = await post(fields);
  const events = await newestEvents(app.server.stores.db, 4);

  expect(answer.location).toBe(`${path}?done=saved`);
  expect(await rules()).toMatchObject({
    others: { tool: ['group_support'] },
    named: { tool: { drop: 'everyone', refund: 'everyone', search: ['group_finance'] } },
  });
  expect(events.map(({ action, target }) => `${action} ${target}`).toSorted()).toEqual([
    'tool.change-rules server:acme/sales',
    'tool.open tool:acme/sales/refund',
    'tool.restrict group:group_finance tool:acme/sales/search',
    'tool.set-default group:group_support kind:tool server:acme/sales',
  ]);
});

test('matrix: the default is for what comes later, and what is known keeps its audience', async () => {
  const fields = sent(await open(), { tool: ['group.group_finance'] });
  fields.set('step', 'save');
  await post(fields);
  const { others, named } = await rules();

  expect(others).toEqual({ tool: ['group_finance'] });
  expect(named.tool.search).toBe('everyone');
});

test('matrix: a group without a column keeps what it may use', async () => {
  const { db } = app.server.stores;
  const many = Array.from({ length: 9 }, (_, place) => `group_${place}`);
  await Promise.all(
    many.map((id) => insertGroup(db, { id, organizationId: 'org_acme', name: id, createdAt: 1 })),
  );
  const text = await open();
  const shown = await open('?with=group_8');
  await changeToolRules(db, 'target_sales', {
    named: [{ kind: 'tool', name: 'search', audience: new Set(['group_support']) }],
  });

  expect(text).toContain('Show another group');
  expect(text).not.toContain('group.group_8"');
  expect(shown).toContain('group.group_8"');
});

test('matrix: a column is checked as a whole, and unchecked again, before anything is saved', async () => {
  const fields = sent(await open(), {});
  fields.set('step', 'fill:group_support');
  const filled = await post(fields);
  const again = sent(filled.text, {});
  again.set('step', 'fill:group_support');
  const emptied = await post(again);
  const opened = sent(filled.text, {});
  opened.set('step', 'fill:everyone');
  const forEveryone = await post(opened);

  expect(filled.text.match(/group_support" checked/g)).toHaveLength(3);
  expect(rowOf(filled.text, 'tool:search')).not.toMatch(/everyone" checked/);
  expect(emptied.text).not.toMatch(/group_support" checked/);
  expect(rowOf(forEveryone.text, 'tool:refund')).toMatch(/everyone" checked/);
  expect(forEveryone.text).not.toMatch(/group\.\w+" checked/);
  expect((await rules()).named.tool.search).toBe('everyone');
});

test('matrix: a resource gets a row by its URI', async () => {
  const uri = 'file:///reports/{name}';
  const text = await open(`?state=resource&add=${encodeURIComponent(uri)}`);
  const key = `template:${encodeURIComponent(uri)}`;
  const fields = sent(text, { [key]: ['group.group_finance'] });
  fields.set('step', 'save');
  await post(fields, admin, `${path}?state=resource`);

  expect(rowOf(text, key)).toContain('Template');
  expect((await rules()).named.template).toEqual({ [uri]: ['group_finance'] });
});

test('matrix: the list is filtered by name, and prompts have their own', async () => {
  const filtered = await open('?filter=REF');
  const prompts = await open('?state=prompt');

  expect([rowOf(filtered, 'tool:refund'), rowOf(filtered, 'tool:search')]).toEqual([
    expect.stringContaining('refund'),
    '',
  ]);
  expect(rowOf(prompts, 'prompt:summary')).toContain('summary');
});

test('matrix: members neither see nor change it', async () => {
  const mia = await app.browser('mia');
  const fields = sent(await open(), { 'tool:search': ['group.group_support'] });
  fields.set('csrf_token', mia.csrfToken);
  const [shown, changed] = [await app.get(path, mia.cookie), await post(fields, mia)];

  expect([shown.status, changed.status]).toEqual([403, 403]);
});
