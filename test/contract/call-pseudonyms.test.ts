import { expect, test } from 'vitest';

import { CallIndexing } from '#server/activity/call-indexing';
import { Pseudonyms, replacePerson } from '#server/activity/pseudonyms';
import { insertContents } from '#server/db/call-contents';
import { findCallers, requestPseudonym } from '#server/db/call-pseudonyms';
import { type CallFilter, searchCalls } from '#server/db/find-calls';
import { insertOrganization } from '#server/db/organizations';
import { deleteUser, insertUser } from '#server/db/people';
import type { Db } from '#server/db/transaction';
import type { EndedCall } from '#server/model/calls';
import { onEachDatabase } from '#support/databases';
import { recordCalls } from '#support/made-calls';

const startMs = 1_800_000_000_000;
const hourMs = 3_600_000;
const requestedAtMs = startMs + 2 * hourMs;
const dana = 'user_dana';
const address = 'Dana@example.com';
const failed = (error: unknown) => {
  throw error;
};

/** Two organizations to which Dana and Eli belong, and their calls two hours before the request. */
async function withCalls(db: Db) {
  for (const name of ['acme', 'other'])
    await insertOrganization(db, { id: `org_${name}`, name, createdAt: 1 });
  for (const organizationId of ['org_acme', 'org_other']) {
    const role = 'member';
    await insertUser(db, { id: dana, email: address, createdAt: 1 }, { organizationId, role });
    const eli = { id: 'user_eli', email: 'eli@example.com', createdAt: 1 };
    await insertUser(db, eli, { organizationId, role });
  }
  const calls: Partial<EndedCall>[] = [
    { userId: dana, subject: 'of_dana' },
    { userId: dana, subject: 'on_a_page', credential: { type: 'person', id: dana } },
    { userId: 'user_eli', subject: 'of_eli' },
    {
      userId: dana,
      subject: 'elsewhere',
      endpoint: { id: 'ep', organization: 'other', name: 'x' },
    },
  ];
  await recordCalls(db, startMs, calls);
  const indexing = new CallIndexing({ db, nowMs: () => requestedAtMs, failed, commitMs: 0 });
  await indexing.run();
  await indexing.close();
}

const request = (db: Db, pseudonym = '7f3a7f3a7f3a') =>
  requestPseudonym(db, { organizationId: 'org_acme', personId: dana, pseudonym, requestedAtMs });

const toolsOf = async (db: Db, filter: CallFilter, organizationId = 'org_acme') => {
  const watermarkMs = startMs + 100 * hourMs;
  const found = await searchCalls(db, { organizationId, filter, limit: 100, watermarkMs });
  return found.calls.map(({ subject = '' }) => subject).toSorted();
};

/** Columns of a call that may lead to its person. */
const replaced = [
  'address',
  'credential_id',
  'credential_name',
  'device_id',
  'person_id',
  'person_name',
] as const;

/** Columns of a call that say nothing about its person. A new column belongs here, or is replaced. */
const unchanged = [
  'account',
  'application',
  'application_source',
  'bytes_in',
  'bytes_out',
  'call_id',
  'credential_type',
  'duration_ms',
  'endpoint_id',
  'endpoint_name',
  'era',
  'error',
  'id',
  'method',
  'node',
  'organization_id',
  'outcome',
  'request_id',
  'started_at_ms',
  'status',
  'subject',
  'target_id',
  'target_name',
  'times',
  'trace_id',
] as const;

/** Everything that is stored about the calls of an organization. */
const stored = async (db: Db, organizationId: string) =>
  JSON.stringify(
    await Promise.all(
      (['call_record', 'call_subject'] as const).map((table) =>
        db.selectFrom(table).selectAll().where('organization_id', '=', organizationId).execute(),
      ),
    ),
  );

