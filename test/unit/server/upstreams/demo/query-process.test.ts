import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as wait } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { libraryFile } from '#server/upstreams/demo/library-file';
import { QueryProcess } from '#server/upstreams/demo/query-process';
import { temporaryFolder } from '#support/temporary-folder';

const folder = await temporaryFolder();
const file = join(folder.path, 'sample.db');
const endless =
  'with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r';
let queries: QueryProcess;

beforeAll(() => {
  using database = new DatabaseSync(file);
  database.exec("create table t (a integer primary key, b text); insert into t values (1, 'é')");
  queries = new QueryProcess({ nodePath: process.execPath, file, timeoutMs: 3000 });
});
afterAll(async () => {
  queries.close();
  await folder[Symbol.asyncDispose]();
});

const never = new AbortController().signal;
const run = (sql: string, maxRows = 200) => queries.run({ sql, maxRows }, never);
const count = (rows: number) =>
  `with recursive r(n) as (select 1 union all select n + 1 from r limit ${rows})`;

describe('query process: a statement that reads is answered', () => {
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

describe('query process: anything else is refused with its reason', () => {
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

test('query process: rows beyond the limit are left out, and the answer says so', async () => {
  expect(await run(`${count(10)} select n from r`, 3)).toEqual({
    outcome: 'rows',
    columns: ['n'],
    rows: [[1], [2], [3]],
    truncated: true,
  });
  expect(await run(`${count(3)} select n from r`, 3)).toMatchObject({ truncated: false });
});

test('query process: an endless query is killed at the time limit, and the queries behind it are answered', async () => {
  const brief = new QueryProcess({ nodePath: process.execPath, file, timeoutMs: 1000 });
  const outcomes = await Promise.all([
    brief.run({ sql: endless, maxRows: 1 }, never),
    brief.run({ sql: endless, maxRows: 1 }, never),
    brief.run({ sql: 'select 1', maxRows: 1 }, never),
  ]);
  brief.close();

  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['too slow', 'too slow', 'rows']);
});

test('query process: a query that takes too much memory ends only the child', async () => {
  const hungry = `${count(3000)} select randomblob(900000) as x from r order by x`;

  // The memory limit ends the child, however long a busy machine takes to fill the memory.
  const patient = new QueryProcess({ nodePath: process.execPath, file, timeoutMs: 30_000 });
  const outcome = await patient.run({ sql: hungry, maxRows: 1 }, never);
  patient.close();

  expect(outcome).toEqual({ outcome: 'ended' });
  expect(await run('select 1')).toMatchObject({ outcome: 'rows' });
});

test('query process: a cancelled query stops, whether it waits or runs', async () => {
  const [running, waiting] = [new AbortController(), new AbortController()];
  const outcomes = [running, running, waiting].map((controller) =>
    queries.run({ sql: endless, maxRows: 1 }, controller.signal),
  );
  waiting.abort();
  await outcomes[2];
  running.abort();

  expect(await Promise.all(outcomes)).toEqual(outcomes.map(() => ({ outcome: 'cancelled' })));
  expect(await run('select 1')).toMatchObject({ outcome: 'rows' });
});

test('query process: one query runs, 16 wait, and further ones are answered busy', async () => {
  const outcomes = await Promise.all(Array.from({ length: 30 }, () => run('select 1')));
  const answered = outcomes.filter(({ outcome }) => outcome === 'rows');

  expect(answered).toHaveLength(17);
  expect(outcomes.filter(({ outcome }) => outcome === 'busy')).toHaveLength(13);
});

test('query process: closing ends the running query and cancels the waiting ones', async () => {
  const closing = new QueryProcess({ nodePath: process.execPath, file, timeoutMs: 3000 });
  await closing.run({ sql: 'select 1', maxRows: 1 }, never);
  const outcomes = [1, 2, 3].map(() => closing.run({ sql: endless, maxRows: 1 }, never));
  await Promise.resolve();
  closing.close();

  const names = (await Promise.all(outcomes)).map(({ outcome }) => outcome);
  expect(names).toEqual(['ended', 'cancelled', 'cancelled']);
  expect(await closing.run({ sql: 'select 1', maxRows: 1 }, never)).toEqual({
    outcome: 'cancelled',
  });
});

test('query process: a query fails when Node cannot be started', async () => {
  const broken = new QueryProcess({ nodePath: join(folder.path, 'node'), file, timeoutMs: 3000 });

  expect(await broken.run({ sql: 'select 1', maxRows: 1 }, never)).toEqual({ outcome: 'ended' });
});

const module = pathToFileURL(
  join(import.meta.dirname, '../../../../../server/upstreams/demo/query-process.ts'),
);

/** Only Linux lists the children of a process, and shows that one is gone. */
test.skipIf(process.platform !== 'linux')(
  'query process: the child of an endless query dies with a server that is killed',
  async () => {
    await using dataDir = await temporaryFolder();
    const library = libraryFile(dataDir.path);
    const script = `
      const { QueryProcess } = await import(${JSON.stringify(module.href)});
      const queries = new QueryProcess({ nodePath: process.execPath, file: ${JSON.stringify(library)}, timeoutMs: 9000 });
      const signal = new AbortController().signal;
      await queries.run({ sql: 'select 1', maxRows: 1 }, signal);
      const sql = 'with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r';
      void queries.run({ sql, maxRows: 1 }, signal);
      console.log('asked');`;
    const server = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(server.stdout, 'data');
    const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8');
    const child = `/proc/${children.trim()}`;
    expect(readFileSync(`${child}/environ`, 'utf8')).toMatch(/^(NODE_CHANNEL_\w+=\w+\0)*$/);

    server.kill('SIGKILL');

    // A dead child stays a zombie until its new parent looks.
    const alive = () =>
      existsSync(child) && !readFileSync(`${child}/stat`, 'utf8').includes(') Z ');
    while (alive()) await wait(10);
    expect(alive()).toBe(false);
  },
);
