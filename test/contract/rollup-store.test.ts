import { describe, expect, test } from 'vitest';
import type { RollupSpan } from '#server/usage/rollup-reader';
import type { CallTally } from '#server/usage/rollup-store';
import { makeServer } from '#support/made-records';
import { storeAdapters, type Connection } from '#support/store-adapters';

const day = 1_800_000_000 - (1_800_000_000 % 86_400);

function tally(but: Partial<CallTally> = {}): CallTally {
  return {
    at: day,
    serverId: 'srv_sales',
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

describe.each(storeAdapters)('a RollupStore in $name', ({ open }) => {
  test('keeps calls by minute, hour and day, of the server and of its organization', async () => {
    await using database = await open();
    await makeServer(database);
    const { rollups, rollupReader } = database;
    await rollups.record([tally(), tally({ at: day + 60, toolErrors: 1 })]);
    await rollups.record([tally({ at: day + 3600, bucket: 9, refused: 1, upstreamErrors: 2 })]);
    const counts = { toolErrors: 0, refused: 0, upstreamErrors: 0 };
    const server = { kind: 'server', serverId: 'srv_sales', subject: 'srv_sales' } as const;

    for (const of of [undefined, server]) {
      expect(await rollupReader.read(span({ period: 'minute', until: day + 3600 }), of)).toEqual([
        { ...counts, at: day, bucket: 4, calls: 1 },
        { ...counts, at: day + 60, bucket: 4, calls: 1, toolErrors: 1 },
      ]);
      expect(await rollupReader.read(span(), of)).toEqual([
        { ...counts, at: day, bucket: 4, calls: 2, toolErrors: 1 },
        { at: day + 3600, bucket: 9, calls: 1, toolErrors: 0, refused: 1, upstreamErrors: 2 },
      ]);
      expect(await rollupReader.read(span({ period: 'day' }), of)).toMatchObject([
        { at: day, bucket: 4, calls: 2 },
        { at: day, bucket: 9, calls: 1 },
      ]);
    }
  });

  test('adds up what several processes record, without more rows', async () => {
    await using database = await open();
    await makeServer(database);
    const other = await database.connectAgain();
    await database.rollups.record([tally({ calls: 2 })]);
    const before = await rowCount(database);
    for (const { rollups } of [database, other, database, other]) {
      await rollups.record([tally()]);
    }

    expect(await other.rollupReader.read(span())).toMatchObject([{ calls: 6 }]);
    expect(await rowCount(database)).toBe(before);
  });

  test('names the busiest first, each with its sum over the span', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'support');
    const tool = { kind: 'tool', subject: 'query' } as const;
    await database.rollups.record([
      tally({ ...tool, calls: 3 }),
      tally({ ...tool, calls: 2, at: day + 7200, bucket: 8, toolErrors: 1 }),
      tally({ ...tool, calls: 4, serverId: 'srv_support' }),
      tally({ ...tool, subject: 'rare' }),
    ]);
    const busiest = await database.rollupReader.busiest(span(), 'tool', 2);

    expect(busiest.map(({ serverId, subject }) => `${serverId} ${subject}`)).toEqual([
      'srv_sales query',
      'srv_support query',
    ]);
    expect(busiest[0]?.counts).toMatchObject([
      { bucket: 4, calls: 3, toolErrors: 0 },
      { bucket: 8, calls: 2, toolErrors: 1 },
    ]);
    expect(await database.rollupReader.busiest(span({ from: day + 8000 }), 'tool', 2)).toEqual([]);
  });

  test('sums up the servers that are asked for, over the span alone', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'support');
    await makeServer(database, 'quiet');
    const support = { serverId: 'srv_support', subject: 'srv_support' };
    await database.rollups.record([
      tally({ calls: 3 }),
      tally({ calls: 2, at: day + 7200, bucket: 8 }),
      tally({ calls: 9, at: day + 86_400 }),
      tally({ ...support, calls: 4, at: day + 3600 }),
    ]);
    const ofServers = (but: Partial<RollupSpan>, ...ids: string[]) =>
      database.rollupReader.ofServers(span(but), ids);

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

  test('counts the things that are asked for over time, however many, and none of their neighbours', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'support');
    const tool = (serverId: string, subject: string) =>
      ({ kind: 'tool', serverId, subject }) as const;
    await database.rollups.record([
      tally({ ...tool('srv_sales', 'query'), calls: 3 }),
      tally({ ...tool('srv_sales', 'query'), calls: 2, at: day + 7200, bucket: 8, refused: 1 }),
      tally({ ...tool('srv_sales', 'list'), calls: 5 }),
      tally({ ...tool('srv_support', 'query'), calls: 6 }),
      tally({ ...tool('srv_support', 'list'), calls: 4, at: day + 3600 }),
      tally({ ...tool('srv_support', 'list'), calls: 9, at: day + 86_400 }),
    ]);
    const counts = async (but: Partial<RollupSpan>, ...of: [string, string][]) => {
      const subjects = of.map(([serverId, subject]) => ({ serverId, subject }));
      const found = await database.rollupReader.counts(span(but), 'tool', subjects);
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

  test('shows an organization nothing of another', async () => {
    await using database = await open();
    await makeServer(database);
    await makeServer(database, 'secret', { organization: 'other' });
    const theirs = { serverId: 'srv_secret', subject: 'srv_secret' };
    await database.rollups.record([tally(theirs)]);

    expect(await database.rollupReader.read(span())).toEqual([]);
    expect(await database.rollupReader.read(span(), { kind: 'server', ...theirs })).toEqual([]);
    expect(await database.rollupReader.busiest(span(), 'server', 9)).toEqual([]);
    expect(await database.rollupReader.ofServers(span(), ['srv_secret'])).toEqual([]);
  });

  test('leaves out the calls of a server that is gone', async () => {
    await using database = await open();
    await makeServer(database);
    await database.rollups.record([tally({ serverId: 'srv_gone' }), tally()]);
    await database.rollups.record([]);

    expect(await database.rollupReader.read(span())).toMatchObject([{ calls: 1 }]);
  });

  test('takes more rows at once than one statement does', async () => {
    await using database = await open();
    await makeServer(database);
    const keys = Array.from({ length: 300 }, (_, index) => `key_${index}`);
    await database.rollups.record(keys.map((subject) => tally({ kind: 'key', subject })));

    expect(await database.rollupReader.busiest(span(), 'key', 400)).toHaveLength(300);
  });

  test('knows the names of tools and methods again', async () => {
    await using database = await open();
    await makeServer(database);
    await database.rollups.record([
      tally(),
      tally({ kind: 'tool', subject: 'query' }),
      tally({ kind: 'method', subject: 'tools/call' }),
    ]);

    expect(await database.rollups.names()).toEqual([
      { serverId: 'srv_sales', kind: 'method', subject: 'tools/call' },
      { serverId: 'srv_sales', kind: 'tool', subject: 'query' },
    ]);
  });

  test('knows for 400 days what was called where', async () => {
    await using database = await open();
    await makeServer(database);
    await database.rollups.record([tally({ kind: 'key', subject: 'key_1' })]);
    const key = { kind: 'key', serverId: 'srv_sales', subject: 'key_1' } as const;
    const has = (but: object = {}, organization = 'org_acme', later = 0) =>
      database.rollupReader.has(organization, { ...key, ...but }, day + later);

    expect([await has(), await has({}, 'org_acme', 400 * 86_400)]).toEqual([true, true]);
    expect(await has({}, 'org_acme', 400 * 86_400 + 1)).toBe(false);
    expect(await has({}, 'org_globex')).toBe(false);
    expect(await has({ kind: 'client' })).toBe(false);
    expect(await has({ serverId: 'srv_web' })).toBe(false);
    expect(await has({ subject: 'key_2' })).toBe(false);
  });

  test('forgets minutes after two hours, hours after eight days, days after 400', async () => {
    await using database = await open();
    await makeServer(database);
    const { rollups } = database;
    await rollups.record([tally()]);
    const left = async (later: number) => {
      await rollups.forget(day + later);
      const rows = await database.db.selectFrom('usage_rollup').select('period').execute();
      return [...new Set(rows.map(({ period }) => period))].toSorted();
    };

    expect(await left(2 * 3600)).toEqual(['day', 'hour', 'minute']);
    expect(await left(2 * 3600 + 1)).toEqual(['day', 'hour']);
    expect(await left(8 * 86_400 + 1)).toEqual(['day']);
    expect(await left(400 * 86_400 + 1)).toEqual([]);
  });
});
