import { expect, test } from 'vitest';

import { correctTool } from '#server/db/definitions';
import { insertGroup } from '#server/db/groups';
import { setServerAccess } from '#server/db/server-access';
import { findServer, updateServer } from '#server/db/servers';
import { changeToolRules } from '#server/db/tool-rules';
import { mostKnown } from '#server/db/offered';
import { noteTools } from '#support/listed-tools';
import { toolDefinition } from '#server/tools/definition';
import type { OfferedTool } from '#server/upstreams/inspect';
import { pageApp } from '#support/page-app';

const tool = (name: string, rest: Partial<OfferedTool> = {}): OfferedTool => ({
  name,
  description: '',
  inputSchema: {},
  isReadOnly: false,
  digest: '',
  text: '',
  ...rest,
});
const offering = (...tools: OfferedTool[]) =>
  ({ outcome: 'connected', protocolVersion: '2025-11-25', tools }) as const;
const path = '/dashboard/acme/servers/sales/tools';
const rowOf = (html: string, name: string) =>
  new RegExp(`<li id="tool-\\d+">(?:(?!<li)[^])*?<code dir="auto">${name}</code>[^]*?</li>`).exec(
    html,
  )?.[0] ?? '';

test('tools page: each tool has its description, its arguments, and whether it only reads', async () => {
  await using app = await pageApp();
  const inputSchema = {
    properties: {
      text: { type: 'string', description: 'What to look for' },
      limit: { type: 'integer' },
    },
    required: ['text'],
  };
  app.upstreams.inspection = offering(
    tool('search', { description: 'Finds books.', inputSchema, isReadOnly: true }),
    tool('drop'),
  );
  const { cookie } = await app.browser('user_mia');
  const { text } = await app.get(path, cookie);

  for (const part of [
    'Finds books.',
    'Read-only',
    '2 arguments',
    'What to look for',
    'integer, optional',
  ]) {
    expect(rowOf(text, 'search')).toContain(part);
  }
  expect(rowOf(text, 'drop')).toMatch(/Unknown[^]*No arguments/);
  expect(text).not.toContain('role="switch"');
});

test('tools page: a tool is hidden and shown again, and the others stay as they were', async () => {
  await using app = await pageApp();
  const { db } = app.server.stores;
  await updateServer(db, 'srv_sales', { hiddenTools: ['gone'] });
  app.upstreams.inspection = offering(tool('drop'), tool('search'));
  const { cookie, csrfToken } = await app.browser('user_ada', {
    organizationId: 'org_acme',
    role: 'admin',
  });
  const change = (name: string, hidden: boolean) => {
    const fields = { csrf_token: csrfToken, name, hidden: String(hidden) };
    const body = new URLSearchParams(fields).toString();
    return app.post({ path: `${path}/visibility`, cookie, body });
  };
  const hidden = async () => (await findServer(db, 'acme', 'sales'))?.target.hiddenTools;
  const answer = await change('drop', true);
  const first = await hidden();
  const { text } = await app.get(path, cookie);
  await change('gone', false);

  expect(answer.location).toBe(`${path}?done=hidden`);
  expect(first).toEqual(['gone', 'drop']);
  expect(rowOf(text, 'drop')).toMatch(/>Hidden<[^]*aria-checked="false"/);
  expect(rowOf(text, 'search')).toContain('aria-checked="true"');
  expect(rowOf(text, 'gone')).toContain('No longer listed');
  expect(await hidden()).toEqual(['drop']);
});

test('tools page: a member may not hide a tool', async () => {
  await using app = await pageApp();
  const { cookie, csrfToken } = await app.browser('user_mia');
  const body = new URLSearchParams({ csrf_token: csrfToken, name: 'drop', hidden: 'true' });
  const answer = await app.post({ path: `${path}/visibility`, cookie, body: body.toString() });

  expect(answer.status).toBe(403);
  expect((await findServer(app.server.stores.db, 'acme', 'sales'))?.target.hiddenTools).toEqual([]);
});

test('tools page: without an answer it shows what was seen last, and the reason to administrators', async () => {
  await using app = await pageApp();
  const { stores, clock } = app.server;
  const seen = toolDefinition({ name: 'search', description: 'Finds books.' });
  await noteTools(stores.db, 'target_sales', seen ? [seen] : [], clock.now());
  app.upstreams.inspection = { outcome: 'offline', reason: 'Connection refused at 10.0.0.5.' };
  const ada = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const mia = await app.browser('user_mia');
  const [admin, member] = [await app.get(path, ada.cookie), await app.get(path, mia.cookie)];

  expect(rowOf(admin.text, 'search')).toContain('Finds books.');
  expect(admin.text).toContain(
    'could not be loaded. Connection refused at 10.0.0.5. The tools below were seen last',
  );
  expect(member.text).toContain('could not be loaded. The tools below were seen last');
});

test.each([
  ['is kept for a minute', 1000, 1],
  ['that is very long is not kept', 17 * 1024 * 1024, 2],
])('107: tools page: a list %s', async (_, length, expected) => {
  await using app = await pageApp();
  let asked = 0;
  Object.defineProperty(app.upstreams, 'inspection', {
    get() {
      asked += 1;
      return offering(tool('search', { inputSchema: { description: 'x'.repeat(length) } }));
    },
  });
  const { cookie } = await app.browser('user_mia');
  await app.get(path, cookie);
  const { status } = await app.get(path, cookie);

  expect([status, asked]).toEqual([200, expected]);
});

