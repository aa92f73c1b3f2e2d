import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { attentionKindNames, findAttention, mostOfAKind } from '#server/admin/attention';
import { insertAgent, setOnline } from '#server/db/agents';
import { insertClient } from '#server/db/clients';
import {
  acceptInvitation,
  insertInvitation,
  renewInvitation,
  revokeInvitation,
} from '#server/db/invitations';
import { insertKey, revokeKey } from '#server/db/keys';
import { replaceMailServer } from '#server/db/mail';
import { insertUser, removeMember } from '#server/db/people';
import { recordCalls } from '#server/db/rollups';
import { recordCalls as recordActivity } from '#support/made-calls';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import type { CallEnd } from '#server/model/calls';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';

const daySeconds = 86_400;
const now = madeAt + 60;
const org = { id: 'org_acme', name: 'acme' };
const isoMinute = (at: number) => {
  const minute = new Date((at - (at % 60)) * 1000);
  return minute.toISOString().replace('.000Z', 'Z');
};
const dana = { id: 'user_dana', email: 'dana@example.com', createdAt: madeAt };

await onEachDatabase('what needs attention', ({ open }) => {
  let database: TestDatabase;

  beforeEach(async () => {
    database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'theirs', { organization: 'other' });
    await insertUser(database.db, dana, { organizationId: org.id, role: 'admin' });
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const found = async (at = now) =>
    (
      await findAttention(database.db, org, attentionKindNames, { now: at, limit: mostOfAKind })
    ).map(({ kind, text, action }) => `${kind}: ${text} → ${action.path}`);
  const tally = (serverId: string, counts: object, method = 'tools/call') => ({
    serverId,
    targetId: serverId.replace('srv', 'target'),
    kind: 'method' as const,
    subject: method,
    at: now,
    bucket: 1,
    calls: 0,
    toolErrors: 0,
    refused: 0,
    upstreamErrors: 0,
    ...counts,
  });
  /** Records calls that ended as `ends` says, at the time `at`. */
  const recordEnds = (serverId: string, ends: readonly CallEnd[], at = now - 10) => {
    const name = serverId.replace('srv_', '');
    const endpoint = { id: serverId, organization: 'acme', name };
    const target = { id: serverId.replace('srv', 'target'), name };
    const calls = ends.map((end) => ({ endpoint, target, end }));
    return recordActivity(database.db, at * 1000, calls);
  };
  const recordFailure = (serverId: string, at?: number) =>
    recordEnds(serverId, ['upstream_error'], at);
  /** Lets `ms` pass each time that the code reads the time. */
  const passEachTime = (ms: number) => {
    let passedMs = 0;
    const time = vi.spyOn(performance, 'now').mockImplementation(() => (passedMs += ms));
    onTestFinished(() => time.mockRestore());
  };

  test('is nothing in a new organization', async () => {
    expect(await found()).toEqual([]);
  });

  test('is a server of whose calls a quarter failed in the last hour, without refused ones, with the recorded calls', async () => {
    await makeServer(database, 'well');
    await recordCalls(database.db, [
      tally('srv_sales', { calls: 15, refused: 8, toolErrors: 1 }),
      tally('srv_sales', { calls: 5, upstreamErrors: 2 }, 'resources/read'),
      tally('srv_well', { calls: 13, upstreamErrors: 3 }),
      tally('srv_theirs', { calls: 9, upstreamErrors: 9 }),
    ]);
    await recordFailure('srv_sales');

    expect(await found()).toEqual([
      `server-failing: 3 of 12 calls to sales failed in the last hour → /activity?endpoint=srv_sales&outcome=failed&from=${isoMinute(now - 3540)}`,
    ]);
    expect(await found(now + 3700)).toEqual([]);
  });

  test('is a server of whose calls a quarter failed, however many lists it answered', async () => {
    await recordCalls(database.db, [
      tally('srv_sales', { calls: 9, upstreamErrors: 3 }),
      tally('srv_sales', { calls: 500 }, 'tools/list'),
    ]);
    await recordFailure('srv_sales');

    expect(await found()).toEqual([
      expect.stringMatching(/^server-failing: 3 of 9 calls to sales .* → \/activity\?/),
    ]);
  });

  test('is a server of whose requests a quarter failed, with its usage, because lists are not recorded', async () => {
    await recordCalls(database.db, [
      tally('srv_sales', { calls: 2, toolErrors: 1 }),
      tally('srv_sales', { calls: 8, upstreamErrors: 4 }, 'tools/list'),
    ]);
    await recordFailure('srv_sales');

    expect(await found()).toEqual([
      'server-failing: 5 of 10 requests to sales failed in the last hour → /usage?range=1h&by=method&server=srv_sales',
    ]);
  });

  test('is a server whose calls failed, with its usage, if no failed call was recorded in that hour', async () => {
    await recordCalls(database.db, [tally('srv_sales', { calls: 9, upstreamErrors: 3 })]);
    await recordFailure('srv_sales', now - 4000);

    expect(await found()).toEqual([
      'server-failing: 3 of 9 calls to sales failed in the last hour → /usage?range=1h&by=method&server=srv_sales',
    ]);
  });

  test.each(['tool_error', 'protocol_error', 'upstream_error'] as const)(
    'is a server whose calls failed, with the recorded calls, if one ended as %s',
    async (end) => {
      await recordCalls(database.db, [tally('srv_sales', { calls: 9, upstreamErrors: 3 })]);
      await recordEnds('srv_sales', [end]);

      expect(await found()).toEqual([expect.stringContaining(' → /activity?endpoint=srv_sales&')]);
    },
  );

  test('is a server whose calls failed, with its usage, if only calls were recorded that do not count', async () => {
    await recordCalls(database.db, [tally('srv_sales', { calls: 9, upstreamErrors: 3 })]);
    await recordEnds('srv_sales', ['ok', 'refused', 'cancelled', 'unknown']);

    expect(await found()).toEqual([expect.stringContaining(' → /usage?')]);
  });

  test('is a server whose calls failed, with the recorded calls, if they are too many to search', async () => {
    await recordCalls(database.db, [tally('srv_sales', { calls: 9000, upstreamErrors: 3000 })]);
    await recordEnds(
      'srv_sales',
      Array.from({ length: 9000 }, () => 'ok'),
    );
    passEachTime(90);

    expect(await found()).toEqual([expect.stringContaining(' → /activity?endpoint=srv_sales&')]);
  });

  test('is each server whose calls failed, with the recorded calls of those that there was no time to search', async () => {
    await makeServer(database, 'slow');
    await recordCalls(database.db, [
      tally('srv_slow', { calls: 9, upstreamErrors: 4 }),
      tally('srv_sales', { calls: 9, upstreamErrors: 3 }),
    ]);
    await recordFailure('srv_slow');
    passEachTime(60);

    expect(await found()).toEqual([
      expect.stringContaining(' → /activity?endpoint=srv_slow&'),
      expect.stringContaining(' → /activity?endpoint=srv_sales&'),
    ]);
  });

  test('is an agent that a server needs, while it is not connected', async () => {
    const { db } = database;
    const upstream = { kind: 'agent', agentId: 'agent_a', server: 'crm' } as const;
    await insertAgent(db, { id: 'agent_a', organizationId: org.id, name: 'berlin', createdAt: 1 });
    await insertAgent(db, { id: 'agent_b', organizationId: org.id, name: 'idle', createdAt: 1 });
    await makeServer(database, 'crm', { upstream });
    const away = await found();
    await setOnline(db, ['agent_a'], now + 60);

    expect(away).toEqual([
      'agent-away: The agent berlin has never connected, and 1 server needs it → /agents/berlin',
    ]);
    expect(await found()).toEqual([]);
    expect(await found(now + 60)).toHaveLength(1);
  });

  test('is a key or secret that expires within two weeks or did within one, unless it is replaced', async () => {
    const { db } = database;
    const key = (id: string, days: number, but: object = {}) =>
      insertKey(db, newKey({ id, hash: id, name: id, expiresAt: now + days * daySeconds, ...but }));
    await key('key_soon', 13);
    await key('key_later', 15);
    await key('key_unused', -3);
    await key('key_gone', 3);
    await revokeKey(db, 'key_gone', now);
    await key('key_replaced', 2);
    await key('key_new', 400, { replacesId: 'key_replaced' });
    await insertClient(db, newClient());
    await db
      .updateTable('client_secret')
      .set({ expires_at: now + daySeconds, id: 'cs_a' })
      .execute();

    expect(await found()).toEqual([
      'key-expiring: A secret of the OAuth client Claude of sales expires → /servers/sales/clients/client_a/rotate',
      'key-expiring: The API key key_soon of sales expires → /servers/sales/keys/key_soon/rotate',
    ]);
  });

  test('is a key from ninety days on', async () => {
    await insertKey(database.db, newKey());

    expect(await found(madeAt + 90 * daySeconds - 1)).toEqual([]);
    expect(await found(madeAt + 91 * daySeconds)).toEqual([
      'key-old: The API key laptop of sales is 91 days old → /servers/sales/keys/key_a/rotate',
    ]);
  });

  describe('an invitation that expired', () => {
    const invite = (id: string, but: object = {}) =>
      insertInvitation(database.db, {
        id,
        organizationId: org.id,
        role: 'member',
        groupIds: [],
        note: '',
        email: `${id}@example.com`,
        createdBy: 'user:user_dana',
        createdAt: madeAt,
        expiresAt: now,
        tokenHash: id,
        ...but,
      });

    test('is listed for a week, by its address, its note or its role', async () => {
      await invite('lee', { note: 'From sales' });
      await invite('note', { email: undefined, note: 'Kim from sales', expiresAt: now - 1 });
      await invite('link', { email: undefined, role: 'admin', expiresAt: now - 2 });
      await invite('pending', { expiresAt: now + 1 });
      await invite('old', { expiresAt: now - 7 * daySeconds });
      await invite('theirs', { organizationId: 'org_other', createdBy: 'operator' });

      expect(await found()).toEqual([
        'invitation-expired: The invitation for lee@example.com expired before anyone accepted it → /people/invitations?state=expired',
        'invitation-expired: The invitation for “Kim from sales” expired before anyone accepted it → /people/invitations?state=expired',
        'invitation-expired: An invitation with the role admin expired before anyone accepted it → /people/invitations?state=expired',
      ]);
    });

    test('is not listed once it was renewed, revoked or accepted', async () => {
      const { db } = database;
      const earlier = now - 10;
      await Promise.all(['kept', 'renewed', 'revoked', 'accepted'].map((id) => invite(id)));
      await renewInvitation(db, org.id, 'renewed', {
        tokenHash: 'new',
        keepsLinks: false,
        createdBy: 'operator',
        createdAt: now,
        expiresAt: now + 7 * daySeconds,
      });
      await revokeInvitation(db, org.id, 'revoked');
      const kim = { id: 'user_kim', email: 'kim@example.com', createdAt: madeAt };
      const accepted = await acceptInvitation(db, 'accepted', kim, earlier);

      expect(accepted).toBe('done');
      expect(await found()).toEqual([expect.stringContaining(' kept@example.com ')]);
    });

    test('is not listed if its address is that of a member, or if its author may no longer invite', async () => {
      await invite('member', { email: 'Dana@example.com' });
      await invite('orphan', { createdBy: 'user:user_gone' });
      await invite('above', { role: 'owner' });

      expect(await found()).toEqual([]);
    });

    test('is not listed if its address, in whatever letters, is that of a member or of a valid invitation', async () => {
      const user = { id: 'user_joerg', email: 'jörg@example.com', createdAt: madeAt };
      await insertUser(database.db, user, { organizationId: org.id, role: 'member' });
      await invite('member', { email: 'JÖRG@example.com' });
      await invite('replaced', { email: 'Élise@example.com' });
      await invite('valid', { email: 'élise@EXAMPLE.com', expiresAt: now + 1 });
      await invite('kept', { email: 'lee@example.com' });
      await invite('useless', {
        email: 'lee@example.com',
        createdBy: 'user:user_gone',
        expiresAt: now + 1,
      });
      await invite('theirs', {
        email: 'lee@example.com',
        organizationId: 'org_other',
        createdBy: 'operator',
        expiresAt: now + 1,
      });

      expect(await found()).toEqual([expect.stringContaining(' lee@example.com ')]);
    });

    test('is found behind more than a hundred that are not listed', async () => {
      await invite('kept', { expiresAt: now - 2 });
      for (let place = 0; place < 205; place += 1) {
        await invite(`again${place}`, { email: 'lee@example.com', expiresAt: now - 1 });
      }
      await invite('valid', { email: 'lee@example.com', expiresAt: now + 1 });

      expect(await found()).toEqual([expect.stringContaining(' kept@example.com ')]);
    });
  });

  test('is what people who left had created, for each of them', async () => {
    const { db } = database;
    const createdBy = 'user:user_dana';
    await insertKey(db, newKey({ createdBy }));
    await insertClient(db, newClient({ createdBy }));
    await removeMember(db, org.id, 'user_dana', 'admin');

    expect(await found()).toEqual([
      'owner-missing: 2 keys, clients and agents of dana@example.com need an owner → /people/needs-owner',
    ]);
  });

  test('is a mail server that fails, and an address that refuses mail until it accepts one', async () => {
    const { db } = database;
    const settings = { host: 'smtp.example.com', port: 587, security: 'starttls' } as const;
    const others = { user: undefined, sealedPassword: undefined, from: 'latchkey@example.com' };
    await replaceMailServer(db, org.id, { ...settings, ...others }, madeAt);
    await db
      .updateTable('mail_server')
      .set({ attempts: 2, last_failure_at: now, last_failure: 'could not be reached' })
      .execute();
    const mail = (id: string, status: 'sent' | 'refused', endedAt: number) =>
      db
        .insertInto('mail')
        .values({
          id,
          organization_id: org.id,
          kind: 'notice',
          recipient: 'lee@example.com',
          status,
          next_attempt_at: madeAt,
          created_at: madeAt,
          ended_at: endedAt,
        })
        .execute();
    await mail('mail_a', 'refused', now - 10);
    const before = await found();
    await mail('mail_b', 'sent', now - 5);

    expect(before).toEqual([
      'mail-server: The mail server smtp.example.com could not be reached; 0 mails wait → /settings/mail',
      'mail-undeliverable: A mail to lee@example.com could not be delivered → /settings/mail',
    ]);
    expect(await found()).toHaveLength(1);
  });

  test('is a webhook that fails for an hour or was disabled for that, named without its path', async () => {
    const webhook = (id: string, columns: object) =>
      database.db
        .insertInto('webhook')
        .values({
          id,
          organization_id: org.id,
          url: 'https://hooks.example/services/s3cret',
          actions: '[]',
          sealed_secret: 'sealed',
          sealed_earlier_secret: null,
          earlier_until: null,
          position: 0,
          failing_since: null,
          last_success_at: null,
          last_failure_at: null,
          last_failure: null,
          disabled_at: null,
          disabled_because: null,
          created_at: madeAt,
          ...columns,
        })
        .execute();
    await webhook('webhook_a', { failing_since: now - 3600 });
    await webhook('webhook_b', { failing_since: now - 3599 });
    await webhook('webhook_c', { disabled_at: now, disabled_because: 'failing' });
    await webhook('webhook_d', { disabled_at: now, disabled_because: 'asked' });

    expect(await found()).toEqual([
      'webhook-failing: The webhook to hooks.example gets no events, because its receiver fails → /settings/webhooks/webhook_a',
      'webhook-failing: The webhook to hooks.example was disabled, because events could not be delivered → /settings/webhooks/webhook_c',
    ]);
  });

  test('is at most as many things of a kind as asked for', async () => {
    await Promise.all(
      Array.from({ length: 25 }, (_, place) =>
        insertKey(
          database.db,
          newKey({ id: `key_${place}`, hash: `${place}`, expiresAt: now + 9 }),
        ),
      ),
    );

    expect(await found()).toHaveLength(mostOfAKind);
  });
});
