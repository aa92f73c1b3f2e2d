import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { insertAuditEvent, type AuditEvent } from '#server/db/audit';
import {
  insertTotp,
  markTotpConfirmed,
  spendRecoveryCode,
  spendTotpStep,
} from '#server/db/authenticators';
import { insertClient } from '#server/db/clients';
import { insertPendingRequest, takePendingRequest } from '#server/db/consents';
import { insertAttempt } from '#server/db/failed-attempts';
import { beginGrant, insertAuthorizationCode } from '#server/db/authorization-codes';
import { findRefreshToken, spendRefreshToken } from '#server/db/grants';
import { insertInvitation, acceptInvitation } from '#server/db/invitations';
import { updateLastUses } from '#server/db/last-uses';
import { firstLink } from '#server/accounts/one-time-links';
import { insertLink, markChallengeSpent, takeLink } from '#server/db/one-time';
import { hashSecret } from '#server/secrets/secrets';
import { insertOrganization } from '#server/db/organizations';
import {
  changeRole,
  insertUser,
  listMembers,
  removeMember,
  transferOwnership,
  lockRole,
} from '#server/db/people';
import { recordCalls, sumCalls } from '#server/db/rollups';
import { findServer, insertServer, updateServer } from '#server/db/servers';
import { insertSession } from '#server/db/sessions';
import { acceptDefinitions, rejectDefinitions } from '#server/db/definitions';
import type { Definition } from '#server/model/definitions';
import { isPostgres, transaction, type Db } from '#server/db/transaction';
import {
  claimPendingEvent,
  insertWebhook,
  listPendingWebhooks,
  markDelivered,
} from '#server/db/webhooks';
import { onEachDatabase, type TestDatabase, postgres } from '#support/databases';
import { listToolDefinitions, noteTools } from '#support/listed-tools';
import { suite } from '#support/suite';
import { toolDefinition } from '#server/tools/definition';

const now = 1_800_000_000;
const scopes = ['mcp:tools:read'] as const;

