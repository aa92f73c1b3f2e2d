import { join } from 'node:path';
import type { Clock } from '#clock/clock';
import type { RefreshLock } from '#token/refresh-lock';
import { TokenError } from '#token/token-source';

const retryMs = 50;
const patienceSeconds = 60;
const sqliteBusy = 5;

/**
 * A lock made of an exclusive SQLite transaction on an empty file in `directory`: Node has no
 * `flock`, and the operating system ends the transaction with its process, however it dies.
 */
export function sqliteRefreshLock(directory: string, clock: Clock): RefreshLock {
  return {
    async hold(account, work) {
      // Loaded here: a start from a stored token never needs it.
      const [{ createHash }, { mkdir }, { DatabaseSync }] = await Promise.all([
        import('node:crypto'),
        import('node:fs/promises'),
        import('node:sqlite'),
      ]);
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const name = createHash('sha256').update(account).digest('hex').slice(0, 32);
      const database = new DatabaseSync(join(directory, `${name}.lock`), { timeout: 0 });
      try {
        await begin(() => database.exec('BEGIN EXCLUSIVE'), clock);
        return await work();
      } finally {
        database.close();
      }
    },
  };
}

async function begin(beginExclusive: () => void, clock: Clock): Promise<void> {
  const deadline = clock.now() + patienceSeconds;
  for (;;) {
    try {
      return beginExclusive();
    } catch (error) {
      if (!(error instanceof Error && 'errcode' in error && error.errcode === sqliteBusy))
        throw error;
      if (clock.now() >= deadline)
        throw new TokenError('busy', `another process has been renewing for ${patienceSeconds} s`, {
          cause: error,
        });
    }
    await clock.sleep(retryMs);
  }
}
