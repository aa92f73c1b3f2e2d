import { sql } from 'kysely';
import { OwnPostgres } from '../nodes/machinery.ts';
import { revokeKey } from '#server/db/keys';
import { openPostgresStores, openStores, type Stores } from '#server/app/stores';
import { temporaryFolder } from '#support/temporary-folder';
import { interleaved, Measurements, median, type Figure } from './measurements.ts';
import { processCost } from './process-cost.ts';

const figures = {
  oneMs: { name: 'one after another, median', unit: 'µs', digits: 0 },
  many: { name: '64 at once, admissions/s', unit: '', digits: 0 },
  cpu: { name: 'processor time of the node an admission, 64 at once', unit: 'µs', digits: 1 },
  database: { name: 'processor time of PostgreSQL an admission', unit: 'µs', digits: 1 },
} satisfies Record<string, Figure>;

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
const seconds = 2;
const servers = 100;
const keys = 10_000;
/** Revoked one by one during the rounds with revocations; callers do not use them. */
const spare = 2000;
const revocationsPerSecond = 20;
const now = 1_800_000_000;

interface Racer {
  readonly name: string;
  readonly stores: Stores;
  readonly isRevoking: boolean;
}

/** Measures what it costs to ask the database whether a key may call, with keys that take turns. Returns a Markdown table. */
export async function benchAdmissions(log: (line: string) => void): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const postgres = stack.use(await OwnPostgres.create(folder));
  const sqlite = await openStores(folder);
  stack.defer(() => sqlite.close());
  const ports = { mayAdmit: () => true, failed: (error: unknown) => log(String(error)) };
  const shared = await openPostgresStores({ url: postgres.url(), mayLoseWrites: true }, ports);
  stack.defer(() => shared.close());
  for (const stores of [sqlite, shared]) await fill(stores);

  const racers: Racer[] = [
    { name: 'SQLite', stores: sqlite, isRevoking: false },
    { name: 'PostgreSQL', stores: shared, isRevoking: false },
    { name: 'SQLite, during revocations', stores: sqlite, isRevoking: true },
    { name: 'PostgreSQL, during revocations', stores: shared, isRevoking: true },
  ];
  const measurements = new Measurements();
  for (const { stores } of racers) await during(1, () => admit(stores));
  log(`${rounds} rounds of ${2 * seconds} s for each of ${racers.length}`);
  await interleaved(rounds, racers, async ({ name, stores, isRevoking }) => {
    const revoking = isRevoking
      ? setInterval(() => void revokeKey(stores.db, spareKey(), now), 1000 / revocationsPerSecond)
      : undefined;
    const alone = await during(1, () => admit(stores));
    measurements.add(figures.oneMs, name, median(alone.times) * 1000);
    const cpuOf = (pid: number) => processCost(pid)?.cpuMs ?? Number.NaN;
    const [database, own] = [cpuOf(postgres.pid), process.cpuUsage()];
    const many = await during(64, () => admit(stores));
    const { user, system } = process.cpuUsage(own);
    const admissions = many.times.length;
    measurements.add(figures.many, name, admissions / seconds);
    measurements.add(figures.cpu, name, (user + system) / admissions);
    if (stores === shared) {
      const used = (cpuOf(postgres.pid) - database) * 1000;
      measurements.add(figures.database, name, used / admissions);
    }
    clearInterval(revoking);
  });
  return measurements.markdown(
    Object.values(figures),
    racers.map(({ name }) => name),
  );
}

/** An organization with servers, each with some of the keys. */
async function fill({ db }: Stores): Promise<void> {
  const numbers = (most: number) =>
    sql`with recursive number(n) as (select 1 union all select n + 1 from number where n < ${sql.lit(most)})`;
  await sql`insert into organization (id, name, created_at) values ('org_acme', 'acme', 1)`.execute(
    db,
  );
  await sql`insert into endpoint (id, organization_id, name, created_at)
    ${numbers(servers)} select 'srv_' || n, 'org_acme', 's' || n, 1 from number`.execute(db);
  await sql`insert into target (id, endpoint_id, upstream_kind, upstream_settings)
    ${numbers(servers)} select 'target_' || n, 'srv_' || n, 'demo', '{}' from number`.execute(db);
  await sql`insert into api_key (id, hash, hint, name, endpoint_id, scopes, created_at)
    ${numbers(keys + spare)} select 'key_' || n, 'hash ' || n, '', '', 'srv_' || (n % ${sql.lit(servers)} + 1), '[]', 1
    from number`.execute(db);
  await sql`analyze`.execute(db);
}

let asked = 0;
let revoked = 0;
const spareKey = () => `key_${keys + ((revoked += 1) % spare)}`;

async function admit({ admissions }: Stores): Promise<void> {
  asked += 1;
  const n = (asked % keys) + 1;
  const place = { organization: 'acme', server: `s${(n % servers) + 1}`, now };
  const admitted = await admissions.byKey({ ...place, keyHash: `hash ${n}` });
  if (!admitted) throw new Error(`key ${n} was refused`);
}

/** Runs `act` again and again in this many lanes, and returns how long each run took. */
async function during(lanes: number, act: () => Promise<void>): Promise<{ times: number[] }> {
  const times: number[] = [];
  const until = performance.now() + seconds * 1000;
  const lane = async () => {
    while (performance.now() < until) {
      const startedAt = performance.now();
      await act();
      times.push(performance.now() - startedAt);
      // SQLite answers without a turn of the event loop, so the lanes would let nothing else run.
      if (times.length % 64 === 0) await new Promise(setImmediate);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return { times };
}
