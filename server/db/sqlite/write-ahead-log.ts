import { closeSync, fdatasync, openSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';

const syncMeanwhile = promisify(fdatasync);

/**
 * Syncs the write-ahead log to disk without blocking the process, as SQLite would. When `sync` resolves, everything that was committed
 * before the call is on disk: SQLite writes commits to this file and does not overwrite them before they are in the database file, and
 * that file is on disk.
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

  /** Whether there is a log that works: a database in memory has none, some file systems allow none, and `sync` may have failed. */
  get isUsed(): boolean {
    this.#file ??= this.#find();
    return this.#file !== '';
  }

  async sync(): Promise<void> {
    // Opened to write, because Windows does not sync a file that was opened only to read. The log stays this file while the database is open.
    this.#descriptor ??= openSync(this.#file ?? '', 'r+');
    this.#running += 1;
    try {
      await syncMeanwhile(this.#descriptor);
    } catch (error) {
      // The system reports a failure only once, and its data may be missing below later data. SQLite, which will learn of it too, decides.
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
