import { join } from 'node:path';

import { sql, type Kysely } from 'kysely';
import { inject } from 'vitest';

import { openPostgres } from '#server/db/postgres/open-postgres';
import type { Schema } from '#server/db/schema';
import { openSqlite } from '#server/db/sqlite/open-sqlite';
import type { Db } from '#server/db/transaction';
import { databaseName, openPostgresStores, type Stores } from '#server/app/stores';
import { openDatabaseIn } from './open-database.ts';
import type { RequirementName } from './requirements.ts';
import { suite } from './suite.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** One connection to a database, or one pool of connections, as a process has it. */
export type Connection = Pick<Stores, 'db' | 'admissions' | 'agentDirectory' | 'changes'>;

/** A database of its own, at the newest schema, that lasts until the end of its `await using` scope. */
export type TestDatabase = Connection &
  AsyncDisposable & {
    /** Where it is: a file, or a URL. */
    readonly url: string;
    /** Another connection to the same database, as another process has one. */
    connectAgain(): Promise<Connection>;
  };

/** A database of its own that holds no table yet. */
export interface EmptyDatabase extends AsyncDisposable {
  /** Where it is: a file, or a URL. */
  readonly url: string;
  connect(): Kysely<Schema>;
}

export interface TestedDatabase {
  readonly name: string;
  readonly needs: readonly RequirementName[];
  readonly open: () => Promise<TestDatabase>;
  readonly openEmpty: () => Promise<EmptyDatabase>;
}

/**
 * Defines the same suite for each kind of database, and once more with every transaction run twice, the first time rolled back. A
 * transaction that must not run again, or that leaves something behind outside the database, does not pass. Transactions are the same
 * code on both, so PostgreSQL repeats them only in `npm run test:full`.
 */
export async function onEachDatabase(
  title: string,
  define: (database: TestedDatabase) => void,
): Promise<void> {
  const isFull = process.env['TEST_FULL'] !== undefined;
  const repeating = [sqlite, ...(isFull ? [postgres] : [])].map(runTwice);
  for (const database of [sqlite, postgres, ...repeating]) {
    await suite(database.needs, `${title} in ${database.name}`, () => define(database));
  }
}

const sqlite: TestedDatabase = {
  name: 'SQLite',
  needs: [],
  open: openSqliteDatabase,
  openEmpty: openEmptySqlite,
};

/** For tests that need connections which do not block each other's process; use it in a `suite('postgres', …)`. */
export const postgres: TestedDatabase = {
  name: 'PostgreSQL',
  needs: ['postgres'],
  open: openPostgresDatabase,
  openEmpty: openEmptyPostgres,
};

/** The same kind of database, with every transaction of its connections run twice. */
function runTwice(database: TestedDatabase): TestedDatabase {
  return {
    ...database,
    name: `${database.name} with every transaction run twice`,
    async open() {
      const opened = await database.open();
      const twice = (one: Connection) => ({ ...one, db: withTransactionsTwice(one.db) });
      return {
        ...twice(opened),
        url: opened.url,
        connectAgain: async () => twice(await opened.connectAgain()),
        [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
      };
    },
  };
}

/** Runs a whole transaction, rolls it back, and runs it again. A transaction that rejects runs once. */
function withTransactionsTwice(db: Db): Db {
  return new Proxy(db, {
    get(target, name) {
      if (name === 'transaction') return () => ({ execute: twice });
      if (name === 'connection') {
        return () => ({
          execute: <Result>(work: (one: Db) => Promise<Result>) =>
            target.connection().execute((one) => work(withTransactionsTwice(one))),
        });
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });

  async function twice<Result>(work: (tx: Db) => Promise<Result>): Promise<Result> {
    const takenBack = new Error('taken back');
    const first = db.transaction().execute(async (tx) => {
      await work(tx);
      throw takenBack;
    });
    await first.catch((error: unknown) => {
      if (error !== takenBack) throw error;
    });
    return db.transaction().execute(work);
  }
}

async function openSqliteDatabase(): Promise<TestDatabase> {
  const folder = await temporaryFolder();
  const closing: (() => Promise<void>)[] = [];
  const connectAgain = async () => {
    const stores = await openDatabaseIn(folder.path);
    closing.push(() => stores.close());
    return stores;
  };
  return {
    ...(await connectAgain()),
    url: join(folder.path, databaseName),
    connectAgain,
    async [Symbol.asyncDispose]() {
      for (const close of closing) await close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

async function openEmptySqlite(): Promise<EmptyDatabase> {
  const folder = await temporaryFolder();
  const opened: Kysely<Schema>[] = [];
  return {
    url: join(folder.path, databaseName),
    connect() {
      const { db } = openSqlite(join(folder.path, databaseName));
      opened.push(db);
      return db;
    },
    async [Symbol.asyncDispose]() {
      for (const db of opened) await db.destroy();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** A schema with its tables, and the stores that first connected to it. */
interface UsedSchema {
  readonly schema: string;
  readonly first: Stores;
}

// Tables and connections are slow to make on PostgreSQL. A test that is done with a schema removes its rows, as another process would, and
// the next test gets the schema and the stores that first connected to it.
const freeSchemas: UsedSchema[] = [];
let schemaCount = 0;

async function openPostgresDatabase(): Promise<TestDatabase> {
  const { schema, first } = freeSchemas.pop() ?? (await newSchema());
  const opened: Stores[] = [];
  return {
    ...first,
    url: urlOf(schema),
    async connectAgain() {
      const stores = await connectStores(schema);
      opened.push(stores);
      return stores;
    },
    async [Symbol.asyncDispose]() {
      await removeRows(first.db);
      for (const stores of opened) await stores.close();
      freeSchemas.push({ schema, first });
    },
  };
}

async function newSchema(): Promise<UsedSchema> {
  const schema = await createSchema();
  return { schema, first: await connectStores(schema) };
}

function connectStores(schema: string): Promise<Stores> {
  return openPostgresStores(
    { url: urlOf(schema), mayLoseWrites: true },
    { mayAdmit: () => true, failed: () => undefined },
  );
}

async function openEmptyPostgres(): Promise<EmptyDatabase> {
  const schema = await createSchema();
  const opened: Kysely<Schema>[] = [];
  return {
    url: urlOf(schema),
    connect() {
      const db = connectTo(schema);
      opened.push(db);
      return db;
    },
    async [Symbol.asyncDispose]() {
      for (const db of opened) await db.destroy();
    },
  };
}

async function createSchema(): Promise<string> {
  const schema = `test_${process.pid}_${(schemaCount += 1)}`;
  const db = connectTo('public');
  await sql`create schema ${sql.id(schema)}`.execute(db);
  await db.destroy();
  return schema;
}

function connectTo(schema: string): Kysely<Schema> {
  return openPostgres({ connectionString: urlOf(schema) });
}

/** A URL whose connections use one schema. */
function urlOf(schema: string): string {
  const url = new URL(inject('postgresUrl'));
  url.searchParams.set('options', `-c search_path=${schema} -c synchronous_commit=off`);
  return url.href;
}

/** Removes every row, first from tables that refer to other tables. */
async function removeRows(db: Kysely<Schema>): Promise<void> {
  const { rows } = await sql<{ name: string }>`select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r' and relname not like 'kysely%'
    order by oid desc`.execute(db);
  const statements = [
    'alter table audit_event disable trigger user',
    ...rows
      .filter(({ name }) => name !== 'admission_epoch')
      .map(({ name }) => `delete from ${name}`),
    'alter table audit_event enable trigger user',
  ];
  await sql.raw(`begin; ${statements.join('; ')}; commit`).execute(db);
}
