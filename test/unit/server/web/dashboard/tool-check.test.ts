import { afterAll, beforeAll, expect, test } from 'vitest';

import { createKey } from '#server/admin/create-credentials';
import { insertGroup, insertGroupMember } from '#server/db/groups';
import { setKeyTools } from '#server/db/keys';
import { setServerAccess } from '#server/db/server-access';
import { updateServer } from '#server/db/servers';
import { changeToolRules } from '#server/db/tool-rules';
import { toolDefinition } from '#server/tools/definition';
import { noteTools } from '#support/listed-tools';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const path = '/dashboard/acme/servers/sales/tools/check';

let app: PageApp;
let admin: SignedInBrowser;
let keyId: string;
beforeAll(async () => {
  app = await pageApp();
  const { stores, clock } = app.server;
  const { db } = stores;
  admin = await app.browser('ada', { organizationId: 'org_acme', role: 'admin' });
  await app.browser('fay', { organizationId: 'org_acme', role: 'member' });
  await app.browser('mel', { organizationId: 'org_acme', role: 'member' });
  await insertGroup(db, {
    id: 'group_a',
    organizationId: 'org_acme',
    name: 'Finance',
    createdAt: 1,
  });
  await insertGroupMember(db, 'org_acme', 'group_a', 'fay');
  const listed = ['drop', 'refund', 'search'].flatMap((name) => toolDefinition({ name }) ?? []);
  await noteTools(db, 'target_sales', listed, clock.now());
  await changeToolRules(db, 'target_sales', {
    named: [{ kind: 'tool', name: 'refund', audience: new Set(['group_a']) }],
  });
  await updateServer(db, 'srv_sales', { hiddenTools: ['drop'] });
  const made = { name: 'nightly', scopes: ['mcp:tools:execute'], expiresAt: undefined } as const;
  const owner = { type: 'server', serverId: 'srv_sales' } as const;
  keyId = (await createKey({ ...made, owner }, { db, clock })).id;
});
afterAll(() => app[Symbol.asyncDispose]());

const check = (who: string, query = '') =>
  app.get(`${path}?who=${encodeURIComponent(who)}${query}`, admin.cookie);
const lineOf = (text: string, name: string) =>
  new RegExp(`<li>(?:(?!<li)[^])*?<code dir="auto">${name}</code>[^]*?</li>`).exec(text)?.[0] ?? '';

test('check: a person outside the group of a tool is told which group it is restricted to', async () => {
  const { text } = await check('mel@example.com');

  expect(text).toContain('can use 1 of 3 tools');
  expect(lineOf(text, 'refund')).toMatch(
    /Restricted to Finance, and this person is in none of these groups\. <a href="[^"]*\/tools\/access\?filter=refund"[^]*>Refused</,
  );
  expect(lineOf(text, 'search')).toMatch(/Everyone who can use the server[^]*>Allowed</);
  expect(lineOf(text, 'drop')).toMatch(/Hidden from everyone\.[^]*>Refused</);
});

test('check: a member of the group may use it', async () => {
  const { text } = await check('fay@example.com');

  expect(lineOf(text, 'refund')).toMatch(
    /Restricted to Finance, and this person is a member\.[^]*>Allowed</,
  );
});

test('check: a key acts for no person, by its id and by its name', async () => {
  const [byId, byName] = [await check(keyId), await check('nightly')];

  expect(lineOf(byId.text, 'refund')).toMatch(
    new RegExp(`this API key acts for no person[^]*href="[^"]*/keys/${keyId}"[^]*>Refused<`),
  );
  expect(lineOf(byName.text, 'refund')).toBe(lineOf(byId.text, 'refund'));
});

test('check: what a key is limited to is a reason', async () => {
  const { db } = app.server.stores;
  await setKeyTools(db, keyId, { type: 'read-only' });
  const reading = await check(keyId);
  await setKeyTools(db, keyId, { type: 'chosen', tools: ['refund'], prompts: [], resources: [] });
  const chosen = await check(keyId);
  await setKeyTools(db, keyId, { type: 'all' });

  expect(lineOf(reading.text, 'search')).toContain('is limited to tools that read');
  expect(lineOf(chosen.text, 'search')).toContain('is limited to other tools');
  expect(lineOf(chosen.text, 'refund')).toMatch(/chosen by name for this API key[^]*>Allowed</);
});

test('check: a person whom the server does not let in is told that first', async () => {
  const { db } = app.server.stores;
  await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: ['group_a'] });
  const { text } = await check('mel@example.com');
  await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });

  expect(text).toMatch(
    /cannot use this server at all\. The server is restricted to groups[^]*\/sales\/access"/,
  );
});

test('check: the list is filtered, and its pages keep whom they are about', async () => {
  const { text } = await check('mel@example.com', '&state=refused&filter=re');

  expect(lineOf(text, 'refund')).not.toBe('');
  expect(lineOf(text, 'search')).toBe('');
  expect(text).toContain('<input type="hidden" name="who" value="mel@example.com">');
});

test.each([['nobody@example.com'], ['no such key'], ['key_000'], ['grant_000']])(
  'check: %s is not found, and the page says what can be entered',
  async (who) => {
    const { status, text } = await check(who);

    expect(status).toBe(422);
    expect(text).toContain(
      'No member has this e-mail address, and no key or client of this server',
    );
  },
);

test('check: members may not look at what others can use', async () => {
  const mia = await app.browser('mia');
  const { status } = await app.get(`${path}?who=fay@example.com`, mia.cookie);

  expect(status).toBe(403);
});
