import { sql } from 'kysely';
import { expect, test } from 'vitest';

import { CallIndexing } from '#server/activity/call-indexing';
import { CallLog } from '#server/activity/call-log';
import { claimQuarters, indexQuarter } from '#server/db/call-index';
import { callQuarterMs, callQuarterOf, writeCalls } from '#server/db/calls';
import { requestPseudonym } from '#server/db/call-pseudonyms';
import { searchCalls, type CallFilter, type CallSearch } from '#server/db/find-calls';
import { insertOrganization } from '#server/db/organizations';
import type { Db } from '#server/db/transaction';
import type { CallRecord, EndedCall } from '#server/model/calls';
import { onEachDatabase } from '#support/databases';
import { indexCalls, madeCall } from '#support/made-calls';

const organizationId = 'org_acme';
const startMs = 2_000_000 * callQuarterMs;
const failed = (error: unknown) => {
  throw error;
};

/** Writes calls, each at its own time. */
async function write(
  db: Db,
  calls: readonly (Partial<EndedCall> & { readonly atMs: number })[],
  wrote?: CallIndexing['wrote'],
): Promise<void> {
  let nowMs = startMs;
  const log = logOf(db, () => nowMs, wrote);
  for (const { atMs, ...call } of calls) {
    if (atMs !== nowMs) await log.flush();
    nowMs = atMs;
    log.note(madeCall(call));
  }
  await log.close();
}

function logOf(db: Db, nowMs: () => number, wrote?: CallIndexing['wrote']): CallLog {
  return new CallLog({
    write: async (writes) => {
      await writeCalls(db, writes);
      wrote?.(writes);
    },
    namesOf: async (kind, ids) =>
      new Map(ids.map((id) => [id, kind === 'organization' ? `org_${id}` : id])),
    node: 'one',
    nowMs,
    failed,
  });
}

/** All calls that a search finds, page by page. */
async function findAll(db: Db, filter: CallFilter, but: Partial<CallSearch> = {}) {
  const pages: (readonly CallRecord[])[] = [];
  let { from } = but;
  const side = from?.side ?? 'older';
  for (;;) {
    const search = { organizationId, filter, limit: 7, watermarkMs: startMs * 2, ...but, from };
    const { calls, hasMore, stoppedAt } = await searchCalls(db, search);
    if (side === 'older') pages.push(calls);
    else pages.unshift(calls);
    const id = stoppedAt ?? (side === 'older' ? calls.at(-1) : calls[0])?.id;
    if (!hasMore || id === undefined) return pages.flat().map(({ subject }) => subject);
    from = { id, side };
  }
}

/** A `CallIndexing` that ran before the calls began, and whose clock is now past their end. `told` gets its errors. */
async function indexingOf(db: Db, told: (error: unknown) => void = failed): Promise<CallIndexing> {
  let nowMs = startMs - callQuarterMs;
  const indexing = new CallIndexing({ db, nowMs: () => nowMs, failed: told, commitMs: 0 });
  await indexing.run();
  nowMs = startMs * 2;
  return indexing;
}

/** The whole index. */
async function indexOf(db: Db) {
  const quarters = await db
    .selectFrom('call_quarter')
    .select(['quarter', 'calls', 'seconds'])
    .orderBy('quarter')
    .execute();
  const subjects = await db
    .selectFrom('call_subject')
    .selectAll()
    .orderBy('quarter')
    .orderBy('kind')
    .orderBy('subject')
    .execute();
  return { quarters, subjects };
}

const applications = ['Claude 1', 'Claude 2', 'Cursor'];

/** Calls of many subjects over three quarters of an hour, with a pause of an hour in between; tools have the number of the call. */
const mixed = Array.from({ length: 240 }, (_, place) => {
  const end = place % 11 === 0 ? ('tool_error' as const) : ('ok' as const);
  return {
    atMs: startMs + Math.floor(place / 3) * 23_456 + (place > 150 ? 3_600_000 : 0),
    userId: `person_${(place * 7) % 13}`,
    credential: { type: 'key' as const, id: `key_${place % 5}` },
    application: {
      text: applications[(place * 5) % 3] ?? '',
      source: 'client_info' as const,
    },
    target: { id: `target_${place % 4}`, name: 'web' },
    subject: `tool_${place % 6} ${place}`,
    end: place % 17 === 0 ? ('refused' as const) : end,
    error: place % 17 === 0 ? 'insufficient_scope' : undefined,
    account: place % 7 === 0 ? ('fixed_headers' as const) : ('none' as const),
  };
});

