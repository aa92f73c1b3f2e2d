import { closeSync, fdatasync, openSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';

const syncMeanwhile = promisify(fdatasync);

/**
 * Writes the write-ahead log to disk without blocking the process, which SQLite does. When `sync` resolves, everything is on disk that
 * was committed before it: SQLite writes commits to this file and does not overwrite them before they are in the database file, and
 * that is on disk.
 *
 * SQLite "Write-Ahead Logging" §2.1, §6
 */
export class WriteAheadLog {
  readonly #database: DatabaseSync;
  #file: string | undefined;
  #descriptor: number | undefined;
  #running = 0;
  #isClosed = false;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** Whether there is one, which works: a database in memory has none, and some file systems allow none. */
  get isUsed(): boolean {
    this.#file ??= this.#find();
    return this.#file !== '';
  }

  async sync(): Promise<void> {
    // To write, because Windows syncs nothing that was opened only to read. It stays the same file for as long as the database is open.
    this.#descriptor ??= openSync(this.#file ?? '', 'r+');
    this.#running += 1;
    try {
      await syncMeanwhile(this.#descriptor);
    } catch (error) {
      // The system reports a failure once, and what failed may be missing below what follows. SQLite, which will learn of it too, decides.
      this.#file = '';
      throw error;
    } finally {
      this.#running -= 1;
      if (this.#isClosed) this.close();
    }
  }

  close(): void {
    this.#isClosed = true;
    if (this.#running > 0 || this.#descriptor === undefined) return;
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #find(): string {
    const mode = this.#database.prepare('pragma journal_mode').get()?.['journal_mode'];
    const file = this.#database.location();
    return mode === 'wal' && file !== null ? `${file}-wal` : '';
  }
}
