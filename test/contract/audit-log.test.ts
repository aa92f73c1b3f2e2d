import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { AuditEvent } from '#server/audit/audit-log';
import { exportAudit, type ExportFormat } from '#server/audit/export-audit';
import type { OpenStores } from '#server/stores';
import { openDatabase } from '#support/open-database';

const now = 1_800_000_000;

describe.each([['SQLite', openDatabase]])('the audit log in %s', (_, openOne) => {
  let stores: OpenStores & AsyncDisposable;
  beforeAll(async () => {
    stores = await openOne();
    for (const name of ['acme', 'other']) {
      await stores.organizations.add({ id: `org_${name}`, name, createdAt: now });
    }
    for (let place = 0; place < 40; place += 1) {
      await stores.audit.append(event({ at: now + Math.floor(place / 10), target: `t${place}` }));
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

  test('pages follow each other without a gap or a double, the newest first', async () => {
    const seen: (string | undefined)[] = [];
    let after: { at: number; id: string } | undefined;
    for (;;) {
      const page = await stores.auditReader.read({ organization: 'acme', after, limit: 7 });
      seen.push(...page.map(({ target }) => target));
      after = page.at(-1);
      if (!after) break;
    }

    expect(seen).toEqual(Array.from({ length: 40 }, (__, place) => `t${39 - place}`));
  });

  test('events are found by who, what, on what, how it ended and when', async () => {
    await stores.audit.append(event({ actor: 'user:u', action: 'a', outcome: 'refused', at: 5 }));
    const count = async (query: object) =>
      (await stores.auditReader.read({ organization: 'acme', limit: 100, ...query })).length;

    expect(await count({ actor: 'user:u' })).toBe(1);
    expect(await count({ action: 'a', outcome: 'done' })).toBe(0);
    expect(await count({ target: 't3' })).toBe(1);
    expect(await count({ outcome: 'refused' })).toBe(1);
    expect(await count({ from: now + 1, until: now + 3 })).toBe(20);
    expect(await stores.auditReader.read({ organization: 'other', limit: 9 })).toEqual([]);
    expect(await stores.auditReader.actions('acme')).toEqual(['a', 'key.create']);
    expect(await stores.auditReader.actions('nothing')).toEqual([]);
  });

  test('what a person does everywhere stands in the record of each of their organizations', async () => {
    const user = { id: 'user_both', email: 'both@example.com', createdAt: now };
    for (const name of ['acme', 'other']) {
      await stores.users.add(user, { organizationId: `org_${name}`, role: 'member' });
    }
    const actor = `user:${user.id}`;
    await stores.audit.append(event({ organization: undefined, actor, action: 'sign-in' }));

    const records = await stores.auditReader.read({ organization: undefined, actor, limit: 9 });

    expect(new Set(records.map(({ organization }) => organization))).toEqual(
      new Set(['acme', 'other']),
    );
  });

  test('an export is a table that runs no formula, or one document a line', async () => {
    const target = '=cmd|"x",\n1';
    await stores.audit.append(event({ organization: 'hostile', target, times: 3 }));

    const csv = await exported('hostile', 'csv');
    const lines = (await exported('acme', 'jsonl')).trimEnd().split('\n');

    expect(csv.split('\r\n')[0]).toBe(
      'time,actor,organization,action,target,address,request_id,outcome,times',
    );
    expect(csv).toContain(`"'=cmd|""x"",\\u000a1"`);
    expect(csv).toContain('"2027-01-15T08:00:00.000Z","operator"');
    expect(lines.length).toBeGreaterThan(40);
    expect(JSON.parse(lines[5] ?? '')).toMatchObject({ action: 'key.create', times: 1 });
  });

  test('an event stays as it was written', async () => {
    const change = stores.db.updateTable('audit_event').set({ times: 2 }).execute();

    await expect(change).rejects.toThrow('never changed');
  });

  test.each(['id', 'sequence', 'rowid'])(
    'no event takes the place of one with its %s',
    async (name) => {
      const all = () => stores.connection.prepare('select * from audit_event order by rowid').all();
      const before = all();
      const [kept] = stores.connection.prepare(`select ${name} as it from audit_event`).all();
      const columns = { id: `'new'`, sequence: '1000000', rowid: '1000000', [name]: '?' };
      const { id, sequence, rowid } = columns;
      const replacing = stores.connection.prepare(`insert or replace
      into audit_event (rowid, id, sequence, at, actor, action, outcome)
      values (${rowid}, ${id}, ${sequence}, 0, 'nobody', 'nothing', 'done')`);

      expect(() => replacing.run(kept?.['it'] ?? null)).toThrow('never replaced');
      expect(all()).toEqual(before);
    },
  );
});
