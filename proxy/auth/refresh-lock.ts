import { backOffs, pauseMs } from '#clock/back-off';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '#clock/clock';
import { TokenError } from './errors.ts';

/**
 * Lets one process at a time renew the token of an account. When that process ends, the lock is released. The next holder reads
 * the store again first, because the previous one has probably renewed the token.
 */
export interface RefreshLock {
  /** @throws {TokenError} `busy`, `no_lock`, or what `work` rejects with */
  hold<T>(account: string, work: () => Promise<T>): Promise<T>;
}

/**
 * A lock within this process, for a store that no other process uses. It does nothing, because a token source renews one token
 * at a time.
 */
export function processRefreshLock(): RefreshLock {
  return { hold: async (_, work) => work() };
}

const quickRetries = 20;
const sqliteBusy = 5;

/**
 * A lock between processes: an exclusive SQLite transaction on an empty file in `directory`. Node has no `flock`, and the
 * operating system ends the transaction with its process, even after a crash.
 */
export function sqliteRefreshLock(
  directory: string,
  clock: Clock,
  timeoutSeconds = 60,
): RefreshLock {
  return {
    async hold(account, work) {
      const database = await open(directory, account);
      try {
        await begin(database, clock, timeoutSeconds);
        return await work();
      } finally {
        database.close();
      }
    },
  };
}

async function open(directory: string, account: string): Promise<DatabaseSync> {
  try {
    // Imported here, because a start with a stored token does not need these modules.
    const [{ createHash }, { mkdir }, sqlite] = await Promise.all([
      import('node:crypto'),
      import('node:fs/promises'),
      import('node:sqlite'),
    ]);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const name = createHash('sha256').update(account).digest('hex').slice(0, 32);
    return new sqlite.DatabaseSync(join(directory, `${name}.lock`), { timeout: 0 });
  } catch (error) {
    throw new TokenError('no_lock', `cannot lock in ${directory}: ${reasonOf(error)}`, {
      cause: error,
    });
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function begin(database: DatabaseSync, clock: Clock, timeoutSeconds: number): Promise<void> {
  const deadline = clock.now() + timeoutSeconds;
  for (let retries = 0; ; retries += 1) {
    try {
      return database.exec('BEGIN EXCLUSIVE');
    } catch (error) {
      if (!(error instanceof Error && 'errcode' in error && error.errcode === sqliteBusy))
        throw new TokenError('no_lock', `cannot lock ${database.location()}: ${reasonOf(error)}`, {
          cause: error,
        });
      if (clock.now() >= deadline)
        throw new TokenError('busy', `another process has been renewing for ${timeoutSeconds} s`, {
          cause: error,
        });
    }
    await clock.sleep(pauseMs(backOffs.lock, Math.max(0, retries - quickRetries)));
  }
}
