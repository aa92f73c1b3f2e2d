import { resolve } from 'node:path';
import { printRows } from '#admin/print';
import { checkDatabaseUrl } from '#config/database-place';
import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { noteOperatorAction } from './audit-note.ts';
import type { FolderCommand } from './backup-commands.ts';

const connectTimeoutMs = 5000;
/** How many digits of a checksum the table shows. */
const printedDigits = 16;

export const migrateCommand: FolderCommand = {
  words: 'migrate',
  positionals: [],
  options: [
    {
      name: 'from',
      value: 'DATA_DIR',
      required: true,
      doc: 'the data directory of the stopped server; it is not changed',
    },
    {
      name: 'to',
      value: 'URL',
      required: true,
      doc: 'an empty PostgreSQL database, postgres://USER:PASSWORD@HOST:PORT/DATABASE',
    },
    json,
  ],
  doc: 'copy an installation from SQLite to an empty PostgreSQL database, and compare both',
  async runOnFolder(input, { isInUse, databaseFile, clock, out }) {
    const dataDir = resolve(input.must('from'));
    const url = checkDatabaseUrl(input.must('to'), '--to');
    if (!isInUse(dataDir)) {
      throw new CommandError(
        `there is no database in ${dataDir}`,
        'name the data directory of the server in --from',
      );
    }
    // Loaded here, because other commands do not need these modules.
    const [{ checkPostgres }, { copySqlite, openSource }, { openPostgres }] = await Promise.all([
      import('#db/postgres/check-postgres'),
      import('#db/postgres/copy-sqlite'),
      import('#db/postgres/open-postgres'),
    ]);
    const source = openSource(databaseFile(dataDir));
    const db = openPostgres({
      connectionString: url,
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
    });
    try {
      await checkPostgres(db, { url, mayLoseWrites: true, option: '--to' });
      const tables = await copySqlite(source, db, (tx) =>
        noteOperatorAction('database.migrate', { db: tx, clock }),
      );
      const isJson = input.flag('json');
      const rows = tables.map(({ table, rows: count, checksum }) => ({
        table,
        rows: count,
        checksum: isJson ? checksum : checksum.slice(0, printedDigits),
      }));
      printRows(rows, { json: isJson, empty: '', out });
      if (isJson) return;
      out('hint: counts and checksums are the same in both databases');
      out(
        'hint: copy master.key to each node and start with --database-url and --master-key-file; do not start the server on the old data directory again',
      );
    } finally {
      await db.destroy();
      source.close();
    }
  },
};
