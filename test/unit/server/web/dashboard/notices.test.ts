import { afterAll, beforeAll, expect, test } from 'vitest';

import { attentionKinds } from '#server/admin/attention';
import { findNoticeChoice } from '#server/db/notices';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const path = '/dashboard/acme/settings/notices';
let app: PageApp;
let admin: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  admin = await app.browser('adam', { organizationId: 'org_acme', role: 'admin' });
});
afterAll(() => app[Symbol.asyncDispose]());

const send = (fields: Record<string, string>, { cookie, csrfToken } = admin) => {
  const body = new URLSearchParams({ csrf_token: csrfToken, ...fields }).toString();
  return app.post({ path, cookie, body });
};
const stored = (userId: string) => findNoticeChoice(app.server.stores.db, 'org_acme', userId);

const mailed = Object.values(attentionKinds).filter((kind) => !('isMailed' in kind));

test('notices page: everything is ticked at first, and what is chosen is kept', async () => {
  const first = await app.get(path, admin.cookie);
  const saved = await send({ frequency: 'daily', 'kind.key-old': 'key-old' });
  const after = await app.get(path, admin.cookie);

  expect(first.text).toContain('No e-mail is sent, because no mail server is set up.');
  expect(first.text).toMatch(/value="never"[^>]* checked/);
  expect(first.text.match(/type="checkbox"[^>]* checked/g)).toHaveLength(mailed.length);
  expect(saved.location).toBe(`${path}?done=saved`);
  expect(await stored('adam')).toMatchObject({ frequency: 'daily', kinds: ['key-old'] });
  expect(after.text).toMatch(/value="key-old"[^>]* checked/);
  expect(after.text.match(/type="checkbox"[^>]* checked/g)).toHaveLength(1);
});

test('notices page: no kind at all is refused, and never ends them', async () => {
  await send({ frequency: 'now', 'kind.key-old': 'key-old' });
  const none = await send({ frequency: 'now' });
  const before = await stored('adam');
  await send({ frequency: 'never' });

  expect(none.status).toBe(422);
  expect(none.text).toContain('choose at least one');
  expect(before).toMatchObject({ frequency: 'now' });
  expect(await stored('adam')).toBeUndefined();
});

test('notices: people choose for themselves only, and members have none', async () => {
  const other = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  const member = await app.browser('mia', { organizationId: 'org_acme', role: 'member' });
  await send({ frequency: 'now', userId: 'olga', 'kind.key-old': 'key-old' });

  expect(await stored('olga')).toBeUndefined();
  expect((await app.get(path, member.cookie)).status).toBe(403);
  expect((await app.get(path, other.cookie)).text).toContain(
    'Sent to olga@example.com when something needs attention. Nothing is reported twice. Every owner and admin chooses their own notices.',
  );
});
