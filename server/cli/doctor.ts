import { lookup } from 'node:dns/promises';
import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { sql } from 'kysely';
import { printRows } from '#admin/print';
import { shellWord } from '#model/shell-word';
import { databasePlace } from '#config/database-place';
import {
  dataDir,
  databaseUrl,
  dynamicRegistration,
  json,
  masterKeyFile,
  noClientDocuments,
  outboundHost,
} from '#config/option';
import type { Input } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import { installedMigrations, migrationNames, refusedMigration } from '#db/migrate';
import { listOutboundHosts } from '#db/outbound-hosts';
import {
  leastVersion,
  readServerFacts,
  reasonOf,
  withoutPassword,
} from '#db/postgres/check-postgres';
import { listSigningKeys } from '#db/signing-keys';
import { openSqliteToRead, problemOfDatabase } from '#db/sqlite/open-sqlite';
import type { Db } from '#db/transaction';
import { listNodes, mostSkewMs } from '#nodes/node-registry';
import { readMasterKey } from '#secrets/master-key';
import { areSealedUnder } from '#oauth/signing-keys';
import { checkedAddresses, OutboundError } from '#outbound/checked-addresses';
import type { FolderCommand, FolderPorts } from './backup-commands.ts';

const connectTimeoutMs = 5000;
/** The doctor warns of clock skew from half of what a node tolerates. */
const warnSkewMs = mostSkewMs / 2;

interface Finding {
  readonly check: string;
  readonly outcome: 'OK' | 'warning' | 'failure';
  readonly detail: string;
  /** What to do about a warning or a failure. */
  readonly remedy?: string;
}

export const doctor: FolderCommand = {
  words: 'doctor',
  positionals: [],
  options: [
    dataDir,
    databaseUrl,
    masterKeyFile,
    {
      name: 'reach',
      value: 'HOST[:PORT]',
      doc: 'also check that this host resolves to addresses that the server may connect to',
    },
    outboundHost,
    dynamicRegistration,
    noClientDocuments,
    json,
  ],
  doc: 'check the database, the master key, the data directory, the nodes and the way to the internet, and print remedies',
  async runOnFolder(input, ports) {
    const shared = databasePlace(input);
    // Checked before the database is opened, because SQLite creates files beside it with the same permissions.
    const folder = shared && !input.isGiven('data-dir') ? [] : checkFolder(input, ports);
    const ofDatabase = shared
      ? await checkShared(shared.url, input)
      : await checkFile(input, ports);
    const findings = [
      ...ofDatabase.findings,
      ...folder,
      ...(await checkOutbound(input, ofDatabase.allowedHosts ?? [])),
      await checkApplications(input, ports),
    ];
    print(findings, { isJson: input.flag('json'), out: ports.out });
    const failures = findings.filter(({ outcome }) => outcome === 'failure').length;
    if (failures > 0) throw new CommandError(`${failures} of ${findings.length} checks failed`);
  },
};

/** The findings about a database, and the hosts in private networks that it allows. */
interface OfDatabase {
  readonly findings: readonly Finding[];
  readonly allowedHosts?: readonly string[];
}

function print(
  findings: readonly Finding[],
  { isJson, out }: { isJson: boolean; out: FolderPorts['out'] },
): void {
  if (isJson) {
    const rows = findings.map(({ remedy, ...found }) => ({ ...found, remedy: remedy ?? null }));
    return printRows(rows, { json: true, empty: '', out });
  }
  const width = Math.max(...findings.map(({ check }) => check.length));
  for (const { check, outcome, detail, remedy } of findings) {
    const words = remedy === undefined ? detail : `${detail}. ${remedy}`;
    out(`${outcome.padEnd(7)}  ${check.padEnd(width)}  ${words}`);
  }
}

async function checkShared(url: string, input: Input): Promise<OfDatabase> {
  const { openPostgres } = await import('#db/postgres/open-postgres');
  const db = openPostgres({
    connectionString: url,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: connectTimeoutMs,
  });
  try {
    const server = await checkServer(db, url);
    if (server.some(({ outcome, check }) => check === 'database' && outcome === 'failure'))
      return { findings: server };
    const installed = await installedMigrations(db);
    const findings = [
      ...server,
      await checkClock(db),
      await checkSchema(db, installed, 'run latchkey-server migrate, or start a node on it'),
      ...(installed.length === 0 ? [] : [await checkMasterKey(db, input)]),
      ...(installed.includes('0002-nodes') ? await checkNodes(db) : []),
    ];
    return { findings, allowedHosts: await allowedIn(db, installed) };
  } finally {
    await db.destroy();
  }
}

