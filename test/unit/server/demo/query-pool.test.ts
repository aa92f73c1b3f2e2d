import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { QueryPool } from '#server/demo/query-pool';
import { temporaryFolder } from '#support/temporary-folder';

const folder = await temporaryFolder();
const file = join(folder.path, 'sample.db');
const endless =
  'with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r';
let pool: QueryPool;

beforeAll(() => {
  using database = new DatabaseSync(file);
  database.exec("create table t (a integer primary key, b text); insert into t values (1, 'é')");
  pool = new QueryPool({ nodePath: process.execPath, file, timeoutMs: 3000 });
});
afterAll(async () => {
  pool.close();
  await folder[Symbol.asyncDispose]();
});

const never = new AbortController().signal;
const run = (sql: string, maxRows = 200) => pool.run({ sql, maxRows }, never);
const count = (rows: number) =>
  `with recursive r(n) as (select 1 union all select n + 1 from r limit ${rows})`;

describe('a statement that reads is answered', () => {
  test.each<[string, unknown[][]]>([
    ['select * from t', [[1, 'é']]],
    ['SELECT 1;', [[1]]],
    ['  -- why\n /* a * b */ select 1 ; -- done\n', [[1]]],
    [
      'values (1, 2), (3, 4)',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ['with x as (select 5 as n) select n from x', [[5]]],
    ['select 1 as a, 2 as a', [[1, 2]]],
    ["select null, 1.5, -0.25, '', '😀'", [[null, 1.5, -0.25, '', '😀']]],
    [
      'select 9007199254740991, 9007199254740993, 9e999',
      [[9007199254740991, '9007199254740993', 'Infinity']],
    ],
    ["select x'00ff', zeroblob(40)", [["x'00ff'", `x'${'0'.repeat(64)}…' (40 bytes)`]]],
    ["select value from json_each('[1,2]')", [[1], [2]]],
    ['select name from sqlite_schema', [['t']]],
    ["select a from t where b = '; drop table t'", []],
  ])('%s', async (sql, rows) => {
    expect(await run(sql)).toMatchObject({ outcome: 'rows', rows, truncated: false });
  });
});

describe('anything else is refused with its reason', () => {
  test.each([
    ['insert into t values (2, null)', /read-only/],
    ["with x as (select 1) insert into t values (3, 'x')", /read/],
    ['delete from t', /read-only/],
    ['drop table t', /read-only/],
    ["attach '/tmp/other.db' as other", /read-only/],
    ["vacuum into '/tmp/copy.db'", /read-only/],
    ['pragma table_info(t)', /read-only/],
    ['explain select 1', /read-only/],
    ["select * from pragma_table_info('t')", /PRAGMA/],
    ['select file from pragma_database_list', /PRAGMA/],
    ["select load_extension('x')", /only reading/],
    ["select writefile('/tmp/x', 'x')", /no such function/],
    ['select 1; select 2', /one statement/],
    ['select 1; drop table t', /one statement/],
    ['select 1;;', /one statement/],
    ['select 1\0; drop table t', /one statement|unrecognized/],
    ['', /only a SELECT/],
    ['/* never closed', /only a SELECT/],
    [`${'/**/'.repeat(20_000)}x`, /only a SELECT/],
    ['selec 1', /only a SELECT/],
    ['select from', /syntax error.*describe_table/],
    ['select * from nowhere', /no such table: nowhere.*list_tables/],
    ['select zeroblob(1000000000)', /larger than 1000000 bytes/],
    ["select printf('%.*c', 900000, 'x')", /larger than 262144 bytes/],
    [`${count(1000)} select printf('%.*c', 1000, 'x') from r`, /larger than 262144 bytes/],
  ])('%s', async (sql, reason) => {
    const outcome = await run(sql, 1000);

    expect(outcome).toMatchObject({ outcome: 'refused' });
    expect(outcome.outcome === 'refused' && outcome.reason).toMatch(reason);
    expect(readdirSync(folder.path)).toEqual(['sample.db']);
  });
});

test('rows beyond the limit are left out, and that is said', async () => {
  expect(await run(`${count(10)} select n from r`, 3)).toEqual({
    outcome: 'rows',
    columns: ['n'],
    rows: [[1], [2], [3]],
    truncated: true,
  });
  expect(await run(`${count(3)} select n from r`, 3)).toMatchObject({ truncated: false });
});

test('an endless query is stopped, holds up no other, and the next is answered', async () => {
  const brief = new QueryPool({ nodePath: process.execPath, file, timeoutMs: 400 });
  const outcomes = await Promise.all([
    brief.run({ sql: endless, maxRows: 1 }, never),
    brief.run({ sql: endless, maxRows: 1 }, never),
    brief.run({ sql: 'select 1', maxRows: 1 }, never),
  ]);
  brief.close();

  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['too slow', 'too slow', 'rows']);
});

test('a query that takes too much memory ends its process only', async () => {
  const hungry = `${count(3000)} select randomblob(900000) as x from r order by x`;

  // Its memory ends it, however long a busy machine takes to fill that.
  const patient = new QueryPool({ nodePath: process.execPath, file, timeoutMs: 30_000 });
  const outcome = await patient.run({ sql: hungry, maxRows: 1 }, never);
  patient.close();

  expect(outcome).toEqual({ outcome: 'ended' });
  expect(await run('select 1')).toMatchObject({ outcome: 'rows' });
}, 40_000);

test('a cancelled query stops, waiting or running', async () => {
  const [running, waiting] = [new AbortController(), new AbortController()];
  const outcomes = [running, running, waiting].map((controller) =>
    pool.run({ sql: endless, maxRows: 1 }, controller.signal),
  );
  waiting.abort();
  await outcomes[2];
  running.abort();

  expect(await Promise.all(outcomes)).toEqual(outcomes.map(() => ({ outcome: 'cancelled' })));
  expect(await run('select 1')).toMatchObject({ outcome: 'rows' });
});

test('many queries at once are all answered, and too many are told so', async () => {
  const outcomes = await Promise.all(Array.from({ length: 30 }, () => run('select 1')));
  const answered = outcomes.filter(({ outcome }) => outcome === 'rows');

  expect(answered).toHaveLength(18);
  expect(outcomes.filter(({ outcome }) => outcome === 'busy')).toHaveLength(12);
});

test('closing ends queries that run and that wait', async () => {
  const closing = new QueryPool({ nodePath: process.execPath, file, timeoutMs: 3000 });
  await closing.run({ sql: 'select 1', maxRows: 1 }, never);
  const outcomes = [1, 2, 3].map(() => closing.run({ sql: endless, maxRows: 1 }, never));
  await Promise.resolve();
  closing.close();

  const names = (await Promise.all(outcomes)).map(({ outcome }) => outcome);
  expect(names).toEqual(['ended', 'ended', 'cancelled']);
  expect(await closing.run({ sql: 'select 1', maxRows: 1 }, never)).toEqual({
    outcome: 'cancelled',
  });
});

test('a Node that cannot be started fails the query', async () => {
  const broken = new QueryPool({ nodePath: join(folder.path, 'node'), file, timeoutMs: 3000 });

  expect(await broken.run({ sql: 'select 1', maxRows: 1 }, never)).toEqual({ outcome: 'ended' });
});
