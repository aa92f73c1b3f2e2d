import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { OpenStores } from '#server/app/stores';
import {
  claimMail,
  findMailServer,
  insertMails,
  listMails,
  replaceMailServer,
} from '#server/db/mail';
import { insertOrganization } from '#server/db/organizations';
import { sqliteChanges } from '#server/db/sqlite/change-store';
import { MailDeliveries } from '#server/mail/mail-deliveries';
import { mailSetup } from '#server/mail/mail-setup';
import { masterKey } from '#server/secrets/master-key';
import { openDatabase } from '#support/open-database';
import { patient } from '#support/patient';
import { smtpServer, type SmtpServer } from '#support/smtp-server';
import { stillClock, type StillClock } from '#support/still-clock';

const sealing = masterKey(randomBytes(32));
const base = 'https://latchkey.example.com';
const org = 'org_acme';
const guard = {
  allowedHosts: ['127.0.0.1'],
  resolve: () => Promise.reject(new Error('no test resolves a name')),
};

let stores: OpenStores & AsyncDisposable;
let clock: StillClock;
let server: SmtpServer;
let deliveries: MailDeliveries;
let faults: unknown[];
const deliver = () => {
  const changes = sqliteChanges(stores.connection);
  return new MailDeliveries({
    db: stores.db,
    sealing,
    guard,
    clock,
    random: () => 0,
    base,
    changeToken: () => changes.changeToken(),
    undelivered: () => undefined,
    failed: (error) => faults.push(error),
  });
};
beforeEach(async () => {
  [stores, clock, server] = [await openDatabase(), stillClock(), await smtpServer()];
  const createdAt = clock.now();
  await insertOrganization(stores.db, { id: org, name: 'acme', title: 'Acme, Ltd', createdAt });
  await use(server.port);
  faults = [];
  deliveries = deliver();
});
afterEach(async () => {
  await deliveries.close();
  await server[Symbol.asyncDispose]();
  await stores[Symbol.asyncDispose]();
});

const use = (port: number) =>
  replaceMailServer(
    stores.db,
    org,
    {
      host: '127.0.0.1',
      port,
      security: 'none',
      user: undefined,
      sealedPassword: undefined,
      from: 'latchkey@example.com',
    },
    clock.now(),
  );
async function add(...recipients: string[]) {
  const setup = mailSetup({ sealing, guard, clock, base });
  const about = { kind: 'invitation', organization: 'Acme, Ltd', role: 'admin' } as const;
  const content = { ...about, path: '/invitation/x', expiresAt: clock.now() + 86_400 };
  const mails = recipients.map((recipient) =>
    setup.sealMail({ recipient, invitationId: undefined }, { ...content, by: 'dana@example.com' }),
  );
  await insertMails(stores.db, org, mails, { now: clock.now(), most: 1000 });
}
const mails = async () => {
  const part = { status: undefined, limit: 500, offset: 0 };
  const { items } = await listMails(stores.db, org, part);
  return items.toSorted((one, other) => (one.recipient < other.recipient ? -1 : 1));
};
const statuses = async () => (await mails()).map(({ status }) => status);
/** Looks until `done` holds, as the timer would. */
const lookUntil = (done: () => unknown) =>
  vi.waitFor(async () => {
    await deliveries.look();
    expect(await done()).toBeTruthy();
  }, patient);
const received = () => server.mails.map(({ to }) => to).toSorted();

test('mails that wait are sent one after the other over one connection', async () => {
  const all = Array.from({ length: 40 }, (_, index) => `p${100 + index}@example.com`);
  await add(...all);

  await lookUntil(async () => (await statuses()).every((status) => status === 'sent'));

  expect(received()).toEqual(all);
  expect(server.connections).toBe(1);
  expect(await findMailServer(stores.db, org)).toMatchObject({ lastSuccessAt: clock.now() });
  const [mail] = server.mails;
  expect(mail?.headers.get('from')).toBe('"Acme, Ltd" <latchkey@example.com>');
  expect(mail?.text).toBe(`dana@example.com invites you to Acme, Ltd on Latchkey.
Latchkey connects your AI assistants to the tools of Acme, Ltd.

Accept the invitation:
https://latchkey.example.com/invitation/x

The link works once, until 16 January 2027, 08:00 UTC. You join as an admin.
If you did not expect this message, ignore it. Do not pass the link on.`);
});

test('a server that is away pauses all mails, and they are sent once it is back', async () => {
  await use(1);
  await add('a@example.com', 'b@example.com');
  await lookUntil(async () => (await findMailServer(stores.db, org))?.attempts === 1);
  clock.advance(29);
  await deliveries.look();
  const early = await findMailServer(stores.db, org);
  clock.advance(1);
  await lookUntil(async () => (await findMailServer(stores.db, org))?.attempts === 2);
  const waiting = await mails();
  await use(server.port);
  await lookUntil(() => server.mails.length === 2);

  expect(early?.attempts).toBe(1);
  expect(early?.lastFailure?.why).toBe('could not be reached');
  expect(waiting).toMatchObject([
    { status: 'waiting', attempts: 0 },
    { status: 'waiting', attempts: 0 },
  ]);
});