await onEachDatabase('pseudonyms in recorded calls', ({ open }) => {
  test('pseudonym: nothing that is stored of the calls names the person, and other people and organizations stay', async () => {
    await using stores = await open();
    const { db } = stores;
    await withCalls(db);
    const onDevice = { device_id: 'device_9f' };
    await db.updateTable('call_record').set(onDevice).where('person_id', '=', dana).execute();
    const others = await stored(db, 'org_other');
    const changed = await replacePerson(db, await request(db));

    const own = await stored(db, 'org_acme');
    expect(changed).toBe(2);
    expect(own).not.toMatch(/user_dana|dana@|device_9f/i);
    expect(own).toContain('eli@example.com');
    expect(await stored(db, 'org_other')).toBe(others);
    const rows = await db
      .selectFrom('call_record')
      .select(['person_id', 'person_name', 'credential_id', 'credential_name', 'address'])
      .where('person_name', 'like', 'Person %')
      .orderBy('id')
      .execute();
    const person = { person_id: 'pseudonym_7f3a7f3a7f3a', person_name: 'Person 7f3a7f3a7f3a' };
    expect(rows).toEqual([
      { ...person, credential_id: 'client_claude', credential_name: '', address: null },
      {
        ...person,
        credential_id: person.person_id,
        credential_name: person.person_name,
        address: null,
      },
    ]);
  });

  test('pseudonym: each column of a call keeps its value or is replaced', async () => {
    await using stores = await open();
    const { db } = stores;
    await withCalls(db);
    const ofPage = db.selectFrom('call_record').selectAll().where('subject', '=', 'on_a_page');
    await db
      .updateTable('call_record')
      .set({ device_id: 'device_9f', address: '192.0.2.1', credential_name: address })
      .where('subject', '=', 'on_a_page')
      .execute();
    const before = await ofPage.executeTakeFirstOrThrow();
    await replacePerson(db, await request(db));
    const after = await ofPage.executeTakeFirstOrThrow();

    expect(Object.keys(after).toSorted()).toEqual([...replaced, ...unchanged].toSorted());
    for (const column of replaced) expect(after[column]).not.toBe(before[column]);
    for (const column of unchanged) expect(after[column]).toBe(before[column]);
  });

  test('pseudonym: the calls are found by it, and no longer by ID or address', async () => {
    await using stores = await open();
    const { db } = stores;
    await withCalls(db);
    await replacePerson(db, await request(db));

    const person = 'pseudonym_7f3a7f3a7f3a';
    expect(await toolsOf(db, { person })).toEqual(['of_dana', 'on_a_page']);
    expect(await toolsOf(db, { credential: person })).toEqual(['on_a_page']);
    for (const filter of [
      { person: dana },
      { personName: 'dana@example.com' },
      { credential: dana },
    ])
      expect(await toolsOf(db, filter)).toEqual([]);
    expect(await toolsOf(db, { person: dana }, 'org_other')).toEqual(['elsewhere']);
    expect(await toolsOf(db, { person: 'user_eli' })).toEqual(['of_eli']);
  });

  test('pseudonym: arguments and results of the calls are deleted, also those that are stored later', async () => {
    await using stores = await open();
    const { db } = stores;
    await withCalls(db);
    const ids = await db
      .selectFrom('call_record')
      .select(['id', 'target_id as targetId', 'organization_id as organizationId', 'subject'])
      .execute();
    const content = { kind: 'arguments', sealed: 'x', isCut: false } as const;
    const store = () =>
      insertContents(
        db,
        ids.map((one) => ({ ...one, ...content })),
      );
    const kept = async () => {
      const rows = await db.selectFrom('call_content').select('id').execute();
      return rows.map(({ id }) => ids.find((one) => one.id === id)?.subject ?? '').toSorted();
    };
    await store();
    const first = await request(db);
    await replacePerson(db, first);
    const once = await kept();
    await store();
    await replacePerson(db, { ...first, rounds: 1 });

    const others = ['elsewhere', 'of_eli'];
    expect([once, await kept()]).toEqual([others, others]);
  });

  test('pseudonym: calls that are written late get it in a later round, those that start later keep the name', async () => {
    await using stores = await open();
    const { db } = stores;
    await withCalls(db);
    let nowMs = requestedAtMs - 1;
    await request(db);
    const working = new Pseudonyms({ db, nowMs: () => nowMs, failed });
    const due = async (ms: number) => {
      nowMs = requestedAtMs + ms;
      await working.run();
      return db.selectFrom('call_pseudonym').select('rounds').execute();
    };
    const named = () => toolsOf(db, { person: dana });
    await working.run();
    const before = await named();
    const rounds = [await due(0)];
    const late = { userId: dana, startedAtMs: requestedAtMs - 5000 };
    await recordCalls(db, requestedAtMs + 60_000, [
      { ...late, subject: 'late' },
      { userId: dana, subject: 'after' },
    ]);
    const between = await named();
    rounds.push(await due(600_000 - 1), await due(600_000));
    await recordCalls(db, requestedAtMs + hourMs, [{ ...late, subject: 'very_late' }]);
    rounds.push(await due(86_400_000));
    await working.close();

    expect(before).toEqual(['of_dana', 'on_a_page']);
    expect(between).toEqual(['after', 'late']);
    expect(await named()).toEqual(['after']);
    expect(rounds).toEqual([[{ rounds: 1 }], [{ rounds: 1 }], [{ rounds: 2 }], []]);
    expect(await toolsOf(db, { person: 'pseudonym_7f3a7f3a7f3a' })).toEqual([
      'late',
      'of_dana',
      'on_a_page',
      'very_late',
    ]);
  });

  test('pseudonym: more calls than a step goes through, and a second request keeps the first pseudonym until it is done', async () => {
    await using stores = await open();
    const { db } = stores;
    await withCalls(db);
    const many = Array.from({ length: 1100 }, (_, at) => ({ userId: at % 2 ? dana : 'user_eli' }));
    await recordCalls(db, startMs + 1, many);
    await request(db);
    const again = await request(db, 'another');

    expect(await replacePerson(db, again)).toBe(552);
    expect(again.pseudonym).toBe('7f3a7f3a7f3a');
    expect(await stored(db, 'org_acme')).not.toContain(dana);
  });

  test('pseudonym: a deleted account is found by the address that its calls carry', async () => {
    await using stores = await open();
    const { db } = stores;
    await withCalls(db);
    await deleteUser(db, dana);

    expect(await findCallers(db, 'org_acme', 'dana@example.com')).toEqual([dana]);
    expect(await findCallers(db, 'org_acme', 'nobody@example.com')).toEqual([]);
    await replacePerson(db, await request(db));
    expect(await findCallers(db, 'org_acme', 'dana@example.com')).toEqual([]);
    expect(await findCallers(db, 'org_other', 'dana@example.com')).toEqual([dana]);
  });
});
