import { afterAll, beforeAll, expect, test } from 'vitest';

import { listMails } from '#server/db/mail';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';
import { smtpServer, type SmtpServer } from '#support/smtp-server';

const home = '/dashboard/acme';
let app: PageApp;
let server: SmtpServer;
let owner: SignedInBrowser;
let admin: SignedInBrowser;
beforeAll(async () => {
  [app, server] = [await pageApp(), await smtpServer()];
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
  admin = await app.browser('adam', { organizationId: 'org_acme', role: 'admin' });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

const show = async (path: string, { cookie } = owner) => (await app.get(home + path, cookie)).text;
const send = (path: string, typed: Record<string, string>, { cookie, csrfToken } = owner) => {
  const body = new URLSearchParams({ csrf_token: csrfToken, ...typed }).toString();
  return app.post({ path: home + path, cookie, body });
};
const settings = (but: Record<string, string> = {}) => ({
  host: '127.0.0.1',
  port: String(server.port),
  security: 'none',
  from: 'latchkey@example.com',
  ...but,
});
const waiting = async () => {
  const part = { status: 'waiting', limit: 50, offset: 0 } as const;
  return (await listMails(app.server.stores.db, 'org_acme', part)).items;
};

test('mail: pages of an organization without a mail server record no refusal', async () => {
  const before = await newestEvents(app.server.stores.db, 1);

  for (const path of ['/settings/mail', '/people/invite', '/people/invitations']) {
    expect((await app.get(home + path, owner.cookie)).status).toBe(200);
  }

  expect(await newestEvents(app.server.stores.db, 1)).toEqual(before);
});

test('mail page: an owner sets the server up, and an admin sees it without a form', async () => {
  const before = await show('/settings/mail');
  const wrong = await send('/settings/mail', settings({ port: 'x', from: '<b>' }));
  const saved = await send('/settings/mail', settings());
  const forAdmin = await show('/settings/mail', admin);

  expect(before).toContain('Set up');
  expect(wrong.status).toBe(422);
  expect(wrong.text).toContain('The port must be a number.');
  expect(wrong.text).toContain('value="&lt;b&gt;"');
  expect(saved.location).toBe(`${home}/settings/mail?done=saved`);
  expect(forAdmin).toContain('Only an owner can change the mail server');
  expect(forAdmin).not.toContain('name="host"');
});

test('mail page: a test goes to the reader, and says what the server answered', async () => {
  const sent = await send('/settings/mail/test', {});
  server.script((step) => (step === 'rcpt' ? '550 5.7.1 <i>No</i>' : undefined));
  const refused = await send('/settings/mail/test', {});
  server.script(() => undefined);

  expect(sent.text).toContain('Test sent to olga@example.com: the server answered');
  expect(refused.text).toContain(
    'Test not sent: the server answered “550 5.7.1 &lt;i&gt;No&lt;/i&gt;”.',
  );
});

test('invitations: with a mail server they are sent from the preview, and their links are not shown', async () => {
  const list = 'zoe@example.com';
  const checked = await send('/people/invite-several', { list, role: 'viewer' }, admin);
  const done = await send('/people/invite-several', { list, role: 'viewer', send: 'yes' }, admin);
  const page = await show('/people/invitations', admin);

  expect(checked.text).toContain('Invite 1 person by e-mail');
  expect(done.location).toBe(`${home}/people/invitations?done=sending`);
  expect(await waiting()).toMatchObject([{ recipient: 'zoe@example.com', kind: 'invitation' }]);
  expect(page).toMatch(/zoe@example\.com[\s\S]*Waiting/);
  expect(page).toContain('Send reminder to selected');
});

test('invitations: one person is invited by e-mail, and reminded', async () => {
  const typed = { email: 'ann@example.com', 'mail.send': 'on', role: 'member' };
  const form = await show('/people/invite', admin);
  const done = await send('/people/invite', typed, admin);
  const missing = await send('/people/invite', { 'mail.send': 'on', role: 'member' }, admin);
  const [, id = ''] =
    /name="invitation\.(invitation_\w+)" value="yes" aria-label="Select ann@/.exec(
      await show('/people/invitations'),
    ) ?? [];
  const reminded = await send('/people/invitations/renew', {
    [`invitation.${id}`]: 'yes',
    send: 'yes',
  });

  expect(form).toMatch(/id="mail-send"[^>]* checked/);
  expect(done.location).toBe(`${home}/people/invitations?done=sending`);
  expect(missing.text).toContain('The e-mail address is missing.');
  expect(reminded.location).toBe(`${home}/people/invitations?done=sending`);
  const toAnn = (await waiting()).filter(({ recipient }) => recipient === 'ann@example.com');
  expect(toAnn).toMatchObject([{ kind: 'reminder' }]);
});

test('mail page: waiting mails are listed and can be hurried, and go with the server', async () => {
  const page = await show('/settings/mail');
  const hurried = await send('/settings/mail/retry', {}, admin);
  const question = await show('/settings/mail/remove');
  const removed = await send('/settings/mail/remove', {});

  expect(page).toContain('Try 2 waiting mails now');
  expect(hurried.location).toBe(`${home}/settings/mail?done=retried`);
  expect(question).toContain('2 mails that wait are deleted.');
  expect(removed.location).toBe(`${home}/settings/mail?done=removed`);
  expect(await waiting()).toEqual([]);
});
