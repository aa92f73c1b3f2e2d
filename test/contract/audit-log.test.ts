import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import {
  type AuditEvent,
  auditTick,
  insertAuditEvent,
  listAuditEvents,
  listAuditActions,
  removeOldAuditEvents,
} from '#server/db/audit';
import { insertOrganization } from '#server/db/organizations';
import { exportAudit, type ExportFormat } from '#server/audit/export-audit';
import { insertUser } from '#server/db/people';
import { insertWebhook } from '#server/db/webhooks';
import { openDatabase } from '#support/open-database';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const now = 1_800_000_000;

await onEachDatabase('audit log', ({ open: openOne }) => {
  let stores: TestDatabase;
  beforeAll(async () => {
    stores = await openOne();
    for (const name of ['acme', 'other']) {
      await insertOrganization(stores.db, { id: `org_${name}`, name, createdAt: now });
    }
    for (let place = 0; place < 40; place += 1) {
      await insertAuditEvent(
        stores.db,
        event({ at: now + Math.floor(place / 10), target: `t${place}` }),
      );
    }
  });
  afterAll(() => stores[Symbol.asyncDispose]());

  const event = (but: Partial<AuditEvent> = {}): AuditEvent => ({
    at: now,
    actor: 'operator',
    organization: 'acme',
    action: 'key.create',
    target: undefined,
    address: '192.0.2.1',
    requestId: 'r',
    outcome: 'done',
    ...but,
  });
  const exported = async (organization: string, format: ExportFormat) => {
    const pieces = [];
    for await (const piece of exportAudit({ organization }, format, stores)) pieces.push(piece);
    return pieces.join('');
  };

  test('an event that is added later is listed where it happened', async () => {
    await insertOrganization(stores.db, { id: 'org_late', name: 'late', createdAt: now });
    const add = (target: string, tick?: bigint) =>
      insertAuditEvent(
        stores.db,
        event({ organization: 'late', target, ...(tick !== undefined && { tick }) }),
      );
    await add('first');
    const tick = auditTick();
    await add('third');
    await add('second', tick);

    const listed = await listAuditEvents(stores.db, { organization: 'late', limit: 9 });

    expect(listed.map(({ target }) => target)).toEqual(['third', 'second', 'first']);
  });

  test('pages follow each other newest first, without gaps or duplicates', async () => {
    const seen: (string | undefined)[] = [];
    let after: { at: number; id: string } | undefined;
    for (;;) {
      const page = await listAuditEvents(stores.db, { organization: 'acme', after, limit: 7 });
      seen.push(...page.map(({ target }) => target));
      after = page.at(-1);
      if (!after) break;
    }

    expect(seen).toEqual(Array.from({ length: 40 }, (__, place) => `t${39 - place}`));
  });

  test('events are found by actor, action, target, outcome and time', async () => {
    await insertAuditEvent(
      stores.db,
      event({ actor: 'user:u', action: 'a', outcome: 'refused', at: 5 }),
    );
    const count = async (query: object) =>
      (await listAuditEvents(stores.db, { organization: 'acme', limit: 100, ...query })).length;

    expect(await count({ actor: 'user:u' })).toBe(1);
    expect(await count({ action: 'a', outcome: 'done' })).toBe(0);
    expect(await count({ target: 't3' })).toBe(1);
    expect(await count({ outcome: 'refused' })).toBe(1);
    expect(await count({ from: now + 1, until: now + 3 })).toBe(20);
    expect(await listAuditEvents(stores.db, { organization: 'other', limit: 9 })).toEqual([]);
    expect(await listAuditActions(stores.db, 'acme')).toEqual(['a', 'key.create']);
    expect(await listAuditActions(stores.db, 'nothing')).toEqual([]);
  });

  test('an event of a person outside any organization appears in each of their organizations', async () => {
    const user = { id: 'user_both', email: 'both@example.com', createdAt: now };
    for (const name of ['acme', 'other']) {
      await insertUser(stores.db, user, { organizationId: `org_${name}`, role: 'member' });
    }
    const actor = `user:${user.id}`;
    await insertAuditEvent(stores.db, event({ organization: undefined, actor, action: 'sign-in' }));

    const records = await listAuditEvents(stores.db, { organization: undefined, actor, limit: 9 });

    expect(new Set(records.map(({ organization }) => organization))).toEqual(
      new Set(['acme', 'other']),
    );
  });

  test('an export is CSV without formulas, or one JSON document per line', async () => {
    const target = '=cmd|"x",\n1';
    await insertAuditEvent(stores.db, event({ organization: 'hostile', target, times: 3 }));

    const csv = await exported('hostile', 'csv');
    const lines = (await exported('acme', 'jsonl')).trimEnd().split('\n');

    expect(csv.split('\r\n')[0]).toBe(
      'time,actor,organization,action,target,address,request_id,outcome,times,actor_email,target_email',
    );
    expect(csv).toContain(`"'=cmd|""x"",\\u000a1"`);
    expect(csv).toContain('"2027-01-15T08:00:00.000Z","operator"');
    expect(lines.length).toBeGreaterThan(40);
    expect(JSON.parse(lines[5] ?? '')).toMatchObject({ action: 'key.create', times: 1 });
  });

  test('an export has the addresses of people who still have an account', async () => {
    const { db } = stores;
    const [organization, joined] = ['addressed', { createdAt: now }];
    await insertOrganization(db, { id: 'org_addressed', name: organization, ...joined });
    for (const name of ['ann', 'bob', 'eve']) {
      const id = `user_${name}`;
      const person = { id, email: `${name}@example.com`, passwordHash: null, ...joined };
      await insertUser(db, person, { organizationId: 'org_other', role: 'member' });
    }
    const add = (but: Partial<AuditEvent>) => insertAuditEvent(db, event({ organization, ...but }));
    const onPerson = (id: string) => ({ action: 'person.offboard', target: `user:${id}` });
    await add({ actor: 'user:user_ann', ...onPerson('user_bob') });
    await add({ actor: 'client:client_a:user_ann', ...onPerson('user_eve'), outcome: 'refused' });
    await add({ actor: 'user:user_gone', ...onPerson('user_gone') });

    const lines = (await exported(organization, 'jsonl')).trimEnd().split('\n');

    const people = lines.map((line) => {
      const { actor_email: actor, target_email: target } = JSON.parse(line);
      return [actor, target];
    });
    expect(people.toReversed()).toEqual([
      ['ann@example.com', 'bob@example.com'],
      // A refused request may name people of other organizations.
      ['ann@example.com', null],
      [null, null],
    ]);
  });

  test('a recorded event cannot be changed', async () => {
    const change = stores.db.updateTable('audit_event').set({ times: 2 }).execute();

    await expect(change).rejects.toThrow('never changed');
  });

  test('an insertion cannot change a recorded event', async () => {
    const first = stores.db.selectFrom('audit_event').selectAll().limit(1);
    const kept = await first.executeTakeFirstOrThrow();
    const changing = stores.db
      .insertInto('audit_event')
      .values(kept)
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ times: 2 }))
      .execute();

    await expect(changing).rejects.toThrow(/never (changed|replaced)/);
  });

  test('events of an organization are numbered from one without gaps, in the order of their storing', async () => {
    const order = async () =>
      stores.db
        .selectFrom('audit_event')
        .select(['sequence', 'action'])
        .where('organization', '=', 'numbered')
        .orderBy('sequence')
        .execute();
    for (const [place, action] of ['first', 'second', 'third'].entries()) {
      await insertAuditEvent(
        stores.db,
        event({ organization: 'numbered', action, at: now - place }),
      );
    }

    expect(await order()).toEqual([
      { sequence: 1, action: 'first' },
      { sequence: 2, action: 'second' },
      { sequence: 3, action: 'third' },
    ]);
  });

  describe('retention', () => {
    const day = 86_400;
    /** The database checks ages by its own clock. */
    const today = Math.floor(Date.now() / 1000);
    const count = async (organization: string) =>
      (await listAuditEvents(stores.db, { organization, limit: 100 })).length;
    const fill = async (organization: string) => {
      const createdAt = today - 400 * day;
      await insertOrganization(stores.db, {
        id: `org_${organization}`,
        name: organization,
        createdAt,
      });
      for (let age = 100; age >= 0; age -= 10) {
        const target = `${age} days`;
        await insertAuditEvent(stores.db, event({ organization, target, at: today - age * day }));
      }
    };
    const remove = (days: number, limit = 1000) =>
      removeOldAuditEvents(stores.db, { before: today - days * day, limit, now: today });

    test('old events are removed, the oldest first, and an event records it', async () => {
      await remove(400);
      await fill('old');

      expect(await remove(65, 3)).toBe(3);
      expect(await remove(65)).toBe(1);
      expect(await remove(65)).toBe(0);

      const left = await listAuditEvents(stores.db, { organization: 'old', limit: 100 });
      const date = new Date((today - 65 * day) * 1000).toISOString().slice(0, 10);
      expect(left.filter(({ action }) => action === 'audit.expire')).toMatchObject([
        { actor: 'system', target: `1 entry from before ${date}` },
        { actor: 'system', target: `3 entries from before ${date}` },
      ]);
      expect(left.map(({ target }) => target)).toContain('60 days');
      expect(left.map(({ target }) => target)).not.toContain('70 days');
      expect(left).toHaveLength(9);
    });

    test('an event that a webhook has not received yet is kept', async () => {
      await fill('hooked');
      await insertWebhook(
        stores.db,
        {
          id: 'whk_1',
          organizationId: 'org_hooked',
          url: 'https://siem.example/in',
          createdAt: today,
          actions: [],
          sealedSecret: 's',
        },
        10,
      );
      await stores.db.updateTable('webhook').set({ position: 2 }).execute();

      await remove(45);
      expect(await count('hooked')).toBe(11 - 2 + 1);

      await stores.db.updateTable('webhook').set({ disabled_at: today }).execute();
      await remove(45);
      expect(await count('hooked')).toBe(5 + 2);
    });

    test('no event of the last thirty days is removed, even on request', async () => {
      await fill('young');

      await expect(remove(15)).rejects.toThrow('never removed');

      expect(await count('young')).toBe(11);
      await expect(stores.db.deleteFrom('audit_event').execute()).rejects.toThrow('never removed');
    });

    test('sequence numbers continue after those of removed events', async () => {
      await fill('numbers');
      await remove(31);

      const { sequence } = await stores.db
        .selectFrom('audit_event')
        .select('sequence')
        .where('organization', '=', 'numbers')
        .orderBy('sequence', 'desc')
        .executeTakeFirstOrThrow();

      expect(sequence).toBe(12);
    });
  });
});

describe('audit log in SQLite', () => {
  test.each(['id', 'sequence', 'rowid'])(
    'no event can replace one with the same %s',
    async (name) => {
      await using stores = await openDatabase();
      for (const organization of ['acme', undefined]) {
        const about = { at: now, actor: 'operator', organization, target: undefined };
        const rest = { address: undefined, requestId: undefined, outcome: 'done' } as const;
        await insertAuditEvent(stores.db, { ...about, ...rest, action: 'a' });
      }
      const all = () => stores.connection.prepare('select rowid, * from audit_event').all();
      const before = all();
      const replace = stores.connection.prepare(`insert or replace
        into audit_event (rowid, id, sequence, organization, at, actor, action, outcome)
        values (?, ?, ?, ?, 0, 'nobody', 'nothing', 'done')`);
      const replacing = before.map((kept) => () => {
        const row = {
          rowid: 1_000_000,
          id: 'new',
          sequence: 1_000_000,
          [name]: kept[name] ?? null,
        };
        replace.run(row.rowid, row.id, row.sequence, kept['organization'] ?? null);
      });

      expect(replacing).toHaveLength(2);
      for (const one of replacing) expect(one).toThrow('never replaced');
      expect(all()).toEqual(before);
    },
  );
});
