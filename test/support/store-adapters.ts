import { join } from 'node:path';

import type { Kysely } from 'kysely';

import type { AdmissionStore } from '#server/gateway/admission';
import type { Schema } from '#server/store/schema';
import { sqliteAdmissions } from '#server/store/sqlite/admission-store';
import { openSqlite } from '#server/store/sqlite/open-sqlite';
import { openStores, type OpenStores } from '#server/stores';
import { temporaryFolder } from './temporary-folder.ts';

/** Every store over one connection; `db` for what no store does yet, as disabling an organization. */
export interface Connection extends Pick<
  OpenStores,
  | 'db'
  | 'organizations'
  | 'organizationDirectory'
  | 'serverDirectory'
  | 'agents'
  | 'agentDirectory'
  | 'clients'
  | 'clientDirectory'
  | 'clientSecrets'
  | 'keys'
  | 'keyDirectory'
  | 'personalTokens'
  | 'users'
  | 'usage'
  | 'definitions'
  | 'rollups'
  | 'rollupReader'
  | 'signingKeys'
  | 'revokedTokens'
> {
  readonly admissions: AdmissionStore;
}

/** A database of its own, at the newest schema, that goes with its `await using` scope. */
export interface TestDatabase extends Connection, AsyncDisposable {
  /** Another connection to the same database, as another process has one. */
  connectAgain(): Promise<Connection>;
}

/** A database of its own that holds no table yet. */
export interface EmptyDatabase extends AsyncDisposable {
  connect(): Kysely<Schema>;
}

export interface StoreAdapter {
  readonly name: string;
  readonly open: () => Promise<TestDatabase>;
  readonly openEmpty: () => Promise<EmptyDatabase>;
}

/** The databases on which every contract of a store is checked. */
export const storeAdapters: readonly StoreAdapter[] = [
  { name: 'SQLite', open: sqliteDatabase, openEmpty: emptySqlite },
];

async function sqliteDatabase(): Promise<TestDatabase> {
  const folder = await temporaryFolder();
  const opened: OpenStores[] = [];
  const connectAgain = async () => {
    const stores = await openStores(folder.path);
    opened.push(stores);
    return { ...stores, admissions: sqliteAdmissions(stores.connection) };
  };
  return {
    ...(await connectAgain()),
    connectAgain,
    async [Symbol.asyncDispose]() {
      for (const stores of opened) await stores.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

async function emptySqlite(): Promise<EmptyDatabase> {
  const folder = await temporaryFolder();
  const opened: Kysely<Schema>[] = [];
  return {
    connect() {
      const { db } = openSqlite(join(folder.path, 'latchkey.db'));
      opened.push(db);
      return db;
    },
    async [Symbol.asyncDispose]() {
      for (const db of opened) await db.destroy();
      await folder[Symbol.asyncDispose]();
    },
  };
}
