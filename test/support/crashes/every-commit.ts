import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openStores, type OpenStores } from '#server/app/stores';
import { openDatabaseIn } from '../open-database.ts';
import { temporaryFolder } from '../temporary-folder.ts';

export type EveryCommit = {
  /** Fills the database before the work. */
  prepare: (stores: OpenStores) => Promise<unknown>;
  /** Runs as a process that crashes; the process begins with nothing but the database. */
  work: (stores: OpenStores) => Promise<unknown>;
  /** Runs as the next process, on the database that the crash left. */
  after: (found: { stores: OpenStores; point: string }) => Promise<void>;
};

/**
 * Does `work` on a database file once to learn what it commits, then once for each point before and after a commit.
 * At that point the connection closes, and everything that would use it fails. Returns those points, in order.
 */
export async function everyCommit({ prepare, work, after }: EveryCommit): Promise<string[]> {
  using _ = watchedStatements();
  await using folder = await temporaryFolder('commits');
  const template = join(folder.path, 'template');
  await mkdir(template);
  const prepared = await openDatabaseIn(template);
  await prepare(prepared);
  await prepared.close();
  let copies = 0;

  /** Does the work in a copy of the database, which it leaves as it is then; the points that were passed. */
  const run = async (crashAt?: number) => {
    const copy = join(folder.path, String((copies += 1)));
    await cp(template, copy, { recursive: true });
    const stores = await openStores(copy);
    const points = droppedAt(stores.connection, crashAt);
    const failed = await work(stores).then(
      () => undefined,
      (error: unknown) => error,
    );
    // Kysely closes only an open connection.
    if (stores.connection.isOpen) await stores.close();
    return { copy, points, failed };
  };

  const { points, failed } = await run();
  if (failed !== undefined) throw new Error('the work fails by itself', { cause: failed });
  for (const [index, point] of points.entries()) {
    const crashed = await run(index + 1);
    if (crashed.points.length !== index + 1 || crashed.points.at(-1) !== point)
      throw new Error(`another way than before: ${crashed.points.join(', ')}`);
    const stores = await openStores(crashed.copy);
    try {
      await after({ stores, point });
    } catch (error) {
      throw new Error(`crashed ${point}: ${String(error)}`, { cause: error });
    } finally {
      await stores.close();
    }
  }
  return points;
}

type Pass = (point: string) => void;

/** Receives the points that a connection passes. */
const watching = new WeakMap<DatabaseSync, Pass>();

/** Closes the connection at point number `crashAt`, if there is one. The result collects the points before and after each commit. */
function droppedAt(connection: DatabaseSync, crashAt: number | undefined): string[] {
  const points: string[] = [];
  watching.set(connection, (point) => {
    points.push(point);
    if (points.length !== crashAt) return;
    // What is not committed is rolled back, as when its process dies.
    connection.close();
    throw new Error(`crashed ${point}`);
  });
  return points;
}

/** Makes every statement that is prepared until the end of the scope report what it commits. */
function watchedStatements(): Disposable {
  const { prototype } = DatabaseSync;
  // oxlint-disable-next-line typescript/unbound-method -- applied to the connection that it is asked of
  const { prepare } = prototype;
  prototype.prepare = function watched(this: DatabaseSync, ...of: Parameters<typeof prepare>) {
    const statement = prepare.apply(this, of);
    const [, what] = /^\s*((?:insert into|update|delete from) \S+|commit)/i.exec(of[0]) ?? [];
    if (what === undefined) return statement;
    const name = what.replaceAll('"', '');
    const around =
      <Input extends unknown[], Output>(execute: (...input: Input) => Output) =>
      (...input: Input): Output => {
        const isCommitted = !this.isTransaction || name === 'commit';
        const pass = isCommitted ? watching.get(this) : undefined;
        pass?.(`before ${name}`);
        const result = execute(...input);
        pass?.(`after ${name}`);
        return result;
      };
    return Object.assign(statement, {
      run: around(statement.run.bind(statement)),
      all: around(statement.all.bind(statement)),
    });
  };
  return {
    [Symbol.dispose]() {
      prototype.prepare = prepare;
    },
  };
}