const filters: Readonly<Record<string, CallFilter>> = {
  everything: {},
  'a person': { person: 'person_4' },
  'a key': { credential: 'key_2' },
  'an application': { application: 'Cursor' },
  'an application with any version': { application: 'Claude', hasAnyVersion: true },
  'applications by a pattern': { application: 'Claude*' },
  'a server': { target: 'target_1' },
  'tools by a pattern': { names: ['tool_3*', '*_4 *'] },
  'a person and tools': { person: 'person_4', names: ['tool_1*'] },
  'a person and a server': { person: 'person_4', target: 'target_3' },
  'a person and a key, failed': { person: 'person_1', credential: 'key_0', end: 'failed' },
  failed: { end: 'failed' },
  'failed in an application': { end: 'failed', application: 'Claude 2' },
  'one of several errors': { error: ['insufficient_scope', 'closed_tool'] },
  'none of the errors': { error: [] },
  'an account': { account: 'fixed_headers' },
  'an account of a person': { account: 'fixed_headers', person: 'person_4' },
  'an account that was never used': { account: 'server_account' },
  'an error code': { error: 'insufficient_scope' },
  'a time': { person: 'person_4', fromMs: startMs + 300_000, untilMs: startMs + 4_500_000 },
  nobody: { person: 'nobody' },
};

function expected(filter: CallFilter): readonly string[] {
  const { person, credential, application, target, names, end, error, account } = filter;
  const is = (pattern: string | undefined, text: string) =>
    pattern === undefined || new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(text);
  return mixed
    .filter(
      (call) =>
        is(person, call.userId) &&
        is(credential, call.credential.id) &&
        is(filter.hasAnyVersion ? `${application} *` : application, call.application.text) &&
        is(target, call.target.id) &&
        (!names || names.some((name) => is(name, call.subject))) &&
        (end !== 'failed' || call.end !== 'ok') &&
        (error === undefined || [error].flat().includes(call.error ?? '')) &&
        is(account, call.account) &&
        call.atMs >= (filter.fromMs ?? 0) &&
        call.atMs < (filter.untilMs ?? Infinity),
    )
    .map(({ subject }) => subject)
    .toReversed();
}

