import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '#support/temporary-folder';
import { openRecords } from './credentials.ts';
import { Installation, type ServerNode } from './installation.ts';
import { pause } from './machinery.ts';
import {
  countingUpstream,
  createTargets,
  MixedLoad,
  type MixedReport,
  violationsOf,
} from './mixed-load.ts';

export interface UpgradeReport {
  readonly versions: readonly [string, string];
  readonly load: MixedReport;
  readonly restartOfAnOlderNode: string;
  readonly violations: readonly string[];
}

const root = join(import.meta.dirname, '../..');
const nodes = 3;
const newVersion = '99.0.0';

/** What a failed call may say during a rolling upgrade, by kind. See "Upgrade" in docs/scaling.md. */
const documented = {
  // The session ended with its node.
  session: /^session lost$/,
  // The agent is on its way to another node.
  agent: /^503 -32000$/,
} as const;

/**
 * Replaces nodes one after another by those of a newer version with an additive migration, while calls of all kinds and writes are made.
 * In between, a node of the older version restarts on the newer database.
 */
export async function upgrade(log: (line: string) => void): Promise<UpgradeReport> {
  await using newer = await newerVersion();
  await using installation = await Installation.create({
    size: nodes,
    nodeArgs: ['--shutdown-delay', '2'],
  });
  await using records = await openRecords(installation);
  await using upstream = await countingUpstream();
  const targets = await createTargets(installation, records, upstream.url);
  await using _agent = await installation.startAgent(targets.connectKey, { behind: upstream.url });
  const load = new MixedLoad({ installation, records, targets, upstream }, { paceMs: 10 });
  await load.start();
  const older: readonly ServerNode[] = [...installation.nodes];
  const violations: string[] = [];
  let restartOfAnOlderNode = 'not tried';
  await pause(2000);
  for (const [at, node] of older.entries()) {
    log(`${node.name} is replaced by ${newVersion}`);
    await node.stop();
    await installation.addNode({ launcher: newer.launcher });
    installation.nodes.splice(installation.nodes.indexOf(node), 1);
    await pause(2000);
    const last = older.at(-1);
    if (at === 0 && last) {
      log(`${last.name} restarts with the older version`);
      await last.stop();
      restartOfAnOlderNode = await last.start().then(
        () => 'started',
        (error: unknown) => String(error),
      );
      if (restartOfAnOlderNode !== 'started') violations.push(restartOfAnOlderNode);
      await pause(2000);
    }
  }
  const found = await newer.migratedRows(installation);
  if (found !== 1) violations.push('the additive migration is not in the database');
  const report = await load.stop();
  for (const { kind, word } of load.failures) {
    const allowed = kind === 'session' || kind === 'agent' ? documented[kind] : undefined;
    if (!allowed?.test(word)) violations.push(`a failed call: ${kind}: ${word}`);
  }
  const { version } = JSON.parse(readFileSync(join(root, 'server/package.json'), 'utf8'));
  return {
    versions: [version, newVersion],
    load: report,
    restartOfAnOlderNode,
    violations: [...violations, ...violationsOf(report)],
  };
}

const migrationName = '9999-of-a-newer-version';
const addedTable = 'made_by_a_newer_version';

/** A copy of the sources with a higher version and one more migration, which adds a table, a column and an index. */
async function newerVersion() {
  const folder = await temporaryFolder('newer');
  const copy = (path: string) =>
    cpSync(join(root, path), join(folder.path, path), {
      recursive: true,
      filter: (file) => !/[\\/](dist|data)$/.test(file),
      verbatimSymlinks: true,
    });
  for (const path of ['package.json', 'mcp', 'server', 'proxy']) copy(path);
  symlinkSync(join(root, 'node_modules'), join(folder.path, 'node_modules'));
  const change = (path: string, from: string | RegExp, to: string) => {
    const file = join(folder.path, path);
    const text = readFileSync(file, 'utf8');
    const changed = text.replace(from, to);
    if (changed === text) throw new Error(`${path} has no ${from}`);
    writeFileSync(file, changed);
  };
  change('server/package.json', /"version": "[^"]+"/, `"version": "${newVersion}"`);
  const statements = [
    `create table ${addedTable} (id text primary key)`,
    `alter table api_key add column added_later text`,
    `alter table mcp_server add column added_later integer not null default 0`,
    `create index added_later on api_key (added_later)`,
  ];
  writeFileSync(
    join(folder.path, 'server/db/migrations/9999-newer.ts'),
    `import { sql } from 'kysely';
import type { Db } from '#db/transaction';
export async function up(db: Db): Promise<void> {
  for (const text of ${JSON.stringify(statements)}) await sql.raw(text).execute(db);
}
`,
  );
  change(
    'server/db/migrate.ts',
    `'0002-nodes': { up: nodes },`,
    `'0002-nodes': { up: nodes }, '${migrationName}': { up: newer, isAdditive: true },`,
  );
  change(
    'server/db/migrate.ts',
    `import { Migrator }`,
    `import { up as newer } from './migrations/9999-newer.ts';\nimport { Migrator }`,
  );
  return {
    launcher: join(folder.path, 'server/bin/latchkey-server.js'),
    migratedRows: async ({ postgres }: Installation) =>
      (
        await postgres.query<object>(
          `select 1 from kysely_migration where name = '${migrationName}'`,
          'latchkey',
        )
      ).length,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}
