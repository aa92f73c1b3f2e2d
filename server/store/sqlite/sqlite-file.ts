import { DatabaseSync } from 'node:sqlite';

/**
 * Whether `file` holds a database of ours, every page of it readable.
 * What it is otherwise, a picture or half a copy, is the answer as words behind the name of the file.
 */
export function problemOfDatabase(file: string): string | undefined {
  const connection = new DatabaseSync(file, { readOnly: true });
  try {
    const found = connection.prepare('pragma integrity_check(1)').get();
    if (found?.['integrity_check'] !== 'ok') return 'is damaged';
    const table = `select 1 from sqlite_master where type = 'table' and name = 'migration'`;
    return connection.prepare(table).get() ? undefined : 'is no backup of a Latchkey server';
  } catch (error) {
    const isOther = error instanceof Error && /not a database|malformed/.test(error.message);
    if (!isOther) throw error;
    return 'is no backup of a Latchkey server, or damaged';
  } finally {
    connection.close();
  }
}

/**
 * Puts all of the database into its one file, which only goes while nobody else has it open.
 * `false` when somebody has.
 */
export function isolateDatabase(file: string): boolean {
  const connection = new DatabaseSync(file, { timeout: 0 });
  try {
    // Leaving the write-ahead log takes a lock that every other open connection is in the way of.
    connection.exec('pragma journal_mode = delete');
    return true;
  } catch (error) {
    if (error instanceof Error && /locked|busy/.test(error.message)) return false;
    throw error;
  } finally {
    connection.close();
  }
}