async function checkServer(db: Db, url: string): Promise<Finding[]> {
  const check = 'database';
  const place = `PostgreSQL at ${withoutPassword(url)}`;
  let facts;
  try {
    facts = await readServerFacts(db);
  } catch (error) {
    const remedy = 'Check --database-url, the network, and that PostgreSQL runs';
    return [{ check, outcome: 'failure', detail: `${place}: ${reasonOf(error)}`, remedy }];
  }
  const { version, release, encoding } = facts;
  return [
    { check, outcome: 'OK', detail: place },
    version >= leastVersion
      ? { check: 'version', outcome: 'OK', detail: `PostgreSQL ${release}` }
      : {
          check: 'version',
          outcome: 'failure',
          detail: `PostgreSQL ${release}`,
          remedy: 'Use version 15 or newer',
        },
    encoding === 'UTF8'
      ? { check: 'encoding', outcome: 'OK', detail: encoding }
      : {
          check: 'encoding',
          outcome: 'failure',
          detail: encoding,
          remedy: "Create the database with: encoding 'UTF8' template template0",
        },
    standbyFinding(facts),
  ];
}

function standbyFinding(facts: Awaited<ReturnType<typeof readServerFacts>>): Finding {
  const check = 'standby';
  const { is_standby, synchronous_commit, synchronous_names, standbys } = facts;
  if (is_standby) {
    const detail = 'this database is a standby';
    return { check, outcome: 'failure', detail, remedy: 'Name the primary in --database-url' };
  }
  if (['off', 'local'].includes(synchronous_commit)) {
    const detail = `synchronous_commit is ${synchronous_commit}: commits are confirmed before they are safe`;
    const remedy = "Run: alter database DATABASE set synchronous_commit = 'on'";
    return { check, outcome: 'failure', detail, remedy };
  }
  if (synchronous_names !== '') {
    const detail = `${standbys} attached, synchronous_standby_names is ${synchronous_names}`;
    return standbys > 0
      ? { check, outcome: 'OK', detail }
      : { check, outcome: 'warning', detail, remedy: 'Commits may wait until a standby connects' };
  }
  if (standbys === 0) return { check, outcome: 'OK', detail: 'no standby' };
  return {
    check,
    outcome: 'failure',
    detail: `${standbys} attached, but none is synchronous: a failover would bring back revoked keys`,
    remedy: 'Set synchronous_standby_names on the primary',
  };
}

async function checkClock(db: Db): Promise<Finding> {
  const before = Date.now();
  const { rows } = await sql<{
    now: number;
  }>`select (extract(epoch from clock_timestamp()) * 1000)::bigint as now`.execute(db);
  const skewMs = Math.round((before + Date.now()) / 2 - (rows[0]?.now ?? 0));
  const detail = `this machine's clock differs from the database's by ${Math.abs(skewMs)} ms`;
  const remedy = `Synchronize both clocks with NTP: a node with more than ${mostSkewMs} ms is not ready`;
  if (Math.abs(skewMs) <= warnSkewMs) return { check: 'clock', outcome: 'OK', detail };
  const outcome = Math.abs(skewMs) > mostSkewMs ? 'failure' : 'warning';
  return { check: 'clock', outcome, detail, remedy };
}

async function checkSchema(
  db: Db,
  installed: readonly string[],
  howToBegin: string,
): Promise<Finding> {
  const check = 'schema';
  const newest = installed.at(-1);
  if (newest === undefined) {
    const detail = 'there is no installation in this database';
    return { check, outcome: 'failure', detail, remedy: `To begin one, ${howToBegin}` };
  }
  const detail = `version ${newest}`;
  if ((await refusedMigration(db, installed)) !== undefined) {
    const remedy = 'The database was made by a newer Latchkey: update this one';
    return { check, outcome: 'failure', detail, remedy };
  }
  if (installed.length >= migrationNames.length) return { check, outcome: 'OK', detail };
  const remedy = `The next start or command updates it to ${migrationNames.at(-1)}: make a backup first`;
  return { check, outcome: 'warning', detail, remedy };
}