test('a mail that the server refuses for good ends with its words, and the others are sent', async () => {
  server.script((step, to) =>
    step === 'rcpt' && to === 'gone@example.com' ? '550 5.1.1 No such user' : undefined,
  );
  await add('gone@example.com', 'zoe@example.com');

  await lookUntil(async () => !(await statuses()).includes('waiting'));

  expect(await mails()).toMatchObject([
    { status: 'refused', answer: 'answered “550 5.1.1 No such user”' },
    { status: 'sent', answer: 'answered “250 2.0.0 Ok: queued as 4F1”' },
  ]);
});

test('a mail that the server refuses for now is sent again later, and given up after three days', async () => {
  server.script((step) => (step === 'rcpt' ? '451 4.7.1 Greylisted' : undefined));
  await add('zoe@example.com');
  await lookUntil(async () => (await mails())[0]?.attempts === 1);
  const [first] = await mails();
  clock.advance(3 * 86_400);
  await lookUntil(async () => (await mails())[0]?.status === 'refused');

  expect(first).toMatchObject({ status: 'waiting', nextAttemptAt: clock.now() - 3 * 86_400 + 30 });
  expect((await mails())[0]).toMatchObject({ answer: 'answered “451 4.7.1 Greylisted”' });
  expect(server.mails).toEqual([]);
});

test('a connection that breaks after a mail was accepted repeats only this mail, with the same Message-ID', async () => {
  let cuts = 1;
  server.script((step, to) => {
    if (step !== 'data' || to !== 'b@example.com' || cuts === 0) return undefined;
    cuts -= 1;
    return 'cut';
  });
  await add('a@example.com', 'b@example.com', 'c@example.com');
  await lookUntil(async () => (await mails())[1]?.attempts === 1);
  clock.advance(30);
  await lookUntil(async () => !(await statuses()).includes('waiting'));

  expect(received()).toEqual(['a', 'b', 'b', 'c'].map((name) => `${name}@example.com`));
  const ids = server.mails.map(({ to, headers }) => `${to} ${headers.get('message-id')}`);
  expect(new Set(ids).size).toBe(3);
});

test('a mail that another process claimed is not sent until the claim runs out', async () => {
  await add('zoe@example.com');
  const until = clock.now() + 180;
  const { revision = -1 } = (await findMailServer(stores.db, org)) ?? {};
  await claimMail(stores.db, { organizationId: org, revision }, { now: clock.now(), until });

  await deliveries.look();
  const early = server.mails.length;
  clock.advance(180);
  await lookUntil(() => server.mails.length === 1);

  expect(early).toBe(0);
});

test('two processes that send at the same time send each mail once', async () => {
  const second = deliver();
  const all = Array.from({ length: 60 }, (_, index) => `p${100 + index}@example.com`);
  await add(...all);

  await vi.waitFor(async () => {
    await Promise.all([deliveries.look(), second.look()]);
    expect(await statuses()).toEqual(all.map(() => 'sent'));
  }, patient);
  await second.close();

  expect(received()).toEqual(all);
});

test('a slow server gets no more mails in a turn than fit into a minute', async () => {
  server.script((step) => {
    if (step === 'data') clock.advance(60);
    return undefined;
  });
  await add('a@example.com', 'b@example.com');

  await lookUntil(async () => (await statuses()).every((status) => status === 'sent'));

  expect([server.mails.length, server.connections]).toEqual([2, 2]);
});

test('closing ends the connection, and the mail in progress is sent by the next process', async () => {
  server.script((step) => (step === 'rcpt' ? 'hang' : undefined));
  await add('zoe@example.com');
  await lookUntil(() => server.connections === 1);

  await deliveries.close();
  server.script(() => undefined);
  deliveries = deliver();
  await lookUntil(() => server.mails.length === 1);

  expect(await mails()).toMatchObject([{ status: 'sent', attempts: 0 }]);
  expect(faults).toEqual([]);
});

test('a mail that cannot be decrypted ends, and those behind it are sent', async () => {
  await add('a@example.com');
  await stores.db.updateTable('mail').set({ sealed_content: 'of another key' }).execute();
  await add('b@example.com');

  await lookUntil(async () => !(await statuses()).includes('waiting'));

  expect(await mails()).toMatchObject([
    { status: 'refused', answer: expect.stringContaining('cannot be decrypted') },
    { status: 'sent' },
  ]);
  expect(faults).toEqual([]);
});

test('a password that cannot be decrypted is a failure of the server, which says so', async () => {
  await add('a@example.com');
  await stores.db
    .updateTable('mail_server')
    .set({ user_name: 'latchkey', sealed_password: 'of another key' })
    .execute();

  await lookUntil(async () => (await findMailServer(stores.db, org))?.attempts === 1);

  expect((await findMailServer(stores.db, org))?.lastFailure?.why).toContain('enter it again');
  expect(await statuses()).toEqual(['waiting']);
  expect(faults).toEqual([]);
});
