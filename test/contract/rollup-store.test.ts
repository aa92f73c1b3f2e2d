import { expect, test } from 'vitest';
import { type Caller, callerSubject, type CallTally } from '#server/model/call-counts';
import {
  type CallFilter,
  type RollupSpan,
  recordCalls,
  listCountedNames,
  sumCalls,
  listBusiest,
  sumCallsOfServers,
  sumCallsOfSubjects,
  hasCountedCalls,
  deleteOldRollups,
} from '#server/db/rollups';
import { makeServer } from '#support/made-records';
import { onEachDatabase, type Connection } from '#support/databases';

const day = 1_800_000_000 - (1_800_000_000 % 86_400);

function tally(but: Partial<CallTally> = {}): CallTally {
  return {
    at: day,
    serverId: 'srv_sales',
    targetId: 'target_sales',
    kind: 'server',
    subject: 'srv_sales',
    bucket: 4,
    calls: 1,
    toolErrors: 0,
    refused: 0,
    upstreamErrors: 0,
    ...but,
  };
}

function span(but: Partial<RollupSpan> = {}): RollupSpan {
  return {
    organizationId: 'org_acme',
    period: 'hour',
    stepSeconds: 60,
    from: day,
    until: day + 86_400,
    ...but,
  };
}

async function rowCount({ db }: Connection): Promise<number> {
  return (await db.selectFrom('usage_rollup').select('at').execute()).length;
}

