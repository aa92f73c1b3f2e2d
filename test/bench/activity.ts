import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';

import { sql } from 'kysely';

import { openPostgresStores, openStores } from '#server/app/stores';
import { callsATransaction, newCallRecordId, writeCalls } from '#server/db/calls';
import { searchCalls, type CallFilter } from '#server/db/find-calls';
import { isPostgres, type Db } from '#server/db/transaction';
import type { CallRecord } from '#server/model/calls';
import { indexCalls, madeCall } from '#support/made-calls';
import { temporaryFolder } from '#support/temporary-folder';
import { OwnPostgres } from '../nodes/machinery.ts';
import { Measurements, median, type Figure } from './measurements.ts';

const rows = Number(process.env['BENCH_CALLS'] ?? 10_000_000);
const days = 90;
const organizationId = 'org_acme';
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** A Friday afternoon. The last quarter of an hour has no index yet. */
const endMs = Date.UTC(2027, 0, 15, 15, 14);
const rounds = 5;
/** The pause between two batches. A search writes nothing, and must not delay the batches. */
const batchEveryMs = 20;

const figures = {
  index: { name: 'indexing a call, processor time of this process', unit: 'µs', digits: 2 },
  batch: {
    name: 'a batch (500 rows, PostgreSQL 250) during the searches, median',
    unit: 'ms',
    digits: 1,
  },
  worstBatch: { name: 'the longest of them', unit: 'ms', digits: 1 },
  blocked: { name: 'longest time without a turn of the event loop', unit: 'ms', digits: 1 },
} satisfies Record<string, Figure>;

/** The questions of an administrator: each filter alone, and pairs of filters. */
const questions: Readonly<Record<string, CallFilter>> = {
  'all calls': {},
  'a person': { person: 'person_7' },
  'a person who calls rarely': { person: 'person_199' },
  'a key': { credential: 'key_33' },
  'an application': { application: 'Claude Desktop 1.2' },
  'an application that calls rarely': { application: 'rare 1' },
  'an endpoint': { endpoint: 'server_2' },
  'a server': { target: 'target_2' },
  'a tool': { names: ['tool_42'] },
  'tools by a pattern': { names: ['tool_4*'] },
  'an error code': { error: 'upstream_failed' },
  failed: { end: 'failed' },
  refused: { end: 'refused' },
  cancelled: { end: 'cancelled' },
  'a tool, last Tuesday': {
    names: ['tool_42'],
    fromMs: Date.UTC(2027, 0, 12),
    untilMs: Date.UTC(2027, 0, 13),
  },
  'a person, failed': { person: 'person_7', end: 'failed' },
  'a person, refused': { person: 'person_199', end: 'refused' },
  'a key on one day': {
    credential: 'key_33',
    fromMs: Date.UTC(2027, 0, 12),
    untilMs: Date.UTC(2027, 0, 13),
  },
  'a key, failed': { credential: 'key_33', end: 'failed' },
  'an application, failed': { application: 'Claude Desktop 1.2', end: 'failed' },
  'an application, an error code': { application: 'Codex 9', error: 'upstream_failed' },
  'a server, a tool': { target: 'target_6', names: ['tool_42'] },
  'a server, failed': { target: 'target_2', end: 'failed' },
  'a person, a tool': { person: 'person_7', names: ['tool_42'] },
  'a person, a tool, both rare': { person: 'person_199', names: ['tool_57'] },
  'a person, an application': { person: 'person_150', application: 'Codex 9' },
  'a person, a tool that they never use': { person: 'person_3', names: ['tool_0'] },
  'a person, a server that they never use': { person: 'person_6', target: 'target_0' },
  'a tool, an error code': { names: ['tool_57'], error: 'upstream_failed' },
  'a person without calls': { person: 'nobody' },
};

/** The questions that are also asked over all ninety days: searches that take long and that a person can stop. */
const wide = [
  'a person who calls rarely',
  'tools by a pattern',
  'a person, a tool, both rare',
  'a person, a tool that they never use',
  'a person without calls',
];