await onEachDatabase('the index of recorded calls', ({ open }) => {
  test('a search finds the same without an index, with one, and with an index of the older half', async () => {
    await using stores = await open();
    const { db } = stores;
    await write(db, mixed);
    const find = async () => {
      const found: Record<string, unknown> = {};
      for (const [name, filter] of Object.entries(filters)) {
        const from = { id: '000000000000', side: 'newer' as const };
        found[name] = [await findAll(db, filter), await findAll(db, filter, { from })];
      }
      return found;
    };
    const all = Object.entries(filters).map(([name, filter]) => [
      name,
      [expected(filter), expected(filter)],
    ]);

    const without = await find();
    await indexCalls(db, startMs + 2 * callQuarterMs);
    const half = await find();
    await indexCalls(db, startMs * 2);
    const indexed = await find();

    expect(without).toEqual(Object.fromEntries(all));
    expect(half).toEqual(without);
    expect(indexed).toEqual(without);
  });

  test('the index of what a process has written is the same as that of the rows', async () => {
    const made = async (isNoted: boolean) => {
      await using stores = await open();
      const indexing = await indexingOf(stores.db);
      await write(stores.db, mixed, isNoted ? (writes) => indexing.wrote(writes) : undefined);
      await indexing.run();
      await indexing.close();
      return await indexOf(stores.db);
    };

    const noted = await made(true);

    expect(noted.quarters.length).toBeGreaterThan(2);
    expect(noted).toEqual(await made(false));
  });

  test('what a process has written is indexed without reading the rows again', async () => {
    await using stores = await open();
    const { db } = stores;
    const indexing = await indexingOf(db);
    await write(db, [{ atMs: startMs, subject: 'written' }], (writes) => indexing.wrote(writes));
    await db.updateTable('call_record').set({ subject: 'changed' }).execute();

    await indexing.run();
    await indexing.close();

    expect((await indexOf(db)).subjects.find(({ kind }) => kind === 'name')?.subject).toBe(
      'written',
    );
  });

  test('calls of other processes and of an earlier start are indexed with those that were noted', async () => {
    await using stores = await open();
    const { db } = stores;
    const indexing = await indexingOf(db);
    const wrote: CallIndexing['wrote'] = (writes) => indexing.wrote(writes);
    const call = { atMs: startMs, userId: 'dana' };
    await write(db, [{ ...call, atMs: startMs + 9000, subject: 'of another process' }]);
    const otherLetters = sql<string>`substr(id, 1, 16) || 'ffffffff'`;
    await db.updateTable('call_record').set({ id: otherLetters }).execute();
    await write(db, [{ ...call, subject: 'noted' }], wrote);
    await write(db, [{ ...call, atMs: startMs + callQuarterMs, subject: 'noted later' }], wrote);
    await write(db, [{ ...call, atMs: startMs + callQuarterMs, subject: 'not noted' }]);

    await indexing.run();
    await indexing.close();

    const all = ['not noted', 'noted later', 'of another process', 'noted'];
    const { quarters } = await indexOf(db);
    expect(quarters.flatMap(({ calls }) => calls || [])).toEqual([2, 2]);
    expect(await findAll(db, { person: 'dana' })).toEqual(all);
    for (const name of all) expect(await findAll(db, { names: [name] })).toEqual([name]);
  });

  test('a person who is getting a pseudonym is not in the index, also if the calls were noted', async () => {
    await using stores = await open();
    const { db } = stores;
    const indexing = await indexingOf(db);
    const call = { atMs: startMs, userId: 'dana' };
    await write(db, [call], (writes) => indexing.wrote(writes));
    await db.updateTable('call_record').set({ person_id: 'pseudonym_1' }).execute();
    await insertOrganization(db, { id: organizationId, name: 'acme', createdAt: 1 });
    const request = { organizationId, personId: 'dana', pseudonym: '1' };
    await requestPseudonym(db, { ...request, requestedAtMs: startMs + 1000 });

    await indexing.run();
    await indexing.close();

    const people = (await indexOf(db)).subjects.filter(({ kind }) => kind === 'person');
    expect(people.map(({ subject }) => subject)).toEqual(['pseudonym_1']);
  });

  test('an account is found in quarters that an earlier version has indexed', async () => {
    await using stores = await open();
    const { db } = stores;
    await write(db, mixed);
    await indexCalls(db, startMs * 2);
    await db
      .deleteFrom('call_subject')
      .where('kind', '=', 'account')
      .where('quarter', '<=', callQuarterOf(startMs))
      .execute();
    const filter = { account: 'fixed_headers', person: 'person_4' } as const;

    expect(await findAll(db, filter)).toEqual(expected(filter));
  });

  test('a search reads no row of seconds in which a subject of its filter has no calls', async () => {
    await using stores = await open();
    const { db } = stores;
    const calls = Array.from({ length: 100 }, (_, place) => ({
      atMs: startMs + place * 5000,
      userId: place % 10 === 0 ? 'dana' : 'eli',
    }));
    await write(db, calls);
    await indexCalls(db, startMs * 2);
    await db
      .updateTable('call_record')
      .set({ person_id: 'dana' })
      .where('person_id', '=', 'eli')
      .execute();

    expect(await findAll(db, { person: 'dana' })).toHaveLength(10);
  });

  test('a search that is stopped continues where it was, without gaps or repetitions', async () => {
    await using stores = await open();
    const { db } = stores;
    const calls = Array.from({ length: 9000 }, (_, place) => ({
      atMs: startMs + Math.floor(place / 500) * 1000,
      userId: place % 900 === 7 ? 'dana' : 'eli',
      subject: `${place}`,
    }));
    await write(db, calls);
    const signal = AbortSignal.abort();
    const wanted = ['8107', '7207', '6307', '5407', '4507', '3607', '2707', '1807', '907', '7'];
    const search = {
      organizationId,
      filter: { person: 'dana' },
      limit: 7,
      watermarkMs: startMs * 2,
    };

    const first = await searchCalls(db, { ...search, signal });
    const older = await findAll(db, search.filter, { signal });
    const from = { id: '000000000000', side: 'newer' as const };
    const newer = await findAll(db, search.filter, { signal, from });

    expect(first.hasMore).toBe(true);
    expect(first.calls.length).toBeGreaterThan(0);
    expect(first.calls.length).toBeLessThan(5);
    expect(first.calls.map(({ subject }) => subject)).toEqual(wanted.slice(0, first.calls.length));
    expect(first.stoppedAt).toMatch(/^[\da-f]{24}$/);
    expect(older).toEqual(wanted);
    expect(newer).toEqual(wanted);
  });

  test('a call that ends after its quarter was indexed is found by its end', async () => {
    await using stores = await open();
    const { db } = stores;
    await write(db, [{ atMs: startMs, subject: 'beside it', end: 'tool_error' }]);
    const log = logOf(db, () => startMs + 5000);
    const call = madeCall({ subject: 'slow' });
    const row = await log.begin(call);
    await indexCalls(db, startMs * 2);
    const before = await findAll(db, { end: 'failed' });
    log.note({ ...call, end: 'tool_error' }, row);
    await log.close();

    const ended = await findAll(db, { end: 'tool_error' });
    await indexCalls(db, startMs * 2);

    expect(before).toEqual(['slow', 'beside it']);
    expect(ended).toEqual(['slow', 'beside it']);
    expect(await findAll(db, { end: 'tool_error' })).toEqual(['slow', 'beside it']);
  });

  test('a call that ends while its quarter is indexed leaves it without index', async () => {
    await using stores = await open();
    const { db } = stores;
    const log = logOf(db, () => startMs);
    const call = madeCall({ subject: 'slow' });
    const row = await log.begin(call);
    const quarter = callQuarterOf(startMs);
    const [claimed] = await claimQuarters(db, organizationId, [quarter], startMs);
    if (!claimed) throw new Error('not claimed');
    log.note({ ...call, end: 'tool_error' }, row);
    await log.close();

    await indexQuarter(db, claimed);

    expect(await db.selectFrom('call_quarter').select('calls').execute()).toEqual([]);
  });

  test('a quarter is indexed by one process at a time, and by another if that one has ended', async () => {
    await using stores = await open();
    const { db } = stores;
    const claim = async (nowMs: number) => {
      const claimed = await claimQuarters(db, organizationId, [7, 8], nowMs);
      return claimed.map(({ quarter }) => quarter).toSorted((one, other) => one - other);
    };
    const [first] = await claimQuarters(db, organizationId, [7], startMs);
    if (first) await indexQuarter(db, first);

    expect(await claim(startMs)).toEqual([8]);
    expect(await claim(startMs + 599_000)).toEqual([]);
    expect(await claim(startMs + 601_000)).toEqual([8]);
  });

  test('half a character at the end of a name, which a caller can bring about, is found like any other', async () => {
    await using stores = await open();
    const { db } = stores;
    const errors: unknown[] = [];
    const indexing = await indexingOf(db, (error) => errors.push(error));
    // The text that replaces the password is longer, so the last character is cut.
    const cut = `pwd=abc ${'x'.repeat(190)}👍`;
    const calls = [cut, '\ud800'].map((subject) => ({ atMs: startMs, subject }));
    await write(db, calls, (writes) => indexing.wrote(writes));
    await indexing.run();
    await indexing.close();

    expect(errors).toEqual([]);
    const found = await findAll(db, {});
    expect(found).toHaveLength(2);
    expect(await findAll(db, { names: found.map((name) => name ?? '') })).toEqual(found);
  });

  test('of many names in a quarter, two thousand are written down, and each is found', async () => {
    await using stores = await open();
    const { db } = stores;
    const names = Array.from({ length: 2400 }, (_, place) => `name_${place}`);
    await write(
      db,
      names.map((subject, place) => ({ atMs: startMs + Math.floor(place / 100) * 1000, subject })),
    );
    await indexCalls(db, startMs * 2);
    const { count } = await db
      .selectFrom('call_subject')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('kind', '=', 'name')
      .executeTakeFirstOrThrow();

    expect(count).toBe(2001);
    expect(await findAll(db, { names: ['name_0'] })).toEqual(['name_0']);
    expect(await findAll(db, { names: ['name_2399'] })).toEqual(['name_2399']);
    expect(await findAll(db, { names: ['name_23*'] })).toHaveLength(111);
  });
});
