import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { insertInvitation, revokeInvitation } from '#server/db/invitations';
import {
  claimMail,
  countMails,
  deleteMailServer,
  endMail,
  findMailsAbout,
  findMailServer,
  hurryMails,
  insertMails,
  listMails,
  listWaitingOrganizations,
  type MailKind,
  noteMailServer,
  releaseMail,
  replaceMailServer,
} from '#server/db/mail';
import { insertOrganization } from '#server/db/organizations';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const now = 1_800_000_000;
const day = 86_400;
const claim = { now, until: now + 60 };

function present<Value>(value: Value | undefined): Value {
  assert(value !== undefined);
  return value;
}
const server = {
  host: 'smtp.example.com',
  port: 587,
  security: 'starttls',
  user: 'latchkey',
  sealedPassword: 'sealed',
  from: 'latchkey@example.com',
} as const;

await onEachDatabase('mail', ({ open }) => {
  let stores: TestDatabase;
  let org: string;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    org = `org_${randomUUID()}`;
    const made = { id: org, name: org.replace('_', '-'), title: 'Acme', createdAt: now };
    await insertOrganization(stores.db, made);
    await replaceMailServer(stores.db, org, server, now);
  });

  const add = async (
    recipient: string,
    but: { invitationId?: string; kind?: MailKind; at?: number; most?: number } = {},
  ) => {
    const { invitationId, kind = 'invitation', at = now, most = 10 } = but;
    const id = `mail_${randomUUID()}`;
    const mail = { id, kind, recipient, invitationId, sealedContent: 'sealed' };
    return (await insertMails(stores.db, org, [mail], { now: at, most })) ? id : undefined;
  };
  const claimed = async (at = claim) => {
    const current = present(await findMailServer(stores.db, org));
    return claimMail(stores.db, current, at);
  };
  const listed = async () =>
    (await listMails(stores.db, org, { status: undefined, limit: 9, offset: 0 })).items;
  const invitation = async (createdBy = 'operator') => {
    const id = `invitation_${randomUUID()}`;
    const made = { id, organizationId: org, role: 'viewer', groupIds: [], note: '' } as const;
    const rest = { createdBy, createdAt: now, expiresAt: now + day };
    await insertInvitation(stores.db, { ...made, ...rest, tokenHash: randomUUID() });
    return id;
  };
  const due = async () =>
    (await listWaitingOrganizations(stores.db)).find((one) => one.organizationId === org)?.dueAt;

  test('the mail server is stored with the title of its organization, and a change forgets failures', async () => {
    const first = await findMailServer(stores.db, org);
    await noteMailServer(stores.db, present(first), {
      failed: now,
      why: 'could not be reached',
      nextAttemptAt: now + 30,
    });
    const failed = await findMailServer(stores.db, org);
    await replaceMailServer(stores.db, org, { ...server, port: 465, user: undefined }, now + 1);
    const changed = await findMailServer(stores.db, org);

    expect(first).toMatchObject({ ...server, organization: 'Acme', attempts: 0 });
    expect(failed).toMatchObject({
      attempts: 1,
      nextAttemptAt: now + 30,
      lastFailure: { at: now, why: 'could not be reached' },
    });
    expect(changed).toMatchObject({ port: 465, user: undefined, attempts: 0, nextAttemptAt: 0 });
    expect(changed?.lastFailure).toBeUndefined();
  });

  test('what a process learned of an earlier mail server says nothing about the present one', async () => {
    const before = present(await findMailServer(stores.db, org));
    await replaceMailServer(stores.db, org, server, now);

    const failure = { failed: now, why: 'could not be reached', nextAttemptAt: now + 30 };
    await noteMailServer(stores.db, before, failure);

    expect(await findMailServer(stores.db, org)).toMatchObject({ attempts: 0, nextAttemptAt: 0 });
  });

  test('of several processes, one claims a mail', async () => {
    const id = await add('zoe@example.com');

    const claims = await Promise.all(Array.from({ length: 8 }, async () => claimed()));

    expect(claims.filter((one) => one !== undefined)).toMatchObject([{ id }]);
    expect(await due()).toBe(now + 60);
  });

  test('a claim that ran out is taken by the next process, and the one before can no longer end the mail', async () => {
    await add('zoe@example.com');
    const first = present(await claimed());
    const second = await claimed({ now: now + 60, until: now + 120 });

    const late = await endMail(stores.db, first, 'refused', 'answered', now + 61);
    await releaseMail(stores.db, first, { nextAttemptAt: now, counts: true });
    const done = await endMail(stores.db, present(second), 'sent', 'answered', now + 62);

    expect([late, done]).toEqual([false, true]);
    expect(await listed()).toMatchObject([{ status: 'sent', attempts: 0, endedAt: now + 62 }]);
  });

  test('a released mail waits until its next attempt, and the mail server pauses all', async () => {
    await add('zoe@example.com');
    const first = present(await claimed());
    const after = { nextAttemptAt: now + 30, answer: 'answered “451”', counts: true };
    await releaseMail(stores.db, first, after);
    const found = present(await findMailServer(stores.db, org));

    expect(await claimed()).toBeUndefined();
    expect(await due()).toBe(now + 30);
    expect(await listed()).toMatchObject([{ attempts: 1, answer: 'answered “451”' }]);
    await noteMailServer(stores.db, found, { failed: now, why: 'x', nextAttemptAt: now + 99 });
    expect(await due()).toBe(now + 99);
    expect(await hurryMails(stores.db, org, now)).toBe(1);
    expect(await due()).toBe(now);
  });

  test('a mail about an invitation replaces those that wait, and goes with the invitation', async () => {
    const [one, other] = [await invitation(), await invitation()];
    await add('zoe@example.com', { invitationId: one });
    const second = await add('zoe@example.com', { invitationId: one });
    await add('yan@example.com', { invitationId: other });
    const before = await listed();
    await revokeInvitation(stores.db, org, other);

    const first = await claimed();
    const none = await claimed();

    expect(before).toHaveLength(2);
    expect([first?.id, none]).toEqual([second, undefined]);
    expect((await findMailsAbout(stores.db, [one, other])).size).toBe(1);
  });

  test('a mail whose author may no longer invite is not sent', async () => {
    await add('zoe@example.com', { invitationId: await invitation('user:person_gone') });

    expect([await claimed(), await listed()]).toEqual([undefined, []]);
  });

  test('no mail is sent through a server that was replaced meanwhile', async () => {
    await add('zoe@example.com');
    const before = present(await findMailServer(stores.db, org));
    await replaceMailServer(stores.db, org, { ...server, host: 'other.example.com' }, now);

    expect(await claimMail(stores.db, before, claim)).toBeUndefined();
    expect(await claimed()).toMatchObject({ recipient: 'zoe@example.com' });
  });

  test('an invitation that expired is not sent, nor is an old notice', async () => {
    const at = { now: now + 3 * day, until: now + 3 * day + 60 };
    await add('zoe@example.com', { invitationId: await invitation() });
    await add('ann@example.com', { kind: 'notice' });

    const late = await claimed(at);

    expect(late).toBeUndefined();
    expect(await countMails(stores.db, org)).toEqual({ waiting: 0, sent: 0, refused: 2 });
  });

  test('no more mails wait than allowed, and none of too many is added', async () => {
    await add('a@example.com', { most: 1 });

    expect(await add('b@example.com', { most: 1 })).toBeUndefined();
    expect(await listed()).toHaveLength(1);
  });

  test('the content of a mail is deleted once it was sent, and the mail after thirty days', async () => {
    const id = (await add('zoe@example.com')) ?? '';
    const sent = present(await claimed());
    await endMail(stores.db, sent, 'sent', 'answered “250”', now);
    const row = await stores.db
      .selectFrom('mail')
      .select('sealed_content')
      .where('id', '=', id)
      .executeTakeFirst();

    await add('late@example.com', { at: now + 30 * day });

    expect(row).toEqual({ sealed_content: null });
    expect((await listed()).map(({ recipient }) => recipient)).toEqual(['late@example.com']);
  });

  test('with its mail server, an organization loses the mails that wait; without one, none is due', async () => {
    await add('zoe@example.com');

    const removed = await deleteMailServer(stores.db, org);

    expect([removed, await deleteMailServer(stores.db, org)]).toEqual([true, false]);
    expect(await listed()).toEqual([]);
    await add('zoe@example.com');
    expect(await due()).toBeUndefined();
  });

  test('mails of a disabled organization wait', async () => {
    await add('zoe@example.com');
    await stores.db
      .updateTable('organization')
      .set({ disabled_at: now })
      .where('id', '=', org)
      .execute();

    expect([await due(), await claimed()]).toEqual([undefined, undefined]);
  });
});