/** Eight processes on PostgreSQL. On SQLite, eight tasks of one, as a connection that waits for another blocks its process. */
await onEachDatabase('eight at the same time', ({ open }) => {
  let database: TestDatabase;
  let connections: Db[];
  beforeAll(async () => {
    database = await open();
    const others = isPostgres(database.db)
      ? await Promise.all(Array.from({ length: 7 }, () => database.connectAgain()))
      : Array.from({ length: 7 }, () => database);
    connections = [database, ...others].map(({ db }) => db);
    await insertOrganization(database.db, { id: 'org_1', name: 'acme', createdAt: now });
    const upstream = { kind: 'demo' } as const;
    const server = { id: 'srv_1', organizationId: 'org_1', name: 'sales', upstream };
    await insertServer(database.db, { ...server, targetId: 'target_1', createdAt: now });
    await person('user_dana', 'org_1');
    await insertClient(database.db, {
      id: 'client_1',
      name: 'Claude',
      serverId: 'srv_1',
      scopes,
      redirectUris: [],
      jwks: undefined,
      secretHash: undefined,
      secretHint: undefined,
      createdAt: now,
    });
  });
  afterAll(() => database[Symbol.asyncDispose]());

  const person = async (id: string, organizationId: string) => {
    const user = { id, email: `${id}@example.com`, createdAt: now };
    await insertUser(database.db, user, { organizationId, role: 'owner' });
    return id;
  };
  /** What each connection gets, all at the same time. */
  const each = <Result>(work: (db: Db, place: number) => Promise<Result>): Promise<Result[]> =>
    Promise.all(connections.map(work));
  const count = (results: readonly unknown[], wanted: unknown) =>
    results.filter((result) => result === wanted).length;
  const owners = async (organizationId: string) => {
    const members = await listMembers(database.db, organizationId, { limit: 100 });
    return members.filter(({ role }) => role === 'owner');
  };

  test('of eight owners who leave, are demoted or hand over, one stays', async () => {
    for (const round of [1, 2, 3]) {
      const id = `org_owners_${round}`;
      await insertOrganization(database.db, { id, name: `owners-${round}`, createdAt: now });
      const people = await Promise.all(
        connections.map((_, place) => person(`user_${round}_${place}`, id)),
      );
      await each(async (db, place) => {
        const [userId = '', next = ''] = [people[place], people[(place + 1) % 8]];
        if (place % 3 === 0) return removeMember(db, id, userId, 'owner');
        if (place % 3 === 1) return changeRole(db, id, userId, { from: 'owner', to: 'member' });
        return transferOwnership(db, id, { from: userId, to: next });
      });

      expect((await owners(id)).length).toBeGreaterThan(0);
    }
    const id = 'org_all_leave';
    await insertOrganization(database.db, { id, name: 'all-leave', createdAt: now });
    const people = await Promise.all(connections.map((_, place) => person(`user_l${place}`, id)));
    const left = await each((db, place) => removeMember(db, id, people[place] ?? '', 'owner'));

    expect([count(left, 'done'), count(left, 'last-owner')]).toEqual([7, 1]);
    expect(await owners(id)).toHaveLength(1);
  });

  test('failed attempts are counted exactly, at an account and from a network', async () => {
    const since = { subject: now - 900, place: now - 900 };
    const attempts = (subject: (place: number) => string, place: (at: number) => string) =>
      each(async (db, at) => {
        const waits: number[] = [];
        for (let turn = 0; turn < 5; turn += 1) {
          const attempt = { subject: subject(at), place: place(at), at: now };
          waits.push(
            await insertAttempt(db, attempt, since, ({ atSubject, nearby }) => {
              const all = [...atSubject.values()].reduce((sum, one) => sum + one.count, 0);
              const here = nearby.get(attempt.place)?.count ?? 0;
              return Math.max(all, here) >= 12 ? 1 : 0;
            }),
          );
        }
        return waits;
      });

    const atAccount = await attempts(
      () => 'account',
      (at) => `network ${at}`,
    );
    const fromNetwork = await attempts(
      (at) => `account ${at}`,
      () => 'network',
    );

    expect([count(atAccount.flat(), 0), count(fromNetwork.flat(), 0)]).toEqual([12, 12]);
  });

  describe('exactly one uses', () => {
    const code = {
      hash: 'code',
      grantId: 'grant_1',
      userId: 'user_dana',
      clientId: 'client_1',
      serverId: 'srv_1',
      scopes,
      tools: { type: 'all' } as const,
      redirectUri: 'https://app.example/cb',
      codeChallenge: 'challenge',
      expiresAt: now + 60,
    };
    const grant = {
      ...code,
      id: 'grant_1',
      redirectHost: 'app.example',
      authenticated: false,
      createdAt: now,
      expiresAt: now + 5000,
    };

    test('an authorization code, and then its refresh token', async () => {
      await insertAuthorizationCode(database.db, code, now);

      const begun = await each((db, place) =>
        beginGrant(db, 'code', grant, { hash: `rt ${place}`, expiresAt: now + 1000 }),
      );
      const first = `rt ${begun.indexOf(true)}`;
      const spent = await each((db, place) => {
        const successor = {
          hash: `next ${place}`,
          sealed: `sealed ${place}`,
          expiresAt: now + 1000,
        };
        return spendRefreshToken(db, first, successor, now + 1);
      });

      expect(count(begun, true)).toBe(1);
      const outcomes = spent.map(({ outcome }) => outcome);
      expect([count(outcomes, 'spent'), count(outcomes, 'spent-before')]).toEqual([1, 7]);
      const place = outcomes.indexOf('spent');
      const told = spent.flatMap((one) => (one.outcome === 'spent' ? [] : [one.sealedSuccessor]));
      expect(new Set(told)).toEqual(new Set([`sealed ${place}`]));
      expect(await findRefreshToken(database.db, `next ${(place + 1) % 8}`)).toBeUndefined();
    });

    test('a link, a challenge, a recovery code and the code of an authenticator app', async () => {
      const { db } = database;
      await insertLink(db, 'link', { type: 'reset', userId: 'user_dana' }, now + 60);
      await insertTotp(db, { userId: 'user_dana', sealedSecret: 's', createdAt: now });
      const confirmed = await each((one) =>
        markTotpConfirmed(one, 'user_dana', {
          sealedSecret: 's',
          step: 1,
          now,
          recoveryHashes: ['recovery'],
        }),
      );

      const links = await each((one) => takeLink(one, 'link', now));
      const challenges = await each((one) => markChallengeSpent(one, 'hash', now + 60, now));
      const recovery = await each((one) => spendRecoveryCode(one, 'user_dana', 'recovery'));
      const steps = await each((one) => spendTotpStep(one, 'user_dana', 2));

      expect(count(confirmed, true)).toBe(1);
      expect(links.filter((purpose) => purpose !== undefined)).toHaveLength(1);
      for (const results of [challenges, recovery, steps]) expect(count(results, true)).toBe(1);
    });

    test('an invitation and a pending request for consent', async () => {
      const { db } = database;
      const of = { organizationId: 'org_1', role: 'member', groupIds: [], note: '' } as const;
      const times = { createdAt: now, expiresAt: now + 60 };
      const made = { id: 'invitation_1', tokenHash: 'invitation', createdBy: 'operator' };
      await insertInvitation(db, { ...made, ...of, ...times });
      const session = { id: 'session_1', tokenHash: 'session', userId: 'user_dana' };
      await insertSession(db, {
        ...session,
        factors: 1,
        userAgent: '',
        address: '192.0.2.1',
        createdAt: now,
        usedAt: now,
        expiresAt: now + 60,
      });
      const request = {
        clientId: 'client_1',
        clientName: 'Claude',
        isSelfRegistered: false,
        serverPath: 'acme/sales',
        scopes,
        redirectUri: 'https://app.example/cb',
        state: undefined,
        codeChallenge: 'challenge',
      };
      const shown = { serverId: 'srv_1', scopes };
      const asked = { idHash: 'request', sessionId: 'session_1', userId: 'user_dana' };
      await insertPendingRequest(db, { ...asked, request, shown, expiresAt: now + 60 }, now);

      const taken = await each((one, place) => {
        const id = `user_invited_${place}`;
        const invitee = { id, email: `${id}@example.com`, createdAt: now };
        return acceptInvitation(one, 'invitation', invitee, now);
      });
      const requests = await each((one) => takePendingRequest(one, 'request', 'session_1', now));

      expect([count(taken, 'done'), count(taken, 'invalid')]).toEqual([1, 7]);
      expect(requests.filter((pending) => pending !== undefined)).toHaveLength(1);
    });

    test('the link of the first owner: all processes hand out the same one', async () => {
      let at = now;
      const clock = { now: () => at };
      const masterKey = { mac: (purpose: string, text: string) => `${purpose} of ${text}` };
      const paths = async () => {
        const links = await each((one) => firstLink({ db: one, clock, masterKey }));
        return new Set(links.map((link) => link?.path));
      };
      await database.db.deleteFrom('person').execute();

      const [first, ...others] = await paths();
      at += 600;
      const later = await paths();
      at += 2800;
      const [last, ...more] = await paths();

      expect(others).toEqual([]);
      expect(later).toEqual(new Set([first]));
      expect(more).toEqual([]);
      expect(last).not.toBe(first);
      const token = (path = '') => hashSecret(path.replace('/set-up/', ''));
      expect(await takeLink(database.db, token(first), at)).toBeUndefined();
      expect(await takeLink(database.db, token(last), at)).toEqual({ type: 'set-up' });
    });
  });

  test('events are numbered without gaps, and no reader sees one before those ahead of it', async () => {
    const { db } = database;
    const event: AuditEvent = {
      at: now,
      actor: 'operator',
      organization: 'numbered',
      action: 'key.create',
      target: undefined,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    };
    const stored = async () => {
      const rows = await db
        .selectFrom('audit_event')
        .select('sequence')
        .where('organization', '=', 'numbered')
        .orderBy('sequence')
        .execute();
      return rows.map(({ sequence }) => sequence);
    };
    const upTo = (length: number) => Array.from({ length }, (_, place) => place + 1);
    let isWriting = true;
    const reading = (async () => {
      for (;;) {
        const seen = await stored();
        expect(seen).toEqual(upTo(seen.length));
        if (!isWriting) return;
        await new Promise(setImmediate);
      }
    })();
    const refused = new Error('rolled back');
    await each(async (one, place) => {
      for (let turn = 0; turn < 10; turn += 1) {
        const writing = transaction(one, async (tx) => {
          await insertAuditEvent(tx, event);
          if ((turn + place) % 5 === 0) throw refused;
        });
        await writing.catch((error: unknown) => {
          if (error !== refused) throw error;
        });
      }
    });
    isWriting = false;
    await reading;

    expect(await stored()).toEqual(upTo(64));
  });

  test('each event is claimed by one worker, in order, and again only once a claim has expired', async () => {
    const { db } = database;
    const event = { at: now, actor: 'operator', organization: 'acme', target: undefined } as const;
    const rest = { address: undefined, requestId: undefined, outcome: 'done' } as const;
    const made = { id: 'whk_1', organizationId: 'org_1', url: 'https://siem.example/in' };
    await insertWebhook(db, { ...made, actions: [], sealedSecret: 's', createdAt: now }, 10);
    const actions = Array.from({ length: 20 }, (_, place) => `event.${place}`);
    for (const action of actions) await insertAuditEvent(db, { ...event, ...rest, action });
    const claim = { now, until: now + 15 };
    const sent: string[] = [];

    const lost = await each((one) => claimPendingEvent(one, 'whk_1', claim));
    const early = await each((one) => claimPendingEvent(one, 'whk_1', { ...claim, now: now + 14 }));
    const later = { now: now + 15, until: now + 30 };
    await each(async (one) => {
      while (sent.length < actions.length) {
        const pending = await claimPendingEvent(one, 'whk_1', later);
        if (!pending) {
          await new Promise(setImmediate);
          continue;
        }
        sent.push(pending.event.action);
        await markDelivered(one, pending.place, pending.next, now);
      }
    });

    expect(lost.filter((pending) => pending !== undefined)).toHaveLength(1);
    expect(early.filter((pending) => pending !== undefined)).toEqual([]);
    expect(sent).toEqual(actions);
    expect(await listPendingWebhooks(db)).toEqual([]);
  });

  const tool = (name: string, description: string): Definition => {
    const made = toolDefinition({ name, description, inputSchema: { type: 'object' } });
    if (!made) throw new Error('no tool');
    return made;
  };

  test('109: a new tool, listed by each with another definition, is accepted once and differs at all others', async () => {
    const found = await each(async (db, place) =>
      noteTools(db, 'target_1', [tool('new', `Definition ${place}.`)], now),
    );

    const differing = found.map((one) => one.differing.length);
    expect([count(differing, 0), count(differing, 1)]).toEqual([1, 7]);
    const { digest } = tool('new', `Definition ${differing.indexOf(0)}.`);
    const known = await listToolDefinitions(database.db, 'target_1');
    expect(known.find(({ name }) => name === 'new')).toMatchObject({ accepted: { digest } });
  });

  test('109: changed tools of which each lists another one are all withheld', async () => {
    const { db } = database;
    const names = connections.map((_, place) => `changed-${place}`);
    const before = names.map((name) => tool(name, 'Before.'));
    await noteTools(db, 'target_1', before, now);
    await updateServer(db, 'srv_1', { changedTools: 'withhold' });

    await each(async (one, place) =>
      noteTools(one, 'target_1', [tool(names[place] ?? '', 'After.')], now),
    );

    const withheld = (await findServer(db, 'acme', 'sales'))?.target.offered.withheld.tool;
    expect([...(withheld ?? [])]).toEqual(expect.arrayContaining(names));
  });

  test('a new tool that waits for review, listed by each with another definition, is accepted as it was listed last', async () => {
    const { db } = database;
    await updateServer(db, 'srv_1', { newTools: 'review' });
    const listed = connections.map((_, place) => tool('waiting', `Definition ${place}.`));
    const found = await each(async (one, place) =>
      noteTools(one, 'target_1', [listed[place] ?? tool('', '')], now),
    );
    const read = listed.map(({ name, digest }) => ({ kind: 'tool', name, digest }) as const);
    const accepted = await each(async (one, place) =>
      acceptDefinitions(one, 'target_1', read.slice(place, place + 1), {
        by: `user:${place}`,
        at: now,
      }),
    );
    const known = await listToolDefinitions(db, 'target_1');
    const digest = known.find(({ name }) => name === 'waiting')?.accepted?.digest;
    const offered = (await findServer(db, 'acme', 'sales'))?.target.offered;

    expect(found.map(({ withheld }) => withheld)).toEqual(connections.map(() => ['waiting']));
    expect(accepted.flat()).toEqual([{ kind: 'tool', name: 'waiting', digest }]);
    expect(offered?.withheld.tool?.has('waiting')).toBe(false);
    expect(offered?.open.tool?.has('waiting')).toBe(true);
  });

  test('a tool that is accepted, rejected and listed at the same time is closed exactly if its last definition is not accepted', async () => {
    const { db } = database;
    for (const round of [1, 2, 3]) {
      const name = `contested-${round}`;
      const [good, evil] = [tool(name, 'Good.'), tool(name, 'Evil.')];
      const decision = { by: 'user:user_dana', at: now };
      await updateServer(db, 'srv_1', { newTools: 'offer', changedTools: 'withhold' });
      for (const one of [good, evil]) await noteTools(db, 'target_1', [one], now);
      const read = [{ kind: 'tool', name, digest: evil.digest } as const];
      await each(async (one, place) => {
        if (place % 4 === 0) return acceptDefinitions(one, 'target_1', read, decision);
        if (place % 4 === 1) return rejectDefinitions(one, 'target_1', read, decision);
        return noteTools(one, 'target_1', [place % 4 === 2 ? good : evil], now);
      });
      const known = await listToolDefinitions(db, 'target_1');
      const seen = known.find((one) => one.name === name)?.seen;
      const withheld = (await findServer(db, 'acme', 'sales'))?.target.offered.withheld.tool;

      expect(withheld?.has(name) ?? false).toBe(seen !== undefined);
    }
  });

  test('counts of calls and last uses that are written concurrently add up, in any order', async () => {
    const keys = Array.from({ length: 40 }, (_, place) => `key_${place}`);
    const turned = (place: number) => {
      const at = (place * 5) % keys.length;
      return [...keys.slice(at), ...keys.slice(0, at)];
    };
    const day = now - (now % 86_400);
    const counts = { calls: 1, toolErrors: 0, refused: 0, upstreamErrors: 0, bucket: 1 };
    await each(async (db, place) => {
      for (let turn = 0; turn < 3; turn += 1) {
        const subjects = turn % 2 === 0 ? turned(place) : turned(place).toReversed();
        await recordCalls(
          db,
          subjects.map((subject) => ({
            ...counts,
            at: day,
            serverId: 'srv_1',
            targetId: 'target_1',
            kind: 'key' as const,
            subject,
          })),
        );
        const ids = [...subjects, 'client_1'];
        await updateLastUses(
          db,
          ids.map((id) => ({
            type: id === 'client_1' ? ('client' as const) : ('key' as const),
            id,
            usedAt: now + place,
          })),
        );
      }
    });

    const span = { organizationId: 'org_1', period: 'day', stepSeconds: 86_400 } as const;
    const of = { kind: 'key', serverId: 'srv_1', subject: 'key_7' } as const;
    const sums = await sumCalls(database.db, { ...span, from: day, until: day + 1 }, of);
    expect(sums.map(({ calls }) => calls)).toEqual([24]);
    const client = await database.db
      .selectFrom('oauth_client')
      .select('last_used_at')
      .where('id', '=', 'client_1')
      .executeTakeFirstOrThrow();
    expect(client.last_used_at).toBe(now + 7);
  });
});

await suite(['postgres'], 'a transaction in PostgreSQL', () => {
  test('keeps the role of the person for whom it acts until it ends', async () => {
    await using database = await postgres.open();
    const [{ db }, other] = [database, await database.connectAgain()];
    await insertOrganization(db, { id: 'org_1', name: 'acme', createdAt: now });
    for (const id of ['user_admin', 'user_owner']) {
      const user = { id, email: `${id}@example.com`, createdAt: now };
      const role = id === 'user_admin' ? 'admin' : 'owner';
      await insertUser(db, user, { organizationId: 'org_1', role });
    }
    const order: string[] = [];

    const { removing } = await transaction(db, async (tx) => {
      const role = await lockRole(tx, 'user_admin', 'acme');
      const removed = removeMember(other.db, 'org_1', 'user_admin', 'admin');
      // Long enough for the removal to finish if it did not wait.
      await sql`select pg_sleep(0.2)`.execute(tx);
      order.push(`used as ${role}`);
      return { removing: removed.then((outcome) => order.push(outcome)) };
    });
    await removing;

    expect(order).toEqual(['used as admin', 'done']);
    expect(await lockRole(db, 'user_admin', 'acme')).toBeUndefined();
  });
});
