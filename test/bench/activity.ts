import { CallLog } from '#server/activity/call-log';
import { openPostgresStores, openStores, type Stores } from '#server/app/stores';
import { writeCalls } from '#server/db/calls';
import { searchCalls, type CallFilter } from '#server/db/find-calls';
import type { CallEnd, EndedCall } from '#server/model/calls';
import { temporaryFolder } from '#support/temporary-folder';
import { OwnPostgres } from '../nodes/machinery.ts';
import { Measurements, median, type Figure } from './measurements.ts';

const rows = Number(process.env['BENCH_CALLS'] ?? 10_000_000);
const days = 90;
const organizationId = 'org_acme';
const people = 200;
const tools = 60;
const dayMs = 86_400_000;
const endMs = Date.UTC(2027, 0, 15);
const rounds = 9;

const figures = {
  write: { name: 'writing a call, processor time of this process', unit: 'µs', digits: 1 },
  batch: { name: 'a batch of 500, median', unit: 'ms', digits: 1 },
  worstBatch: { name: 'a batch of 500, longest', unit: 'ms', digits: 1 },
} satisfies Record<string, Figure>;

/** What an administrator asks, within the default of seven days. */
const questions: Readonly<Record<string, CallFilter>> = {
  'all calls': {},
  'calls of a person': { person: 'person_7' },
  'calls with a key': { credential: 'key_3' },
  'calls of an application': { application: 'Claude Desktop 1.2' },
  'calls at a server': { target: 'target_2' },
  'calls of a tool': { names: ['tool_42'] },
  'a code of an error': { error: 'upstream_failed' },
  'refused calls': { end: 'refused' },
  'failed calls of a person': { person: 'person_7', end: 'failed' },
  'a tool and a person': { person: 'person_7', names: ['tool_42'] },
  'failed calls of an application': { application: 'Claude Desktop 1.2', end: 'failed' },
  'an application that calls rarely': { application: 'rare' },
  'a person without calls': { person: 'nobody' },
};

/** What writing and finding recorded calls costs among ten million; a Markdown table. */
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
  const times: Record<string, Figure> = {};
  for (const [name, stores] of [
    ['SQLite', sqlite],
    ['PostgreSQL', shared],
  ] as const) {
    log(`${name}: writing ${rows} calls`);
    await fill(name, stores, measurements);
    log(`${name}: searching`);
    for (const [question, filter] of Object.entries(questions)) {
      const figure: Figure = {
        name: `${question}, a page and the next one`,
        unit: 'ms',
        digits: 1,
      };
      times[question] ??= figure;
      for (let round = 0; round < rounds; round += 1) {
        measurements.add(times[question], name, await ask(stores, filter));
      }
    }
  }
  return measurements.markdown(
    [...Object.values(figures), ...Object.values(times)],
    ['SQLite', 'PostgreSQL'],
  );
}

/** Writes all rows as the server does, as if they had happened over the days before `endMs`. */
async function fill(name: string, { db }: Stores, measurements: Measurements): Promise<void> {
  let nowMs = endMs - days * dayMs;
  const batches: number[] = [];
  const calls = new CallLog({
    async write(writes) {
      const begunMs = performance.now();
      await writeCalls(db, writes);
      if (writes.calls.length === 500) batches.push(performance.now() - begunMs);
    },
    namesOf: async (_, ids) => new Map(ids.map((id) => [id, id === 'acme' ? organizationId : id])),
    node: 'bench',
    nowMs: () => nowMs,
    failed(error) {
      throw error;
    },
  });
  const stepMs = (days * dayMs) / (rows / 500);
  const begun = process.cpuUsage();
  for (let written = 0; written < rows; written += 500) {
    for (let place = 0; place < 500; place += 1) calls.note(callOf(written + place));
    await calls.flush();
    nowMs += stepMs;
  }
  const { user, system } = process.cpuUsage(begun);
  await calls.close();
  measurements.add(figures.write, name, (user + system) / rows);
  measurements.add(figures.batch, name, median(batches));
  measurements.add(figures.worstBatch, name, Math.max(...batches));
}

/** Spreads numbers, the same in each run. */
function spread(number: number, over: number): number {
  return (Math.imul(number ^ (number >>> 7), 2_654_435_761) % over) >>> 0;
}

function callOf(number: number): EndedCall {
  const person = spread(number, people) % people;
  const tool = spread(number * 31, tools) % tools;
  const chance = spread(number * 17, 1000) % 1000;
  const end: CallEnd =
    chance < 10 ? 'tool_error' : chance < 12 ? 'upstream_error' : chance < 13 ? 'refused' : 'ok';
  const error =
    end === 'upstream_error' ? 'upstream_failed' : end === 'refused' ? 'bad_params' : undefined;
  return {
    callId: undefined,
    startedAtMs: endMs,
    durationMs: 20 + (chance % 200),
    requestId: `request-${number}`,
    traceId: undefined,
    era: 'modern',
    endpoint: { id: `server_${tool % 12}`, organization: 'acme', name: `server-${tool % 12}` },
    target: { id: `target_${tool % 12}`, name: `server-${tool % 12}` },
    credential: { type: 'key', id: `key_${person % 40}` },
    userId: `person_${person}`,
    application: {
      text:
        number % 100_000 === 0
          ? 'rare'
          : (['Claude Desktop 1.2', 'Cursor 3.1', 'Codex 9'][number % 3] ?? ''),
      source: 'client_info',
    },
    address: '192.0.2.1',
    account: 'none',
    method: 'tools/call',
    subject: `tool_${tool}`,
    end,
    error,
    status: 200,
    bytesIn: 300,
    bytesOut: 1200,
  };
}

/** How long a page and the next one take, in milliseconds each. */
async function ask({ db }: Stores, filter: CallFilter): Promise<number> {
  const search = {
    organizationId,
    filter: { ...filter, fromMs: endMs - 7 * dayMs },
    limit: 50,
    watermarkMs: endMs,
    budgetMs: 60_000,
  };
  const begunMs = performance.now();
  const first = await searchCalls(db, search);
  const last = first.calls.at(-1);
  if (last && first.hasMore)
    await searchCalls(db, { ...search, from: { id: last.id, side: 'older' } });
  return (performance.now() - begunMs) / (last && first.hasMore ? 2 : 1);
}
