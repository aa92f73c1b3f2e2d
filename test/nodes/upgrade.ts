import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';
import { builtPackages, run, unpack } from '#support/packages';
import { temporaryFolder } from '#support/temporary-folder';
import { openRecords } from './credentials.ts';
import { Installation, type ServerNode } from './installation.ts';
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
  await using folder = await temporaryFolder('versions');
  log('packing both versions');
  const launchers = await bothVersions(folder.path);
  await using installation = await Installation.create({
    size: 0,
    nodeArgs: ['--shutdown-delay', '2'],
  });
  for (let at = 0; at < nodes; at += 1) await installation.addNode({ launcher: launchers.older });
  await using records = await openRecords(installation);
  await using upstream = await countingUpstream();
  const targets = await createTargets(installation, records, upstream);
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
    await installation.addNode({ launcher: launchers.newer });
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
  const applied = await installation.postgres.query<object>(
    `select 1 from kysely_migration where name = '${migrationName}'`,
    'latchkey',
  );
  if (applied.length !== 1) violations.push('the additive migration is not in the database');
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

/**
 * Unpacks the server's package as it is published into `folder` twice, and puts a newer program into one of them: bundled as it would be
 * published, from a copy of the sources with a higher version and one more migration, which adds a table, two columns and an index.
 * Returns the scripts of both, which `node` runs.
 */
async function bothVersions(folder: string): Promise<{ older: string; newer: string }> {
  const { server } = await builtPackages(folder);
  const unpacked = async (name: string) => {
    const place = join(folder, name);
    mkdirSync(place);
    await unpack(server, place);
    return join(place, 'node_modules/latchkey-server');
  };
  const [older, newer] = [await unpacked('older'), await unpacked('newer')];
  const sources = newerSources(folder);
  const bundler = JSON.stringify(pathToFileURL(join(sources, 'scripts/bundle.ts')).href);
  const program = `import { bundleProgram } from ${bundler};
    const { files } = await bundleProgram('server');
    process.stdout.write(JSON.stringify([...files]));`;
  const bundle = await run(process.execPath, ['--input-type=module', '-e', program], sources);
  const files: readonly [name: string, code: string][] = JSON.parse(bundle);
  for (const [name, code] of files) writeFileSync(join(newer, 'dist', name), code);
  changeText(join(newer, 'package.json'), ...newVersionInManifest);
  const launcher = 'bin/latchkey-server.js';
  return { older: join(older, launcher), newer: join(newer, launcher) };
}

const newVersionInManifest = [/"version": "[^"]+"/, `"version": "${newVersion}"`] as const;

function changeText(file: string, from: string | RegExp, to: string): void {
  const text = readFileSync(file, 'utf8');
  const changed = text.replace(from, to);
  if (changed === text) throw new Error(`${file} has no ${from}`);
  writeFileSync(file, changed);
}

function newerSources(parent: string): string {
  const folder = join(parent, 'sources');
  const copy = (path: string) =>
    cpSync(join(root, path), join(folder, path), {
      recursive: true,
      filter: (file) => !/[\\/](dist|data)$/.test(file),
      verbatimSymlinks: true,
    });
  for (const path of ['package.json', 'scripts', 'mcp', 'server', 'proxy']) copy(path);
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  changeText(join(folder, 'server/package.json'), ...newVersionInManifest);
  const statements = [
    `create table ${addedTable} (id text primary key)`,
    `alter table api_key add column added_later text`,
    `alter table endpoint add column added_later integer not null default 0`,
    `create index added_later on api_key (added_later)`,
  ];
  writeFileSync(
    join(folder, 'server/db/migrations/9999-newer.ts'),
    `import { sql } from 'kysely';
import type { Db } from '#db/transaction';
export async function up(db: Db): Promise<void> {
  for (const text of ${JSON.stringify(statements)}) await sql.raw(text).execute(db);
}
`,
  );
  changeText(
    join(folder, 'server/db/migrate.ts'),
    `'0002-nodes': { up: nodes },`,
    `'0002-nodes': { up: nodes }, '${migrationName}': { up: newer, isAdditive: true },`,
  );
  changeText(
    join(folder, 'server/db/migrate.ts'),
    `import { Migrator }`,
    `import { up as newer } from './migrations/9999-newer.ts';\nimport { Migrator }`,
  );
  return folder;
}
