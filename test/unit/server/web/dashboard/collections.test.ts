import { afterAll, beforeAll, expect, test } from 'vitest';

import { noteNames } from '#server/db/collections';
import { insertOrganization } from '#server/db/organizations';
import { setServerAccess } from '#server/db/server-access';
import { findServer } from '#server/db/servers';
import type { PrimitiveKind } from '#server/model/tool-rights';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const acme = '/dashboard/acme';
const home = `${acme}/servers/work`;

let app: PageApp;
let owner: SignedInBrowser;
let viewer: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  viewer = await app.browser('vera', { organizationId: 'org_acme', role: 'viewer' });
  for (const name of ['sales', 'support', 'hr']) {
    await post(`${acme}/new-server`, { name, kind: 'demo' });
  }
});
afterAll(() => app[Symbol.asyncDispose]());

const post = (path: string, typed: Record<string, string> = {}) => {
  const fields = { csrf_token: owner.csrfToken, ...typed };
  return app.post({ path, cookie: owner.cookie, body: new URLSearchParams(fields).toString() });
};
const get = async (path: string, { cookie } = owner) => (await app.get(path, cookie)).text;

/** Notes that the members have listed tools with these names. */
async function listed(of: Readonly<Record<string, readonly string[]>>): Promise<void> {
  const { db } = app.server.stores;
  const idOf = async (name: string) => (await findServer(db, 'acme', name))?.id ?? '';
  const lists = await Promise.all(
    Object.entries(of).map(async ([name, names]) => {
      return { kind: 'tool' as PrimitiveKind, member: await idOf(name), names };
    }),
  );
  await noteNames(db, await idOf('work'), { lists, withApps: [] }, 1);
}

test('new collection: servers are chosen, and what is missing or taken is said', async () => {
  const nothing = await post(`${acme}/new-collection`, { name: 'my work' });
  const counted = await post(`${acme}/new-collection`, {
    count: '1',
    'members.sales': 'sales',
    'members.support': 'support',
  });
  const taken = await post(`${acme}/new-collection`, { name: 'sales', 'members.sales': 'sales' });
  const made = await post(`${acme}/new-collection`, {
    name: 'work',
    title: 'Everyday work',
    'members.sales': 'sales',
    'members.support': 'support',
  });

  expect(nothing.text).toContain('Choose at least one server.');
  expect(nothing.text).toContain('The name must be lower-case letters, digits and hyphens');
  expect(counted.text).toContain(
    'sales and support have not listed their tools yet, so they are not counted.',
  );
  expect(taken.text).toContain('already exists');
  expect(taken.text).toMatch(/id="members-sales"[^>]* checked/);
  expect(made.location).toBe(`${home}/members?done=created`);
  const members = await get(`${home}/members`);
  expect(members).toContain('Everyday work');
  expect(members).toContain(`href="${home}/tools">Open Tools to list them now</a>`);
});

test('members: a name that another server has waits until it is renamed, and a viewer only reads', async () => {
  await listed({ sales: ['search'], support: ['search', 'reply'] });
  const before = await get(`${home}/members`);
  const path = `${home}/name?${new URLSearchParams({ kind: 'tool', server: 'support', name: 'search' }).toString()}`;
  const undecided = await post(path);
  const refused = await post(path, { decision: 'rename', as: 'search tickets' });
  const clash = await post(path, { decision: 'rename', as: 'reply' });
  const renamed = await post(path, { decision: 'rename', as: 'search_tickets' });
  const after = await get(`${home}/members`);

  expect(before).toContain('Waiting for a decision');
  expect(before).toContain('>Callers see 2 tools.<');
  expect(undecided.text).toContain('Choose what becomes of the name.');
  expect(refused.text).toContain('The new name must be 1 to 64 letters');
  expect(clash.text).toContain('belongs to support: reply');
  expect(renamed.location).toBe(`${home}/members?done=saved`);
  expect(after).not.toContain('Waiting for a decision');
  expect(after).toContain('search_tickets');
  expect(await get(path)).toMatch(/id="decision-rename"[^>]* checked/);
  expect(await get(`${home}/members`, viewer)).not.toContain('Add a server');
});

test('members: the page says what a person sees, and not to viewers', async () => {
  await app.browser('mona', { organizationId: 'org_acme', role: 'member' });
  const { db } = app.server.stores;
  await insertOrganization(db, { id: 'org_globex', name: 'globex', createdAt: 1 });
  await app.browser('zoe', { organizationId: 'org_globex', role: 'owner' });
  const sales = await findServer(db, 'acme', 'sales');
  await db
    .updateTable('target')
    .set({ hidden_tools: '["search"]' })
    .where('endpoint_id', '=', sales?.id ?? '')
    .execute();
  const seenBy = (as: string, by = owner) =>
    get(`${home}/members?${new URLSearchParams({ as, assistant: 'cursor' }).toString()}`, by);

  const seen = await seenBy('mona@example.com');

  expect(seen).toContain('mona@example.com sees 2 tools. Cursor shows up to 40.');
  expect(seen).toContain('Not shown: search.');
  const unknown = 'No member of this organization has this address.';
  expect(await seenBy('zoe@example.com')).toContain(unknown);
  expect(await seenBy('nobody@example.com')).toContain(unknown);
  expect(await seenBy('mona@example.com', viewer)).not.toContain('mona@example.com');
});