async function checkMasterKey(db: Db, input: Input): Promise<Finding> {
  const check = 'master key';
  const keys = await listSigningKeys(db);
  const file = resolve(input.text('master-key-file') ?? join(input.must('data-dir'), 'master.key'));
  // A node must name its key file, because the one in the default folder belongs to another installation.
  const isNamed =
    !input.isGiven('database-url') || input.isGiven('master-key-file') || input.isGiven('data-dir');
  if (keys.length === 0 && !(isNamed && existsSync(file))) {
    return { check, outcome: 'OK', detail: 'not created yet: there are no signing keys' };
  }
  if (!isNamed) {
    return { check, outcome: 'warning', detail: 'not checked', remedy: 'Give --master-key-file' };
  }
  const remedy = 'Name the file of this installation in --master-key-file';
  try {
    if (areSealedUnder(readMasterKey(file, { mayCreate: false }), keys)) {
      return {
        check,
        outcome: 'OK',
        detail: `${file} opens ${keys.length} ${keys.length === 1 ? 'signing key' : 'signing keys'}`,
      };
    }
    const detail = `${file} does not open the signing keys`;
    return { check, outcome: 'failure', detail, remedy };
  } catch (error) {
    return { check, outcome: 'failure', detail: reasonOf(error), remedy };
  }
}

async function checkNodes(db: Db): Promise<Finding[]> {
  const nodes = await listNodes(db);
  if (!nodes.some(({ isAlive }) => isAlive)) {
    const remedy = 'Start one with latchkey-server start --database-url';
    return [{ check: 'nodes', outcome: 'warning', detail: 'no node is running', remedy }];
  }
  const versions = new Set(nodes.filter(({ isAlive }) => isAlive).map(({ version }) => version));
  const each = nodes.map(({ name, version, isAlive, seenAt, clockSkewMs }): Finding => {
    const check = `node ${name}`;
    if (!isAlive) {
      const seen = new Date(seenAt * 1000).toISOString();
      const remedy = 'Look at its log, unless it was stopped on purpose';
      return { check, outcome: 'warning', detail: `gone, last seen ${seen}`, remedy };
    }
    const detail = `version ${version}, clock differs by ${Math.abs(clockSkewMs)} ms`;
    if (Math.abs(clockSkewMs) <= mostSkewMs) return { check, outcome: 'OK', detail };
    return { check, outcome: 'failure', detail, remedy: 'Synchronize its clock with NTP' };
  });
  if (versions.size <= 1) return each;
  const detail = `nodes run different versions: ${[...versions].join(', ')}`;
  return [...each, { check: 'nodes', outcome: 'warning', detail, remedy: 'Finish the upgrade' }];
}

async function checkFile(
  input: Input,
  { isInUse, databaseFile }: FolderPorts,
): Promise<OfDatabase> {
  const check = 'database';
  const folder = resolve(input.must('data-dir'));
  const file = databaseFile(folder);
  if (!isInUse(folder)) {
    const remedy = 'Name the data directory of the server in --data-dir, or give --database-url';
    const detail = `there is no database in ${folder}`;
    return { findings: [{ check, outcome: 'failure', detail, remedy }] };
  }
  let problem: string | undefined;
  try {
    problem = problemOfDatabase(file);
  } catch (error) {
    problem = `cannot be read: ${reasonOf(error)}`;
  }
  if (problem !== undefined) {
    const remedy = 'Restore a backup with latchkey-server restore';
    return { findings: [{ check, outcome: 'failure', detail: `${file} ${problem}`, remedy }] };
  }
  const { db } = openSqliteToRead(file);
  try {
    const { rows } = await sql<{ version: string }>`select sqlite_version() as version`.execute(db);
    const installed = await installedMigrations(db);
    const findings: Finding[] = [
      { check, outcome: 'OK', detail: `${file}, complete` },
      { check: 'version', outcome: 'OK', detail: `SQLite ${rows[0]?.version ?? ''}` },
      await checkSchema(db, installed, 'start the server'),
      await checkMasterKey(db, input),
    ];
    return { findings, allowedHosts: await allowedIn(db, installed) };
  } finally {
    await db.destroy();
  }
}