await onEachDatabase('usage rollups', ({ open }) => {
  test('calls are stored by minute, hour and day, for the server and for its organization', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await recordCalls(db, [tally(), tally({ at: day + 60, toolErrors: 1 })]);
    await recordCalls(db, [tally({ at: day + 3600, bucket: 9, refused: 1, upstreamErrors: 2 })]);
    const counts = { toolErrors: 0, refused: 0, upstreamErrors: 0 };
    const server = { kind: 'server', serverId: 'srv_sales', subject: 'srv_sales' } as const;

    for (const whose of [undefined, server]) {
      expect(await sumCalls(db, span({ period: 'minute', until: day + 3600 }), whose)).toEqual([
        { ...counts, at: day, bucket: 4, calls: 1 },
        { ...counts, at: day + 60, bucket: 4, calls: 1, toolErrors: 1 },
      ]);
      expect(await sumCalls(db, span(), whose)).toEqual([
        { ...counts, at: day, bucket: 4, calls: 2, toolErrors: 1 },
        { at: day + 3600, bucket: 9, calls: 1, toolErrors: 0, refused: 1, upstreamErrors: 2 },
      ]);
      expect(await sumCalls(db, span({ period: 'day' }), whose)).toMatchObject([
        { at: day, bucket: 4, calls: 2 },
        { at: day, bucket: 9, calls: 1 },
      ]);
    }
  });

  test('records of several processes add up without additional rows', async () => {
    await using database = await open();
    await makeServer(database);
    const other = await database.connectAgain();
    await recordCalls(database.db, [tally({ calls: 2 })]);
    const before = await rowCount(database);
    for (const { db } of [database, other, database, other]) {
      await recordCalls(db, [tally()]);
    }

    expect(await sumCalls(other.db, span())).toMatchObject([{ calls: 6 }]);
    expect(await rowCount(database)).toBe(before);
  });

  test('the busiest subjects come first, each with its sum over the time span', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'support');
    const tool = { kind: 'tool', subject: 'query' } as const;
    await recordCalls(database.db, [
      tally({ ...tool, calls: 3 }),
      tally({ ...tool, calls: 2, at: day + 7200, bucket: 8, toolErrors: 1 }),
      tally({ ...tool, calls: 4, serverId: 'srv_support' }),
      tally({ ...tool, subject: 'rare' }),
    ]);
    const busiest = await listBusiest(database.db, span(), { kind: 'tool' }, 2);

    expect(busiest.map(({ serverId, subject }) => `${serverId} ${subject}`)).toEqual([
      'srv_sales query',
      'srv_support query',
    ]);
    expect(busiest[0]?.counts).toMatchObject([
      { bucket: 4, calls: 3, toolErrors: 0 },
      { bucket: 8, calls: 2, toolErrors: 1 },
    ]);
    expect(await listBusiest(database.db, span({ from: day + 8000 }), { kind: 'tool' }, 2)).toEqual(
      [],
    );
  });

  test('of callers with tools, those of one caller or of one tool are found, whatever the others are called', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'support');
    const dana = { type: 'person', id: 'user_dana' } as const;
    const subjects: [Caller, string][] = [
      [dana, 'query'],
      [dana, 'say query'],
      [{ type: 'person', id: 'user_dan' }, 'query'],
      [{ type: 'key', id: 'user_dana' }, 'Query'],
    ];
    await recordCalls(
      database.db,
      subjects.map(([caller, tool], place) =>
        tally({ kind: 'caller', subject: callerSubject(caller, tool), calls: 9 - place }),
      ),
    );
    await recordCalls(database.db, [
      tally({ kind: 'caller', subject: callerSubject(dana, 'list'), serverId: 'srv_support' }),
    ]);
    const found = async (of: Partial<CallFilter>) => {
      const busiest = await listBusiest(database.db, span(), { kind: 'caller', ...of }, 9);
      const sums = await sumCalls(database.db, span(), { kind: 'caller', ...of });
      const calls = sums.reduce((sum, one) => sum + one.calls, 0);
      return [busiest.map(({ subject }) => subject), calls];
    };

    expect(await found({ caller: dana })).toEqual([
      ['person:user_dana\nquery', 'person:user_dana\nsay query', 'person:user_dana\nlist'],
      18,
    ]);
    expect(await found({ caller: dana, serverId: 'srv_support' })).toEqual([
      ['person:user_dana\nlist'],
      1,
    ]);
    expect(await found({ tool: 'query' })).toEqual([
      ['person:user_dana\nquery', 'person:user_dan\nquery'],
      16,
    ]);
    expect(await found({ caller: dana, tool: 'list' })).toEqual([['person:user_dana\nlist'], 1]);
  });

  test('sums are of the requested servers and time span only', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'support');
    await makeServer(database, 'quiet');
    const support = { serverId: 'srv_support', subject: 'srv_support' };
    await recordCalls(database.db, [
      tally({ calls: 3 }),
      tally({ calls: 2, at: day + 7200, bucket: 8 }),
      tally({ calls: 9, at: day + 86_400 }),
      tally({ ...support, calls: 4, at: day + 3600 }),
    ]);
    const ofServers = (but: Partial<RollupSpan>, ...ids: string[]) =>
      sumCallsOfServers(database.db, span(but), ids);

    expect(await ofServers({}, 'srv_sales', 'srv_support', 'srv_quiet')).toMatchObject([
      {
        serverId: 'srv_sales',
        counts: [
          { bucket: 4, calls: 3 },
          { bucket: 8, calls: 2 },
        ],
      },
      { serverId: 'srv_support', counts: [{ calls: 4 }] },
    ]);
    expect(await ofServers({ from: day + 5400 }, 'srv_sales')).toMatchObject([
      { counts: [{ bucket: 8, calls: 2 }] },
    ]);
    expect(await ofServers({ period: 'minute' }, 'srv_support')).toMatchObject([
      { counts: [{ calls: 4 }] },
    ]);
    expect(await ofServers({})).toEqual([]);
  });

  test('counts over time are of the requested subjects only, however many they are', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'support');
    const tool = (serverId: string, subject: string) =>
      ({ kind: 'tool', serverId, subject }) as const;
    await recordCalls(database.db, [
      tally({ ...tool('srv_sales', 'query'), calls: 3 }),
      tally({ ...tool('srv_sales', 'query'), calls: 2, at: day + 7200, bucket: 8, refused: 1 }),
      tally({ ...tool('srv_sales', 'list'), calls: 5 }),
      tally({ ...tool('srv_support', 'query'), calls: 6 }),
      tally({ ...tool('srv_support', 'list'), calls: 4, at: day + 3600 }),
      tally({ ...tool('srv_support', 'list'), calls: 9, at: day + 86_400 }),
    ]);
    const counts = async (but: Partial<RollupSpan>, ...of: [string, string][]) => {
      const subjects = of.map(([serverId, subject]) => ({ serverId, subject }));
      const found = await sumCallsOfSubjects(database.db, span(but), 'tool', subjects);
      return found.map(({ at, serverId, subject, calls }) => {
        return `${(at - day) / 3600} ${serverId} ${subject} ${calls}`;
      });
    };

    expect(await counts({}, ['srv_sales', 'query'], ['srv_support', 'list'])).toEqual([
      '0 srv_sales query 3',
      '1 srv_support list 4',
      '2 srv_sales query 2',
    ]);
    expect(await counts({}, ['srv_support', 'list'])).toEqual(['1 srv_support list 4']);
    expect(await counts({ stepSeconds: 10_800 }, ['srv_sales', 'query'])).toEqual([
      '0 srv_sales query 5',
    ]);
    expect(await counts({})).toEqual([]);
  });

  test('an organization sees nothing of another', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'secret', { organization: 'other' });
    const theirs = { serverId: 'srv_secret', subject: 'srv_secret' };
    await recordCalls(database.db, [tally(theirs)]);

    expect(await sumCalls(database.db, span())).toEqual([]);
    expect(await sumCalls(database.db, span(), { kind: 'server', ...theirs })).toEqual([]);
    expect(await listBusiest(database.db, span(), { kind: 'server' }, 9)).toEqual([]);
    expect(await sumCallsOfServers(database.db, span(), ['srv_secret'])).toEqual([]);
  });

  test('calls of a deleted server are left out', async () => {
    await using database = await open();
    await makeServer(database);
    await recordCalls(database.db, [tally({ serverId: 'srv_gone' }), tally()]);
    await recordCalls(database.db, []);

    expect(await sumCalls(database.db, span())).toMatchObject([{ calls: 1 }]);
  });

  test('more rows are recorded at once than fit into one SQL statement', async () => {
    await using database = await open();
    await makeServer(database);
    const keys = Array.from({ length: 300 }, (_, index) => `key_${index}`);
    await recordCalls(
      database.db,
      keys.map((subject) => tally({ kind: 'key', subject })),
    );

    expect(await listBusiest(database.db, span(), { kind: 'key' }, 400)).toHaveLength(300);
  });

  test('the names of recorded tools and methods are listed', async () => {
    await using database = await open();
    await makeServer(database);
    await recordCalls(database.db, [
      tally(),
      tally({ kind: 'tool', subject: 'query' }),
      tally({ kind: 'method', subject: 'tools/call' }),
    ]);

    expect(await listCountedNames(database.db)).toEqual([
      { targetId: 'target_sales', kind: 'method', subject: 'tools/call' },
      { targetId: 'target_sales', kind: 'tool', subject: 'query' },
    ]);
  });

  test('a subject is listed for 400 days after its last use, in its own organization and server only', async () => {
    await using database = await open();
    await makeServer(database);
    await recordCalls(database.db, [tally({ kind: 'key', subject: 'key_1' })]);
    const key = { kind: 'key', serverId: 'srv_sales', subject: 'key_1' } as const;
    const has = (but: object = {}, organization = 'org_acme', later = 0) =>
      hasCountedCalls(database.db, organization, { ...key, ...but }, day + later);

    expect([await has(), await has({}, 'org_acme', 400 * 86_400)]).toEqual([true, true]);
    expect(await has({}, 'org_acme', 400 * 86_400 + 1)).toBe(false);
    expect(await has({}, 'org_globex')).toBe(false);
    expect(await has({ kind: 'client' })).toBe(false);
    expect(await has({ serverId: 'srv_web' })).toBe(false);
    expect(await has({ subject: 'key_2' })).toBe(false);
  });

  test('minutes are deleted after two hours, hours after eight days, days after 400', async () => {
    await using database = await open();
    await makeServer(database);
    const { db } = database;
    await recordCalls(db, [tally()]);
    const left = async (later: number) => {
      await deleteOldRollups(db, day + later);
      const rows = await db.selectFrom('usage_rollup').select('period').execute();
      return [...new Set(rows.map(({ period }) => period))].toSorted();
    };

    expect(await left(2 * 3600)).toEqual(['day', 'hour', 'minute']);
    expect(await left(2 * 3600 + 1)).toEqual(['day', 'hour']);
    expect(await left(8 * 86_400 + 1)).toEqual(['day']);
    expect(await left(400 * 86_400 + 1)).toEqual([]);
  });
});