test('members: what is chosen is counted before it is saved', async () => {
  const { db } = app.server.stores;
  const work = await findServer(db, 'acme', 'work');
  const path = `${home}/members/support/tools`;
  const before = await get(path);
  const chosen = { tools: 'chosen', 'tools-tool': 'reply\nescalate' };
  const counted = await post(path, { ...chosen, count: '1' });
  const ofOthers = { 'tools-prompt': 'summary', 'tools-resource': 'notes://a', count: '1' };
  const prompted = await post(path, { tools: 'chosen', ...ofOthers });
  const created = await post(`${acme}/new-collection`, {
    name: 'other',
    'members.sales': 'sales',
    count: '1',
  });

  expect(before).toMatch(/With this choice, the collection has \d+ tools?/);
  // The two that were entered; the one of sales is hidden there.
  expect(counted.text).toContain('With this choice, the collection has 2 tools. Cursor shows 40,');
  expect(counted.text).toContain('escalate');
  expect(prompted.text).toContain('With this choice, the collection has 0 tools.');
  expect(prompted.text).toContain('notes://a');
  expect((await findServer(db, 'acme', 'work'))?.target).toEqual(work?.target);
  expect(created.text).toMatch(/id="members-sales"[^>]* checked/);
  expect(await findServer(db, 'acme', 'other')).toBeUndefined();
});

test('members: tools that nobody gets are not counted', async () => {
  const { db } = app.server.stores;
  const path = `${home}/members/support/tools`;
  const countOf = async (names: string) => {
    const { text } = await post(path, { tools: 'chosen', 'tools-tool': names, count: '1' });
    return /the collection has (\d+) tools?/.exec(text)?.[1];
  };
  const change = async (name: string, columns: object) => {
    const server = await findServer(db, 'acme', name);
    await db
      .updateTable('target')
      .set(columns)
      .where('endpoint_id', '=', server?.id ?? '')
      .execute();
  };

  expect(await countOf('reply\nescalate')).toBe('2');
  // The first tool is hidden at the collection, under its name there; the second one is new at its server and waits for a review.
  await change('work', { hidden_tools: '["reply"]' });
  expect(await countOf('reply\nescalate')).toBe('1');
  expect(await get(`${home}/members`)).toContain('>Callers see 1 tool.<');
  await change('support', { offered: '{"withheld":{"tool":["escalate"]}}' });
  expect(await countOf('reply\nescalate')).toBe('0');
  await change('work', { hidden_tools: '[]' });
  await change('support', { offered: '{}' });
});

test('members: a server is added, limited to chosen tools, and removed', async () => {
  const unchosen = await post(`${home}/members`, { server: '' });
  const added = await post(`${home}/members`, { server: 'hr' });
  const again = await post(`${home}/members`, { server: 'hr' });
  await post(`${home}/members/hr/tools`, { tools: 'chosen', 'tools-tool': 'payslip' });
  const limited = await get(`${home}/members`);
  const removed = await post(`${home}/members/hr/remove`);

  expect(unchosen.text).toContain('Choose the server.');
  expect(added.location).toBe(`${home}/members?done=added`);
  expect(again.text).toContain('The collection already has the server hr.');
  expect(limited).toContain('Only 1 tool');
  expect(removed.location).toBe(`${home}/members?done=removed`);
  expect(await get(`${home}/members`)).not.toContain('Only 1 tool');
});

test('members: only a collection has them, and it has no upstream of its own', async () => {
  const tabs = await get(home);
  const settings = await get(`${home}/settings`);
  const saved = await post(`${home}/settings`, { kind: 'collection', title: 'Work', revision: '' });

  expect(tabs).toContain(`href="${home}/members"`);
  expect(tabs).not.toContain(`href="${home}/upstream"`);
  expect(settings).not.toContain('<legend>Upstream</legend>');
  expect(saved.status).toBe(303);
  expect(await get(`${acme}/servers/sales`)).not.toContain('/members"');
  expect((await app.get(`${acme}/servers/sales/members`, owner.cookie)).status).toBe(404);
});

test('members: a viewer outside the groups of the collection reads that it is closed, an owner its members', async () => {
  const { db } = app.server.stores;
  const id = (await findServer(db, 'acme', 'work'))?.id ?? '';
  const open = await get(`${home}/members`, viewer);
  await setServerAccess(db, id, { access: 'groups', groupIds: [] });
  const closed = await get(`${home}/members`, viewer);
  const managed = await get(`${home}/members`);

  const words = 'You cannot use this server: it is restricted to groups that you are not in.';
  expect([open, closed, managed].map((text) => text.includes(words))).toEqual([false, true, false]);
  expect(closed).not.toContain('names under which callers see their tools');
  expect(closed).not.toContain(`href="${home}/members"`);
  expect(managed).toContain(`href="${home}/members"`);
});