/** Measures what a search for recorded calls costs among ten million calls. Returns a Markdown table. */
export async function benchActivity(log: (line: string) => void): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const measurements = new Measurements();
  const sqlite = await openStores(folder);
  stack.defer(() => sqlite.close());
  const postgres = stack.use(await OwnPostgres.create(folder));
  const ports = { mayAdmit: () => true, failed: (error: unknown) => log(String(error)) };
  const shared = await openPostgresStores({ url: postgres.url(), mayLoseWrites: true }, ports);
  stack.defer(() => shared.close());
  const times = new Map<string, Figure>();
  for (const [name, { db }] of [
    ['SQLite', sqlite],
    ['PostgreSQL', shared],
  ] as const) {
    await fill(db, (line) => log(`${name}: ${line}`));
    measurements.add(figures.index, name, await index(db));
    log(`${name}: indexed`);
    const writing = new Writing(db);
    for (const [question, fromMs, filter] of asked()) {
      const figure = times.get(question) ?? { name: question, unit: 'ms', digits: 1 };
      times.set(question, figure);
      for (let round = 0; round < rounds; round += 1) {
        for (const ms of await ask(db, { fromMs, ...filter })) measurements.add(figure, name, ms);
      }
    }
    const { batches, blockedMs } = await writing.end();
    log(`${name}: ${batches.length} batches`);
    measurements.add(figures.batch, name, median(batches));
    measurements.add(figures.worstBatch, name, Math.max(...batches));
    measurements.add(figures.blocked, name, blockedMs);
  }
  return measurements.markdown(
    [...Object.values(figures), ...times.values()],
    ['SQLite', 'PostgreSQL'],
  );
}

/** Each question with its name and how far back it goes. */
function asked(): (readonly [string, number, CallFilter])[] {
  return [
    ...Object.entries(questions).map(
      ([name, filter]) => [name, endMs - 7 * dayMs, filter] as const,
    ),
    ...wide.map((name) => [`${name}, 90 days`, 0, questions[name] ?? {}] as const),
  ];
}

/** Writes all rows, as if they had been written over the days before `endMs`: most of them in working hours. */
async function fill(db: Db, log: (line: string) => void): Promise<void> {
  const hours = Array.from({ length: days * 24 }, (_, place) => {
    const fromMs = endMs - (days * 24 - place) * hourMs;
    const at = new Date(fromMs);
    const isWork = at.getUTCDay() % 6 !== 0 && at.getUTCHours() >= 7 && at.getUTCHours() < 17;
    return { fromMs, weight: isWork ? 20 : 1 };
  });
  const whole = hours.reduce((sum, { weight }) => sum + weight, 0);
  let written = 0;
  for (const [place, { fromMs, weight }] of hours.entries()) {
    const count = Math.round((rows * weight) / whole);
    await insertCalls(db, { fromMs, first: written, count });
    written += count;
    if (place % 432 === 431) log(`${written} calls written`);
  }
  if (isPostgres(db)) await sql`vacuum analyze call_record`.execute(db);
}

/**
 * Writes the calls of an hour. Two hundred people and sixty tools, of which some are used far more often than others; each person
 * never uses a third of the tools.
 */