/** Everything in the data folder must be accessible to its owner only. */
function checkFolder(input: Input, { databaseFile }: FolderPorts): Finding[] {
  const check = 'permissions';
  const folder = resolve(input.must('data-dir'));
  if (process.platform === 'win32' || !existsSync(folder)) {
    if (!input.isGiven('database-url')) return [];
    const detail = `there is no folder ${folder}`;
    return [{ check, outcome: 'failure', detail, remedy: 'Correct --data-dir' }];
  }
  const database = databaseFile(folder);
  const files = [database, `${database}-wal`, `${database}-shm`, join(folder, 'master.key')];
  const open = [folder, ...files].filter(
    (path) => existsSync(path) && (statSync(path).mode & 0o077) !== 0,
  );
  if (open.length === 0) {
    return [{ check, outcome: 'OK', detail: `only the owner can access ${folder}` }];
  }
  const detail = `other users can access ${open.join(', ')}`;
  return [
    {
      check,
      outcome: 'failure',
      detail,
      remedy: `Run: chmod go-rwx ${open.map(shellWord).join(' ')}`,
    },
  ];
}

/** The hosts that `outbound allow` added. An older database has no table of them. */
async function allowedIn(db: Db, installed: readonly string[]): Promise<readonly string[]> {
  if (!installed.includes('0023-attention')) return [];
  return (await listOutboundHosts(db)).map(({ host }) => host);
}

async function checkOutbound(input: Input, allowed: readonly string[]): Promise<Finding[]> {
  const check = 'outbound';
  const host = input.text('reach');
  if (host === undefined) return [];
  const url = URL.parse(`https://${host}/`);
  if (!url || url.pathname !== '/' || url.username !== '') {
    throw new UsageError(`--reach '${host}' is not a host`, 'write it as mcp.example.com');
  }
  try {
    const found = await checkedAddresses(url, {
      allowedHosts: [...input.list('outbound-host'), ...allowed],
      resolve: (name) => lookup(name, { all: true }),
      tellsUnknownNames: true,
    });
    const detail = `${host} resolves to ${found.map(({ address }) => address).join(', ')}`;
    return [{ check, outcome: 'OK', detail }];
  } catch (error) {
    const isInside = error instanceof OutboundError && error.code === 'forbidden';
    const remedy = isInside
      ? `If it is in your network, allow it: latchkey-server outbound allow ${shellWord(host)}`
      : 'Check the spelling, and DNS on this computer';
    return [{ check, outcome: 'failure', detail: reasonOf(error), remedy }];
  }
}

/** The hosts where popular assistants publish their client metadata documents. */
const documentHosts = [
  ['Claude Code', 'claude.ai'],
  ['Codex', 'chatgpt.com'],
] as const;

/** Checks whether applications can become clients without an administrator: by registering, or by a reachable metadata document. */
async function checkApplications(input: Input, { connects }: FolderPorts): Promise<Finding> {
  const check = 'applications';
  const both = '--no-client-metadata-documents and --dynamic-registration';
  if (input.flag(noClientDocuments.name)) {
    if (input.flag(dynamicRegistration.name)) {
      return { check, outcome: 'OK', detail: 'they register themselves' };
    }
    const detail =
      'they cannot register themselves, and client metadata documents are not announced';
    const remedy = `Start the server with ${both}, unless an administrator creates each client`;
    return { check, outcome: 'warning', detail, remedy };
  }
  const reached = await Promise.all(documentHosts.map(([, host]) => connects(host)));
  const lost = documentHosts.filter((_, index) => !reached[index]);
  const hosts = (of: readonly (readonly [string, string])[]) =>
    of.map(([assistant, host]) => `${host} (${assistant})`).join(' and ');
  if (lost.length === 0) {
    const detail = `${hosts(documentHosts)} can be reached for their metadata`;
    return { check, outcome: 'OK', detail };
  }
  const detail = `${hosts(lost)} cannot be reached for the metadata of assistants`;
  const remedy = `If this server has no access to the internet, start it with ${both}, and give doctor the same options`;
  return { check, outcome: 'warning', detail, remedy };
}
