import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import { invitationImport, invitationRenew } from '#server/admin/invitation-batches';
import { invitationCreate, invitationList } from '#server/admin/invitations';
import {
  mailList,
  mailRetry,
  mailServerRead,
  mailServerRemove,
  mailServerSet,
  mailTest,
} from '#server/admin/mail';
import type { Actor } from '#server/admin/operation';
import { administered, type Administered } from '#support/administered';
import { smtpServer, type SmtpServer } from '#support/smtp-server';

const organization = 'acme';
const password = 'correct horse battery';
let at: Administered;
let server: SmtpServer;
let owner: Actor;
let admin: Actor;
beforeAll(async () => {
  at = await administered();
  [owner, admin] = [await at.person('owner'), await at.person('admin')];
});
afterAll(() => at[Symbol.asyncDispose]());
beforeEach(async () => {
  server = await smtpServer();
});
afterEach(() => server[Symbol.asyncDispose]());

const settings = (but: object = {}) => ({
  organization,
  host: '127.0.0.1',
  port: server.port,
  security: 'none',
  from: 'latchkey@example.com',
  ...but,
});
const set = (but: object = {}, by = owner) => at.perform(mailServerSet, settings(but), by);
const addressOf = (actor: Actor) =>
  actor.type === 'person' ? `${actor.userId.replace('user_', 'p')}@example.com` : '';

test('mail server: only an owner sets it, since it sees the invitations of owners', async () => {
  await expect(set({}, admin)).rejects.toMatchObject({ code: 'forbidden' });
  expect(await set()).toMatchObject({ host: '127.0.0.1', hasPassword: false, user: null });
  expect(await at.perform(mailServerRead, { organization }, admin)).toMatchObject({
    from: 'latchkey@example.com',
    mails: { waiting: 0, sent: 0, refused: 0 },
  });
});

test('mail server: its password is stored sealed, never shown, and kept when it is omitted', async () => {
  const before = await set({ user: 'latchkey', password });
  const row = await at.stores.db.selectFrom('mail_server').selectAll().executeTakeFirstOrThrow();
  const kept = await set({ user: 'latchkey', from: 'other@example.com' });

  expect(before).toMatchObject({ user: 'latchkey', hasPassword: true });
  expect(JSON.stringify([before, row])).not.toContain(password);
  expect(kept).toMatchObject({ from: 'other@example.com', hasPassword: true });
});

test.each([
  ['to another port', { port: 2525 }],
  ['with another user', { user: 'other' }],
  ['over a connection in the clear', { security: 'none' }],
])('mail server: a stored password does not go %s', async (_, change) => {
  await set({ user: 'latchkey', password, security: 'tls' });

  const refused = set({ user: 'latchkey', security: 'tls', ...change });

  const problem =
    'is needed again, because host, port or user changed, or encryption was turned off';
  await expect(refused).rejects.toMatchObject({ fields: [{ field: 'password', problem }] });
});

test.each([
  [{ host: 'smtp example' }, 'host', 'is not the name or address of a host'],
  [{ host: 'http://smtp.example.com' }, 'host', 'is not the name or address of a host'],
  [{ port: 0 }, 'port', 'must be at least 1'],
  [{ port: 70_000 }, 'port', 'must be at most 65535'],
  [{ from: 'nobody' }, 'from', 'is not an e-mail address'],
  [{ from: 'a@b.org\r\nBcc: x@y.org' }, 'from', 'is not an e-mail address'],
  [{ user: 'latchkey' }, 'password', 'is missing'],
  [{ password }, 'user', 'is missing, but there is a password'],
  [{ user: 'latchkey', password: 'a\nb' }, 'password', 'must not contain line breaks'],
  [{ host: '8.8.8.8' }, 'security', 'must be encrypted'],
  [{ host: '10.0.0.1', security: 'tls' }, 'host', 'is not on the public internet'],
])('mail server: %j is refused', async (but, field, problem) => {
  await at.perform(mailServerRemove, { organization }, owner).catch(() => undefined);

  await expect(set(but)).rejects.toMatchObject({
    fields: [{ field, problem: expect.stringContaining(problem) }],
  });
});

test('mail server: a test goes to the person who asks, and says what the server answered', async () => {
  await set();

  const sent = await at.perform(mailTest, { organization }, owner);
  const foreign = at.perform(mailTest, { organization, to: 'eve@example.com' }, owner);
  await expect(foreign).rejects.toMatchObject({ code: 'invalid' });
  server.script((step) => (step === 'rcpt' ? '550 5.7.1 Relaying denied' : undefined));
  const refused = await at.perform(mailTest, { organization, to: 'ops@example.com' });

  expect(sent).toMatchObject({ isSent: true, to: addressOf(owner) });
  expect(server.mails).toMatchObject([{ to: addressOf(owner) }]);
  expect(refused).toEqual({
    isSent: false,
    to: 'ops@example.com',
    words: 'answered “550 5.7.1 Relaying denied”',
  });
});

test('invitations: their mails wait with a sealed link, and those of a list are queued in its transaction', async () => {
  await set();
  const list = 'zoe@example.com,viewer\nyan@example.com';

  const { items } = await at.perform(invitationImport, { organization, list, send: true }, admin);
  const rows = await at.stores.db.selectFrom('mail').selectAll().execute();
  const listed = await at.perform(invitationList, { organization }, admin);

  expect(rows.map(({ recipient }) => recipient).toSorted()).toEqual([
    'yan@example.com',
    'zoe@example.com',
  ]);
  for (const { path } of items) expect(JSON.stringify(rows)).not.toContain(path.slice(12));
  expect(listed.items.map(({ mail }) => mail?.status)).toEqual(['waiting', 'waiting']);
});

test('invitations: without a mail server none is created when they are to be sent', async () => {
  await at.perform(mailServerRemove, { organization }, owner);
  const before = await at.perform(invitationList, { organization });
  const list = 'una@example.com';

  const refused = at.perform(invitationImport, { organization, list, send: true }, admin);

  await expect(refused).rejects.toMatchObject({ code: 'conflict' });
  expect(await at.perform(invitationList, { organization })).toEqual(before);
});

test('reminders: each replaces the mail that waits, and an invitation without an address is refused', async () => {
  await set();
  const zoe = { organization, role: 'viewer', email: 'zed@example.com', send: true };
  const { id } = await at.perform(invitationCreate, zoe, admin);
  const note = { organization, role: 'viewer', note: 'Viktor' };
  const unaddressed = await at.perform(invitationCreate, note, admin);

  await at.perform(invitationRenew, { organization, invitationIds: [id], send: true }, admin);
  const invitationIds = [id, unaddressed.id];
  const refused = at.perform(invitationRenew, { organization, invitationIds, send: true }, admin);

  await expect(refused).rejects.toThrow('the invitation for “Viktor” has no address');
  const { items } = await at.perform(mailList, { organization }, admin);
  const toZed = items.filter(({ recipient }) => recipient === 'zed@example.com');
  expect(toZed).toMatchObject([{ kind: 'reminder', status: 'waiting' }]);
  expect(await at.perform(mailRetry, { organization }, admin)).toEqual({ waiting: items.length });
});
