import { sql, type DatabaseIntrospector } from 'kysely';
import { Migrator } from 'kysely/migration';

import { up as initial } from './migrations/0001-initial.ts';
import { up as nodes } from './migrations/0002-nodes.ts';
import { up as auditRetention } from './migrations/0003-audit-retention.ts';
import { up as calls } from './migrations/0004-calls.ts';
import { up as callContents } from './migrations/0005-call-contents.ts';
import { up as callIndex } from './migrations/0006-call-index.ts';
import { up as callGaps } from './migrations/0007-call-gaps.ts';
import { up as callPseudonyms } from './migrations/0008-call-pseudonyms.ts';
import { up as callPeriods } from './migrations/0009-call-periods.ts';
import { up as identityProviders } from './migrations/0010-identity-providers.ts';
import { up as assertionGrants } from './migrations/0011-assertion-grants.ts';
import { up as scim } from './migrations/0012-scim.ts';
import { up as providerLogouts } from './migrations/0013-provider-logouts.ts';
import { up as auditRequest } from './migrations/0014-audit-request.ts';
import { up as toolRights } from './migrations/0015-tool-rights.ts';
import { up as grantBundles } from './migrations/0016-grant-bundles.ts';
import { up as people } from './migrations/0018-people.ts';
import { up as devices } from './migrations/0019-devices.ts';
import { up as accessRequests } from './migrations/0020-access-requests.ts';
import { up as personKeys } from './migrations/0021-person-keys.ts';
import { up as collections } from './migrations/0022-collections.ts';
import { up as attention } from './migrations/0023-attention.ts';
import { up as endedAccess } from './migrations/0024-ended-access.ts';
import { up as personKeyUse } from './migrations/0025-person-key-use.ts';
import { up as agentCommands } from './migrations/0026-agent-commands.ts';
import { up as deployment } from './migrations/0027-deployment.ts';
import { advisoryLock, isPostgres, transaction, type Db } from './transaction.ts';

export interface Migration {
  readonly up: (db: Db) => Promise<void>;
  /**
   * Whether versions without this migration may go on using the database, as they do during a rolling upgrade. It may add tables,
   * indexes, columns that are nullable or have a default, and triggers that only change data that older versions do not know. It may
   * not change data that older versions read, or rely on data that they would have to write.
   */
  readonly isAdditive?: boolean;
}

/** All migrations, oldest first. The statements of a released migration never change. */
export const migrations: Readonly<Record<string, Migration>> = {
  '0001-initial': { up: initial },
  '0002-nodes': { up: nodes },
  '0003-audit-retention': { up: auditRetention },
  '0004-calls': { up: calls, isAdditive: true },
  '0005-call-contents': { up: callContents, isAdditive: true },
  '0006-call-index': { up: callIndex, isAdditive: true },
  '0007-call-gaps': { up: callGaps, isAdditive: true },
  '0008-call-pseudonyms': { up: callPseudonyms, isAdditive: true },
  '0009-call-periods': { up: callPeriods },
  '0010-identity-providers': { up: identityProviders },
  '0011-assertion-grants': { up: assertionGrants, isAdditive: true },
  '0012-scim': { up: scim },
  '0013-provider-logouts': { up: providerLogouts, isAdditive: true },
  '0014-audit-request': { up: auditRequest, isAdditive: true },
  '0015-tool-rights': { up: toolRights },
  '0016-grant-bundles': { up: grantBundles },
  '0018-people': { up: people, isAdditive: true },
  '0019-devices': { up: devices, isAdditive: true },
  '0020-access-requests': { up: accessRequests, isAdditive: true },
  '0021-person-keys': { up: personKeys, isAdditive: true },
  '0022-collections': { up: collections },
  '0023-attention': { up: attention, isAdditive: true },
  '0024-ended-access': { up: endedAccess },
  '0025-person-key-use': { up: personKeyUse, isAdditive: true },
  '0026-agent-commands': { up: agentCommands, isAdditive: true },
  '0027-deployment': { up: deployment, isAdditive: true },
};