async function insertCalls(
  db: Db,
  { fromMs, first, count }: { fromMs: number; first: number; count: number },
): Promise<void> {
  const numbers = isPostgres(db)
    ? sql`select n from generate_series(${first}::bigint, ${first + count - 1}::bigint) as numbers(n)`
    : sql`with recursive numbers(n) as (select cast(${first} as bigint) union all select n + 1 from numbers where n < ${first + count - 1})
        select n from numbers`;
  const hex = (value: ReturnType<typeof sql>, length: number) =>
    isPostgres(db)
      ? sql`lpad(to_hex(${value}), ${sql.raw(String(length))}, '0')`
      : sql`printf(${sql.raw(`'%0${length}x'`)}, ${value})`;
  const ms = sql`(cast(${fromMs} as bigint) + (n - ${sql.raw(String(first))}) * 7200 / ${sql.raw(String(Math.max(1, count)))} * 500)`;
  const columns = {
    organization_id: sql`'${sql.raw(organizationId)}'`,
    id: sql`${hex(ms, 12)} || ${hex(sql`n % 65536`, 4)} || 'be9cbe9c'`,
    call_id: sql`${hex(ms, 12)} || ${hex(sql`n % 65536`, 4)} || 'be9cbe9c'`,
    started_at_ms: ms,
    duration_ms: sql`20 + chance % 200`,
    node: sql`'node-1'`,
    request_id: sql`'request-' || n`,
    trace_id: sql`null`,
    era: sql`'modern'`,
    person_id: sql`'person_' || person`,
    person_name: sql`'person-' || person || '@example.com'`,
    credential_type: sql`'key'`,
    credential_id: sql`'key_' || person % 40`,
    credential_name: sql`'key of the team ' || person % 40`,
    application: sql`case when n % 100000 = 5 then 'rare 1' when chance % 3 = 0 then 'Claude Desktop 1.2'
      when chance % 3 = 1 then 'Cursor 3.1' else 'Codex 9' end`,
    application_source: sql`'client_info'`,
    address: sql`'192.0.2.1'`,
    endpoint_id: sql`'server_' || tool % 12`,
    endpoint_name: sql`'server-' || tool % 12`,
    target_id: sql`'target_' || tool % 12`,
    target_name: sql`'server-' || tool % 12`,
    account: sql`'none'`,
    method: sql`'tools/call'`,
    subject: sql`'tool_' || tool`,
    outcome: sql`case when chance < 10 then 'tool_error' when chance < 12 then 'upstream_error' when chance < 13 then 'refused'
      when chance < 16 then 'cancelled' else 'ok' end`,
    error: sql`case when chance in (10, 11) then 'upstream_failed' when chance = 12 then 'insufficient_scope' end`,
    status: sql`200`,
    bytes_in: sql`300`,
    bytes_out: sql`1200`,
    times: sql`1`,
  };
  // Numbers that look as if they were drawn, the same in each run.
  const drawn = sql`select n, n * 48271 % 2147483647 as x, n * 69621 % 2147483629 as y, n * 39373 % 2147483587 as z from (${numbers}) as numbers`;
  const mixed = sql`select n, (x % 46337 * (x % 46349) + n) % 9973 as a, (y % 46327 * (y % 46309) + n) % 9967 as b,
    (z % 46307 * (z % 46301) + n) % 1000 as chance from (${drawn}) as drawn`;
  const skewed = sql`select n, chance, a * a * 200 / 99460729 as person, b * b * 60 / 99341089 as tool from (${mixed}) as mixed`;
  const used = sql`select n, chance, person, (tool + case when (tool + person) % 3 = 0 then 1 else 0 end) % 60 as tool from (${skewed}) as skewed`;
  await sql`insert into call_record (${sql.join(Object.keys(columns).map((name) => sql.ref(name)))})
    select ${sql.join(Object.values(columns))} from (${used}) as used`.execute(db);
}

/** Indexes all calls. Returns the processor time for each, in µs. */
async function index(db: Db): Promise<number> {
  const begun = process.cpuUsage();
  await indexCalls(db, endMs);
  const { user, system } = process.cpuUsage(begun);
  if (isPostgres(db)) await sql`vacuum analyze call_subject, call_quarter`.execute(db);
  return (user + system) / rows;
}

/** Writes batches of calls like a busy server, and measures the delay of the event loop. */
class Writing {
  readonly #batches: number[] = [];
  readonly #delay = monitorEventLoopDelay({ resolution: 1 });
  readonly #writing: Promise<void>;
  #isEnded = false;

  constructor(db: Db) {
    this.#delay.enable();
    this.#writing = this.#write(db);
  }

  async #write(db: Db): Promise<void> {
    let nowMs = endMs + hourMs;
    while (!this.#isEnded) {
      nowMs += 1;
      const calls = Array.from({ length: callsATransaction(db) }, () => recordAt(nowMs));
      const begunMs = performance.now();
      await writeCalls(db, { calls, repeated: [], ended: [], gaps: [], isDurable: false });
      this.#batches.push(performance.now() - begunMs);
      await pause(batchEveryMs);
    }
  }

  async end(): Promise<{ readonly batches: readonly number[]; readonly blockedMs: number }> {
    this.#isEnded = true;
    await this.#writing;
    this.#delay.disable();
    return { batches: this.#batches, blockedMs: this.#delay.max / 1e6 };
  }
}

function recordAt(ms: number): CallRecord {
  const { userId: _, ...call } = madeCall();
  const id = newCallRecordId(ms);
  return {
    ...call,
    organizationId,
    id,
    callId: id,
    node: 'node-1',
    credential: { ...call.credential, name: 'Claude' },
    person: undefined,
    times: 1,
  };
}

/** How long a page and the next one take, in milliseconds each. */
async function ask(db: Db, filter: CallFilter): Promise<readonly number[]> {
  const search = { organizationId, filter, limit: 50, watermarkMs: endMs, budgetMs: 60_000 };
  const begunMs = performance.now();
  const first = await searchCalls(db, search);
  const foundMs = performance.now();
  const last = first.calls.at(-1);
  if (!last || !first.hasMore) return [foundMs - begunMs];
  await searchCalls(db, { ...search, from: { id: last.id, side: 'older' } });
  return [foundMs - begunMs, performance.now() - foundMs];
}
