import { afterAll, beforeAll, expect, test } from 'vitest';

import { findAccessRequest, newestRequestsOf } from '#server/db/access-requests';
import { insertGroup, listGroupMembers } from '#server/db/groups';
import { findServerAccess } from '#server/db/server-access';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const home = '/dashboard/acme';
const group = { id: 'group_sales', organizationId: 'org_acme', name: 'Sales', createdAt: 1 };

let app: PageApp;
let owner: SignedInBrowser;
let mia: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  mia = await app.browser('mia', { organizationId: 'org_acme', role: 'member' });
  await insertGroup(app.server.stores.db, group);
});
afterAll(() => app[Symbol.asyncDispose]());

const show = (path: string, { cookie } = mia) => app.get(home + path, cookie);
const send = (path: string, typed: Record<string, string>, { cookie, csrfToken } = mia) => {
  const body = new URLSearchParams({ csrf_token: csrfToken, ...typed }).toString();
  return app.post({ path: home + path, cookie, body });
};
const restricted = { access: 'groups', 'group.group_sales': 'group_sales' };
const own = async () => {
  const all = await newestRequestsOf(app.server.stores.db, 'org_acme', 'mia');
  return all.get('srv_sales');
};

test('210: access of a server: people can ask for it once the box is ticked, also through the review of a change', async () => {
  const path = '/servers/sales/access';
  const asks = async () =>
    (await findServerAccess(app.server.stores.db, 'srv_sales'))?.isRequestable;
  const closed = await send(path, restricted, owner);
  await send(closed.location?.replace(home, '') ?? '', {}, owner);
  const before = await asks();
  const hidden = [await show('/my-servers'), await show('/servers/sales/ask')];
  const saved = await send(path, { ...restricted, 'ask.accessRequests': 'accessRequests' }, owner);

  expect(closed.location).toContain('ask=off');
  expect([before, await asks()]).toEqual([false, true]);
  expect(saved.location).toBe(`${home}${path}?done=saved`);
  expect(hidden[0]?.text).not.toContain('sales');
  expect(hidden[1]?.status).toBe(404);
  expect((await show(path, owner)).text).toMatch(/name="ask\.accessRequests"[^>]* checked/);
});

test('access request: without a reason it is not sent; with one it is shown, escaped, and can be withdrawn', async () => {
  const none = await send('/servers/sales/ask', { reason: ' ' });
  const sent = await send('/servers/sales/ask', { reason: '<b>the quarter</b>\r\nends' });
  const twice = await show('/servers/sales/ask');
  const page = await show('/my-servers');
  const listed = await show('/people/requests', owner);
  const withdrawn = await send('/servers/sales/ask/withdraw', {});

  expect([none.status, sent.location]).toEqual([422, `${home}/my-servers?done=asked`]);
  expect(none.text).toContain('The reason is empty.');
  expect(twice.status).toBe(409);
  expect(page.text).toContain('&lt;b&gt;the quarter&lt;/b&gt; ends');
  expect(listed.text).toContain('<title>Requests · Latchkey</title>');
  expect(listed.text).toContain('&lt;b&gt;the quarter&lt;/b&gt; ends');
  expect(withdrawn.location).toBe(`${home}/my-servers?done=withdrawn`);
  expect(await own()).toMatchObject({ status: 'withdrawn' });
});

test('access request: the page names what else a group opens, and adds the person to the one that was chosen', async () => {
  const { db } = app.server.stores;
  await send('/servers/sales/ask', { reason: 'again' });
  const { id = '' } = (await own()) ?? {};
  const page = await show(`/people/requests/${id}/grant`, owner);
  const none = await send(`/people/requests/${id}/grant`, {}, owner);
  const done = await send(`/people/requests/${id}/grant`, { group: group.id }, owner);
  const again = await send(`/people/requests/${id}/decline`, { answer: 'no' }, owner);
  const decided = await show('/people/requests?state=decided', owner);

  expect(page.text).toContain('No members');
  expect(none.status).toBe(422);
  expect(done.location).toBe(`${home}/people/requests?done=granted`);
  expect((await listGroupMembers(db, group.id)).map(({ userId }) => userId)).toEqual(['mia']);
  expect(again.status).toBe(409);
  expect(await findAccessRequest(db, 'org_acme', id)).toMatchObject({ status: 'granted' });
  expect(decided.text).toContain('Group Sales');
  expect((await show('/my-servers')).text).toContain('Connect to sales');
});
