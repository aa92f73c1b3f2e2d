import { createHash } from 'node:crypto';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { sql } from 'kysely';
import { CommandError } from '#config/usage-error';
import { databaseFault } from '#db/faults';
import { migrate, migrationNames } from '#db/migrate';
import { advisoryLock, type Db } from '#db/transaction';

const chunkRows = 1000;
const emptyDatabaseHint = 'create an empty database for it and name that';

/** The tables of Kysely, and those that only a shared database has. They contain no data of the installation. */
const ownTables = new Set([
  'kysely_migration',
  'kysely_migration_lock',
  'node',
  'agent_presence',
  'admission_epoch',
  'additive_migration',
]);

export interface CopiedTable {
  readonly table: string;
  readonly rows: number;
  /** SHA-256 of all rows in the order of their key; the same on both sides. */
  readonly checksum: string;
}

interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  /** The columns of the primary key. */
  readonly key: readonly string[];
  readonly refersTo: readonly string[];
}

type Row = readonly (string | null)[];

/**
 * Opens the SQLite database of an installation, which no other process can open until it is closed.
 *
 * @throws {CommandError} if another process has it open, or its schema is not the newest
 */
export function openSource(file: string): DatabaseSync {
  const source = new DatabaseSync(file, { timeout: 0 });
  try {
    // In write-ahead logging, the first read takes a lock that every other open connection prevents.
    source.exec('pragma locking_mode = exclusive; pragma query_only = on');
    checkSchema(source, file);
    return source;
  } catch (error) {
    source.close();
    if (databaseFault(error) !== 'busy') throw error;
    throw new CommandError(
      `another process has ${file} open`,
      'stop the server, and wait for commands to end',
      { cause: error },
    );
  }
}

/**
 * Copies every table into an empty PostgreSQL database and compares both sides, in one transaction: if anything fails or differs, the
 * database stays empty.
 *
 * @throws {CommandError} if the database is not empty, if text has a NUL character, or if a table differs afterwards
 */
export async function copySqlite(
  source: DatabaseSync,
  db: Db,
  /** Runs in the same transaction, after the comparison. */
  finish: (tx: Db) => Promise<void>,
): Promise<readonly CopiedTable[]> {
  const tables = inOrderOfReferences(readTables(source));
  refuseNulCharacters(source, tables);
  return db.transaction().execute(async (tx) => {
    // A node that starts now waits for this lock.
    await advisoryLock(tx, 'migrations');
    await checkEmpty(tx);
    await migrate(tx);
    await sql`lock table ${sql.join(tables.map(({ name }) => sql.table(name)))}`.execute(tx);
    await checkWithoutRows(tx);
    for (const table of tables) await copyTable(source, tx, table);
    const copied: CopiedTable[] = [];
    for (const table of tables) copied.push(await compareTable(source, tx, table));
    await finish(tx);
    // Without statistics, the first queries would read whole tables.
    await sql`analyze ${sql.join(tables.map(({ name }) => sql.table(name)))}`.execute(tx);
    return copied;
  });
}

function checkSchema(source: DatabaseSync, file: string): void {
  const found = source
    .prepare('select name from kysely_migration order by name')
    .all()
    .map(({ name }) => String(name));
  if (found.join() === migrationNames.join()) return;
  throw new CommandError(
    `the schema of ${file} is not the one of this version`,
    'start the server of this version on it once, stop it, and migrate then',
  );
}

function readTables(source: DatabaseSync): Table[] {
  const names = source
    .prepare(
      "select name from sqlite_master where type = 'table' and name not like 'sqlite%' order by name",
    )
    .all()
    .map(({ name }) => String(name));
  return names
    .filter((name) => !ownTables.has(name))
    .map((name) => {
      const columns = source
        .prepare('select name, pk from pragma_table_info(?) order by cid')
        .all(name);
      const references = source
        .prepare('select distinct "table" as name from pragma_foreign_key_list(?)')
        .all(name);
      const key = columns.filter(({ pk }) => Number(pk) > 0);
      return {
        name,
        columns: columns.map((column) => String(column['name'])),
        key: key
          .toSorted((one, other) => Number(one['pk']) - Number(other['pk']))
          .map((column) => String(column['name'])),
        refersTo: references.map((reference) => String(reference['name'])),
      };
    });
}

function inOrderOfReferences(tables: readonly Table[]): Table[] {
  const ordered = new Set<Table>();
  const add = (table: Table) => {
    if (ordered.has(table)) return;
    for (const other of tables) {
      if (other !== table && table.refersTo.includes(other.name)) add(other);
    }
    ordered.add(table);
  };
  tables.forEach(add);
  return [...ordered];
}

/** Refuses NUL characters, because PostgreSQL cannot store them. */
function refuseNulCharacters(source: DatabaseSync, tables: readonly Table[]): void {
  for (const { name, columns, key } of tables) {
    for (const column of columns) {
      const found = source
        .prepare(
          `select ${key.map(quoted).join(', ')} from ${quoted(name)}
            where typeof(${quoted(column)}) = 'text' and instr(${quoted(column)}, char(0)) > 0 limit 1`,
        )
        .get();
      if (!found) continue;
      const row = key.map((part) => `${part} ${JSON.stringify(found[part])}`).join(', ');
      throw new CommandError(
        `${name}.${column} has a NUL character, which PostgreSQL cannot store, in the row with ${row}`,
        'change that text in the dashboard or with a command, and migrate again',
      );
    }
  }
}

