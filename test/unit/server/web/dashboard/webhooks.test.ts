import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertAuditEvent } from '#server/db/audit';
import {
  listWebhooks,
  deleteWebhook,
  claimPendingEvent,
  markUndelivered,
  updateWebhook,
} from '#server/db/webhooks';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';
import { deadWebhook } from '#support/webhook-setup';

let app: PageApp;
let admin: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  admin = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
});
afterAll(() => app[Symbol.asyncDispose]());

const home = '/dashboard/acme/settings/webhooks';
const send = (path: string, fields: Readonly<Record<string, string>> = {}) => {
  const body = new URLSearchParams({ csrf_token: admin.csrfToken, ...fields }).toString();
  return app.post({ path: home + path, cookie: admin.cookie, body });
};
const show = async (path = '') => (await app.get(home + path, admin.cookie)).text;
const kept = async () => listWebhooks(app.server.stores.db, 'org_acme');
const made = async () => {
  await send('', { url: deadWebhook, actions: 'key.' });
  const newest = (await kept()).at(-1);
  if (!newest) throw new Error('nothing was made');
  return newest;
};
const removed = async (id: string) => deleteWebhook(app.server.stores.db, 'org_acme', id);

test('webhook form: events are separated by spaces, commas or line breaks', async () => {
  await send('', { url: deadWebhook, actions: 'key.\nsign-in, consent.allow' });
  const [webhook] = await kept();
  await removed(webhook?.id ?? '');

  expect(webhook?.actions).toEqual(['key.', 'sign-in', 'consent.allow']);
});

test('webhook form: invalid input is kept, with the error beside it', async () => {
  const { status, text } = await send('', { url: 'https://10.0.0.1/', actions: 'key.* x!' });

  expect(status).toBe(422);
  expect(text).toContain('value="https://10.0.0.1/"');
  expect(text).toContain('key.* x!');
  expect(text).toContain(
    'An event must be a name such as key.create, or a prefix such as key. for all events of keys.',
  );
  expect(await kept()).toEqual([]);

  const inside = await send('', { url: 'https://10.0.0.1/', actions: '' });
  expect(inside.text).toContain('The URL is not on the public internet.');
});

test('webhook page: its form shows the webhook, and changes it or shows the error', async () => {
  const { id } = await made();
  const page = await show(`/${id}`);
  const refused = await send(`/${id}`, { url: '"other"', actions: 'no event!' });
  await send(`/${id}`, { url: `${deadWebhook}?other`, actions: '' });
  const [webhook] = await kept();
  await removed(id);

  expect(page).toContain(`value="${deadWebhook}"`);
  expect(page).toMatch(/key\.<\/textarea>/);
  expect(refused.status).toBe(422);
  expect(refused.text).toContain('value="&quot;other&quot;"');
  expect(refused.text).toMatch(/<p class="error" id="actions-error">An event must be/);
  expect(webhook).toMatchObject({ url: `${deadWebhook}?other`, actions: [] });
});

test('webhook page: it describes the state of deliveries', async () => {
  const { id } = await made();
  const { db } = app.server.stores;
  const fresh = await show(`/${id}`);
  const now = app.server.clock.now();
  const event = { at: now, actor: 'operator', organization: 'acme', action: 'key.create' };
  const rest = { target: undefined, address: undefined, requestId: undefined } as const;
  await insertAuditEvent(db, { ...event, ...rest, outcome: 'done' });
  const fail = async (follows: { nextAttemptAt: number } | { disabled: 'gone' | 'failing' }) => {
    const pending = await claimPendingEvent(db, id, { now: 0, until: 0 });
    if (!pending) throw new Error('nothing waits');
    await markUndelivered(db, pending.place, { at: now, why: 'answered 500', follows });
    return show(`/${id}`);
  };
  const retrying = await fail({ nextAttemptAt: now + 600 });
  const soon = await fail({ nextAttemptAt: now + 59 });
  const failing = await fail({ disabled: 'failing' });
  await updateWebhook(db, 'org_acme', id, { enabled: 'continue' });
  const gone = await fail({ disabled: 'gone' });
  await removed(id);

  expect(fresh).toContain('Delivering');
  expect(retrying).toContain('Retrying');
  expect(retrying).toContain('The receiver answered 500');
  expect(retrying).toContain('in 10 minutes');
  expect(soon).toContain('Within a minute');
  expect(failing).toContain('Last failure: the receiver answered 500.');
  expect(gone).toContain('the receiver answered 410 Gone');
});

test('webhook page: a test shows the answer', async () => {
  const { id } = await made();
  const { text } = await send(`/${id}/test`);
  await removed(id);

  expect(text).toContain('Test failed: the receiver could not be reached.');
});

test('webhook page: disabling and removing ask first, enabling resumes at the chosen point', async () => {
  const { id } = await made();
  const questions = [await show(`/${id}/disable`), await show(`/${id}/remove`)];
  await send(`/${id}/disable`);
  const disabled = await show(`/${id}`);
  const enabled = await send(`/${id}/enable`, { from: 'now' });
  const after = await kept();
  const { location } = await send(`/${id}/remove`);

  expect(questions[0]).toContain('It receives no events until you enable it again.');
  expect(questions[1]).toContain('It stops receiving events immediately. This cannot be undone.');
  expect(disabled).toContain('Disabled by a person');
  expect(enabled.location).toBe(`${home}/${id}?done=enabled`);
  expect(after).toMatchObject([{ id, disabled: undefined }]);
  expect([location, await kept()]).toEqual([`${home}?done=removed`, []]);
});

test('webhook list: it shows no path of a URL, which may be a secret', async () => {
  const { id } = await made();
  const list = await show();
  const own = await show(`/${id}`);
  await removed(id);

  expect(list).toContain('127.0.0.1:1');
  expect(list).not.toContain(deadWebhook);
  expect(own).toContain(deadWebhook);
});

test('organization settings: they link to the webhooks', async () => {
  const { text } = await app.get('/dashboard/acme/settings', admin.cookie);

  expect(text).toContain(`href="${home}"`);
});