test('tools page: the upstream is asked once a minute, and not for people outside the groups of the server', async () => {
  await using app = await pageApp();
  const { db } = app.server.stores;
  let asked = 0;
  const found = offering(tool('lookup'));
  Object.defineProperty(app.upstreams, 'inspection', {
    get() {
      asked += 1;
      return found;
    },
  });
  const mia = await app.browser('user_mia');
  await app.get(path, mia.cookie);
  await app.get(path, mia.cookie);
  const inOneMinute = asked;
  await app.server.clock.advance(61);
  await app.get(path, mia.cookie);
  await insertGroup(db, { id: 'group_a', organizationId: 'org_acme', name: 'a', createdAt: 1 });
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: ['group_a'] });
  await app.server.clock.advance(61);
  const { text } = await app.get(path, mia.cookie);

  expect([inOneMinute, asked]).toEqual([1, 2]);
  expect(text).not.toContain('lookup');
});

test('tools page: it says so if a server has as many tools as can be compared', async () => {
  await using app = await pageApp();
  const { stores, clock } = app.server;
  const many = Array.from(
    { length: mostKnown },
    (_, n) => toolDefinition({ name: `t${n}` }) ?? [],
  ).flat();
  const { cookie } = await app.browser('user_mia');
  await noteTools(stores.db, 'target_sales', many.slice(1), clock.now());
  const { text: before } = await app.get(path, cookie);
  await noteTools(stores.db, 'target_sales', many, clock.now());
  const { text } = await app.get(path, cookie);

  expect(before).not.toContain('as many as Latchkey can compare');
  expect(text).toContain('This server has listed 10,000 tools, as many as Latchkey can compare.');
});

test('tools page: each tool says what it does as assistants see it, and an unannotated one is unknown', async () => {
  await using app = await pageApp();
  const { db } = app.server.stores;
  const annotated = {
    reads: { readOnlyHint: true },
    writes: { readOnlyHint: false, destructiveHint: false },
    deletes: { destructiveHint: true },
    says_nothing: {},
    corrected: { readOnlyHint: true },
  };
  const listed = Object.entries(annotated).flatMap(
    ([name, annotations]) => toolDefinition({ name, annotations }) ?? [],
  );
  await noteTools(db, 'target_sales', listed, app.server.clock.now());
  const decision = { by: 'user:user_ada', at: app.server.clock.now() };
  const correction = { annotations: { readOnlyHint: false, destructiveHint: true } };
  await correctTool(db, 'target_sales', 'corrected', correction, decision);
  app.upstreams.inspection = offering(...Object.keys(annotated).map((name) => tool(name)));
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const { text } = await app.get(path, cookie);

  expect(rowOf(text, 'reads')).toContain('>Read-only<');
  expect(rowOf(text, 'writes')).toContain('>Writes<');
  expect(rowOf(text, 'deletes')).toContain('>Destructive<');
  expect(rowOf(text, 'says_nothing')).toContain('>Unknown<');
  expect(rowOf(text, 'corrected')).toMatch(/>Destructive<[^]*>Corrected</);
});

test('tools page: a member sees only what they can use, an administrator everything', async () => {
  await using app = await pageApp();
  const { db } = app.server.stores;
  const listed = ['refund', 'search'].flatMap((name) => toolDefinition({ name }) ?? []);
  await noteTools(db, 'target_sales', listed, app.server.clock.now());
  await insertGroup(db, {
    id: 'group_a',
    organizationId: 'org_acme',
    name: 'Finance',
    createdAt: 1,
  });
  await changeToolRules(db, 'target_sales', {
    named: [{ kind: 'tool', name: 'refund', audience: new Set(['group_a']) }],
  });
  app.upstreams.inspection = offering(tool('refund'), tool('search'));
  const mia = await app.browser('user_mia');
  const ada = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const [member, admin] = [await app.get(path, mia.cookie), await app.get(path, ada.cookie)];
  const own = await app.get(`${path}/one?name=refund`, mia.cookie);

  expect(member.text).toContain('search');
  expect(member.text).not.toMatch(/refund|Finance/);
  expect(own.status).toBe(404);
  expect(rowOf(admin.text, 'refund')).toContain('Who can use it: <span dir="auto">Finance</span>');
});

test('tools page: it is filtered by name and by what administrators decided', async () => {
  await using app = await pageApp();
  const { db } = app.server.stores;
  const names = Array.from({ length: 60 }, (_, place) => `tool-${place}`);
  const listed = names.flatMap((name) => toolDefinition({ name }) ?? []);
  await noteTools(db, 'target_sales', listed, app.server.clock.now());
  await updateServer(db, 'srv_sales', { hiddenTools: ['tool-7'] });
  app.upstreams.inspection = offering(...names.map((name) => tool(name)));
  const { cookie } = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const namesOn = async (query: string) =>
    [...(await app.get(path + query, cookie)).text.matchAll(/<code dir="auto">(tool-\d+)</g)].map(
      ([, name]) => name,
    );

  expect((await namesOn('')).length).toBe(50);
  expect((await namesOn('?page=2')).length).toBe(10);
  expect(await namesOn('?filter=OOL-59')).toEqual(['tool-59']);
  expect(await namesOn('?state=hidden')).toEqual(['tool-7']);
});

test('tools page: the policies for what is new and for what changes are saved together', async () => {
  await using app = await pageApp();
  const { cookie, csrfToken } = await app.browser('user_ada', {
    organizationId: 'org_acme',
    role: 'admin',
  });
  const fields = { csrf_token: csrfToken, newTools: 'review', changedTools: 'withhold' };
  const body = new URLSearchParams(fields).toString();
  const answer = await app.post({ path: `${path}/rule`, cookie, body });
  const { text } = await app.get(path, cookie);
  const server = await findServer(app.server.stores.db, 'acme', 'sales');

  expect(answer.location).toBe(`${path}?done=saved`);
  expect(server?.target).toMatchObject({ newTools: 'review', changedTools: 'withhold' });
  expect(text).toMatch(/id="newTools-review" [^>]*checked/);
});