async function checkEmpty(tx: Db): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = current_schema()`.execute(tx);
  const names = new Set(rows.map(({ name }) => name));
  if (names.size === 0 || names.has('kysely_migration')) return;
  throw new CommandError('the database has tables of another program', emptyDatabaseHint);
}

async function checkWithoutRows(tx: Db): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = current_schema() order by tablename`.execute(
    tx,
  );
  for (const { name } of rows) {
    if (ownTables.has(name) && name !== 'node') continue;
    const found = await sql`select 1 from ${sql.table(name)} limit 1`.execute(tx);
    if (found.rows.length === 0) continue;
    throw new CommandError(
      `the database is not empty: its table ${name} has rows`,
      `${emptyDatabaseHint}; migrate never adds to an installation`,
    );
  }
}

async function copyTable(source: DatabaseSync, tx: Db, table: Table): Promise<void> {
  const columns = sql.join(table.columns.map((column) => sql.ref(column)));
  const types = await typesOf(tx, table);
  const insert = async (rows: readonly Row[]) => {
    const values = types.map(
      (type, index) => sql`${rows.map((row) => row[index] ?? null)}::${sql.raw(type)}[]`,
    );
    await sql`insert into ${sql.table(table.name)} (${columns})
      select * from unnest(${sql.join(values)})`.execute(tx);
  };
  let rows: Row[] = [];
  for (const row of sourceRows(source, table)) {
    rows.push(row);
    if (rows.length < chunkRows) continue;
    await insert(rows);
    rows = [];
  }
  if (rows.length > 0) await insert(rows);
}

/** The types of a table's columns, in the order of the source. */
async function typesOf(tx: Db, { name, columns }: Table): Promise<string[]> {
  const { rows } = await sql<{ name: string; type: string }>`
    select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
      where attrelid = (quote_ident(current_schema()) || '.' || quote_ident(${name}))::regclass
        and attnum > 0 and not attisdropped`.execute(tx);
  const types = new Map(rows.map((row) => [row.name, row.type]));
  if (types.size !== columns.length) throw new Error(`${name} has other columns in PostgreSQL`);
  return columns.map((column) => {
    const type = types.get(column);
    if (type === undefined) throw new Error(`${name}.${column} is missing in PostgreSQL`);
    return type;
  });
}

/** @throws {CommandError} if the rows of a table are not the same on both sides */
async function compareTable(source: DatabaseSync, tx: Db, table: Table): Promise<CopiedTable> {
  const there = checksum();
  for (const row of sourceRows(source, table)) there.add(row);
  const here = checksum();
  for await (const row of copiedRows(tx, table)) here.add(row);
  const [expected, found] = [there.result(), here.result()];
  if (expected.rows !== found.rows || expected.checksum !== found.checksum) {
    throw new CommandError(
      `${table.name} differs after copying: ${expected.rows} rows with checksum ${expected.checksum} in SQLite, ${found.rows} with ${found.checksum} in PostgreSQL`,
      'nothing was kept; check both databases, and report this',
    );
  }
  return { table: table.name, ...found };
}

function checksum() {
  const hash = createHash('sha256');
  let rows = 0;
  return {
    add(row: Row) {
      rows += 1;
      hash.update(`${JSON.stringify(row)}\n`);
    },
    result: () => ({ rows, checksum: hash.digest('hex') }),
  };
}

/** The rows in the order of their key, every value as text. */
function* sourceRows(source: DatabaseSync, { name, columns, key }: Table): Generator<Row> {
  const statement: StatementSync = source.prepare(
    `select ${columns.map(quoted).join(', ')} from ${quoted(name)} order by ${key.map(quoted).join(', ')}`,
  );
  statement.setReadBigInts(true);
  for (const row of statement.iterate()) {
    yield columns.map((column) => {
      const value = row[column];
      return value === null || value === undefined ? null : String(value);
    });
  }
}

/** The same rows from PostgreSQL. */
async function* copiedRows(tx: Db, { name, columns, key }: Table): AsyncGenerator<Row> {
  const values = columns.map((column) => sql`${sql.ref(column)}::text`);
  const order = sql.join(key.map((column) => sql.ref(`copied.${column}`)));
  // The columns are qualified with the table, so that rows are ordered by their values and not by the texts.
  await sql`declare copied_rows no scroll cursor for
    select array[${sql.join(values)}] as "row" from ${sql.table(name)} as copied order by ${order}`.execute(
    tx,
  );
  for (;;) {
    const { rows } = await sql<{
      row: Row;
    }>`fetch ${sql.raw(String(chunkRows))} from copied_rows`.execute(tx);
    for (const { row } of rows) yield row;
    if (rows.length < chunkRows) break;
  }
  await sql`close copied_rows`.execute(tx);
}

/** Names of tables and columns come from our own schema. */
function quoted(name: string): string {
  return `"${name}"`;
}