/** The names in `kysely_migration` of a database with the newest schema, oldest first. */
export const migrationNames: readonly string[] = Object.keys(migrations);

/**
 * Migrates the database to the newest schema, in one transaction and under a lock: only one of several starting processes
 * migrates, and a migration that fails changes nothing. On PostgreSQL, a database with newer migrations is used as it is
 * if all of the newer ones are additive.
 *
 * @throws {Error} when the database is from a newer Latchkey, or from before the first release
 */
export async function migrate(db: Db, known = migrations): Promise<void> {
  await transaction(db, async (tx) => {
    if (isPostgres(tx)) await sql`set local statement_timeout = 0`.execute(tx);
    await advisoryLock(tx, 'migrations');
    const installed = await installedMigrations(tx);
    await refuseOthers(tx, installed, known);
    // A newer version has migrated this database: there is nothing to do, and Kysely fails on migrations that it does not know.
    if (installed.some((name) => !Object.hasOwn(known, name))) return;
    const provider = { getMigrations: () => Promise.resolve({ ...known }) };
    const { error } = await new Migrator({ db: tx, provider }).migrateToLatest();
    if (error !== undefined) throw error;
    if (isPostgres(tx)) await recordAdditive(tx, known);
  });
}

/** Tells older versions which migrations they may ignore. */
async function recordAdditive(tx: Db, known: Readonly<Record<string, Migration>>): Promise<void> {
  for (const [name, { isAdditive = false }] of Object.entries(known)) {
    if (!isAdditive) continue;
    await sql`insert into additive_migration (name) values (${name}) on conflict do nothing`.execute(
      tx,
    );
  }
}

async function refuseOthers(
  tx: Db,
  installed: readonly string[],
  known: Readonly<Record<string, Migration>>,
): Promise<void> {
  if ((await tablesOf(tx)).has('migration')) {
    throw new Error(
      'the database was made by a Latchkey from before the first release, which this one cannot read: start with an empty data folder',
    );
  }
  const refused = await refusedMigration(tx, installed, known);
  if (refused !== undefined) {
    throw new Error(`the database was made by a newer Latchkey (it has migration ${refused})`);
  }
}

/** The names of the migrations that the database has, oldest first; none if there is no installation yet. */
export async function installedMigrations(db: Db): Promise<readonly string[]> {
  if (!(await tablesOf(db)).has('kysely_migration')) return [];
  const { rows } = await sql<{
    name: string;
  }>`select name from kysely_migration order by name`.execute(db);
  return rows.map(({ name }) => name);
}

/** The first of the installed migrations that this version neither knows nor may ignore. */
export async function refusedMigration(
  db: Db,
  installed: readonly string[],
  known: Readonly<Record<string, Migration>> = migrations,
): Promise<string | undefined> {
  const unknown = installed.filter((name) => !Object.hasOwn(known, name));
  if (unknown.length === 0 || !(await tablesOf(db)).has('additive_migration')) return unknown[0];
  const { rows } = await sql<{ name: string }>`select name from additive_migration`.execute(db);
  const additive = new Set(rows.map(({ name }) => name));
  return unknown.find((name) => !additive.has(name));
}

/** An introspector for `Migrator`, which only needs the names of the tables in the default schema. */
export function tableNamesOnly(db: Db): DatabaseIntrospector {
  return {
    getSchemas: () => Promise.resolve([]),
    async getTables() {
      const names = await tablesOf(db);
      return [...names].map((name) => ({ name, isView: false, isForeign: false, columns: [] }));
    },
  };
}

async function tablesOf(db: Db): Promise<ReadonlySet<string>> {
  const query = isPostgres(db)
    ? sql<{
        name: string;
      }>`select tablename as name from pg_tables where schemaname = current_schema()`
    : sql<{ name: string }>`select name from sqlite_master where type = 'table'`;
  const { rows } = await query.execute(db);
  return new Set(rows.map(({ name }) => name));
}
