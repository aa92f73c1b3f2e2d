import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { listOutboundHosts } from '#server/db/outbound-hosts';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

let app: PageApp;
let operator: SignedInBrowser;
let owner: SignedInBrowser;

/** Olga owns both organizations, and Otto one of them. */
beforeAll(async () => {
  app = await pageApp();
  const { db } = app.server.stores;
  await insertOrganization(db, { id: 'org_other', name: 'other', createdAt: 1 });
  operator = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  owner = await app.browser('otto', { organizationId: 'org_acme', role: 'owner' });
  const olga = { id: 'olga', email: 'olga@example.com', createdAt: 1 };
  await insertUser(db, olga, { organizationId: 'org_other', role: 'owner' });
});
afterAll(() => app[Symbol.asyncDispose]());

const send = (
  path: string,
  fields: Record<string, string>,
  { cookie, csrfToken }: SignedInBrowser,
) => {
  const body = new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString();
  return app.post({ path, cookie, body });
};
const stored = async () =>
  (await listOutboundHosts(app.server.stores.db)).map(({ host, createdBy }) => [host, createdBy]);

test('outbound page: who owns every organization allows and removes hosts, and it is audited', async () => {
  const before = await app.get('/outbound', operator.cookie);
  const wrong = await send('/outbound', { host: '127.0.0.0/8' }, operator);
  const allowed = await send('/outbound', { host: '10.20.0.0/16', note: '<b>' }, operator);
  const after = await app.get('/outbound', operator.cookie);
  const there = await stored();
  const removed = await send('/outbound/remove', { host: '10.20.0.0/16' }, operator);

  expect(before.text).toContain('private addresses are refused');
  expect(wrong.status).toBe(422);
  expect(wrong.text).toContain('contains addresses of this machine');
  expect(allowed.location).toBe('/outbound?done=allowed');
  expect(after.text).toContain('&lt;b&gt;');
  expect(there).toEqual([['10.20.0.0/16', 'user:olga']]);
  expect(removed.location).toBe('/outbound?done=removed');
  expect(await stored()).toEqual([]);
  const events = await app.server.stores.db
    .selectFrom('audit_event')
    .select(['organization', 'action', 'target'])
    .where('action', 'like', 'outbound.%')
    .where('outcome', '=', 'done')
    .orderBy('action')
    .orderBy('organization')
    .execute();
  expect(events.map((event) => Object.values(event).join(' '))).toEqual([
    'acme outbound.allow 10.20.0.0/16',
    'other outbound.allow 10.20.0.0/16',
    'acme outbound.remove 10.20.0.0/16',
    'other outbound.remove 10.20.0.0/16',
  ]);
});

test('outbound page: for the owner of one organization it does not exist', async () => {
  const shown = await app.get('/outbound', owner.cookie);
  const sent = await send('/outbound', { host: '10.20.0.0/16' }, owner);
  const home = await app.get('/organizations', owner.cookie);

  expect([shown.status, sent.status]).toEqual([404, 404]);
  expect(home.text).not.toContain('/outbound');
  expect((await app.get('/organizations', operator.cookie)).text).toContain('/outbound');
  expect(await stored()).toEqual([]);
});

test('outbound page: who owns every organization must have signed in as each requires it', async () => {
  const { db } = app.server.stores;
  const required = (value: number) =>
    db.updateTable('organization').set({ second_factor_required: value }).execute();
  await required(1);
  const sent = await send('/outbound', { host: '10.20.0.0/16' }, operator);
  await required(0);

  expect(sent.status).toBe(403);
  expect(await stored()).toEqual([]);
});

test('outbound page: an old sign-in allows nothing', async () => {
  await app.server.clock.advance(11 * 60);
  const sent = await send('/outbound', { host: '10.20.0.0/16' }, operator);

  expect([sent.status, sent.text.match(/<h1[^>]*>[^<]*/)?.[0]]).toEqual([403, '<h1>Sign in again']);
  expect(await stored()).toEqual([]);
});
