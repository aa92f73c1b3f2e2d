import { sql } from 'kysely';
import { describe, expect, inject, test } from 'vitest';
import { databaseFault } from '#server/db/faults';
import { openPostgres } from '#server/db/postgres/open-postgres';
import { insertOrganization } from '#server/db/organizations';
import { insertSigningKey } from '#server/db/signing-keys';
import { isPostgres, transaction } from '#server/db/transaction';
import { onEachDatabase, postgres } from '#support/databases';
import { freePort } from '#support/loopback';
import { patient } from '#support/patient';
import { suite } from '#support/suite';
import { waitedFor } from '#support/waited-for';
import { wireProxy } from '#support/wire-proxy';

const now = 1_800_000_000;
const key = { kid: 'a', publicJwk: '{}', encryptedPrivateKey: 'x', createdAt: now };

await onEachDatabase('database faults', ({ open }) => {
  test('a row that exists already is a conflict, and a reference to nothing is one', async () => {
    await using database = await open();
    const { db } = database;
    await insertSigningKey(db, key);
    const again = await insertSigningKey(db, key).catch(databaseFault);
    const dangling = await db
      .insertInto('membership')
      .values({ person_id: 'user_x', organization_id: 'org_x', role: 'owner' })
      .execute()
      .catch(databaseFault);

    expect([again, dangling]).toEqual(['conflict', 'referenced']);
  });

  test('a database that refuses writes is read-only, and what a trigger refuses is something else', async () => {
    await using database = await open();
    const { db } = database;
    const refused = transaction(db, async (tx) => {
      await (isPostgres(tx) ? sql`set transaction read only` : sql`pragma query_only = 1`).execute(
        tx,
      );
      await insertSigningKey(tx, key);
    }).catch(databaseFault);

    expect(await refused).toBe('readonly');
    if (!isPostgres(db)) await sql`pragma query_only = 0`.execute(db);
    expect(await sql`select nothing from nowhere`.execute(db).catch(databaseFault)).toBe('other');
  });

  test('an error that did not come from the database is no fault of it', async () => {
    await using database = await open();
    const failing = transaction(database.db, () => Promise.reject(new Error('ours')));

    expect(databaseFault(await failing.catch((error: unknown) => error))).toBeUndefined();
    expect(databaseFault('text')).toBeUndefined();
  });
});

await suite(['postgres'], 'transactions in PostgreSQL', () => {
  const organizations = ['org_a', 'org_b'] as const;

  test('two transactions that wait for each other both happen: one is run again', async () => {
    await using database = await postgres.open();
    const other = await database.connectAgain();
    for (const id of organizations)
      await insertOrganization(database.db, { id, name: id.replace('_', '-'), createdAt: 1 });
    let runs = 0;
    let held = 0;
    const { promise: bothHold, resolve } = Promise.withResolvers<void>();
    const update = ({ db }: typeof other, order: readonly string[]) =>
      transaction(db, async (tx) => {
        runs += 1;
        for (const id of order) {
          await tx
            .updateTable('organization')
            .set((row) => ({ created_at: row('created_at', '+', 1) }))
            .where('id', '=', id)
            .execute();
          held += 1;
          if (held === 2) resolve();
          await bothHold;
        }
      });
    await Promise.all([update(database, organizations), update(other, organizations.toReversed())]);

    // A second deadlock is possible: the transaction that runs again may be faster than the one that waits.
    expect(runs).toBeGreaterThan(2);
    const rows = await database.db.selectFrom('organization').select('created_at').execute();
    expect(rows.map((row) => row.created_at)).toEqual([3, 3]);
  });

  test('a single statement that a deadlock has ended is run again', async () => {
    await using database = await postgres.open();
    for (const id of organizations)
      await insertOrganization(database.db, { id, name: id.replace('_', '-'), createdAt: 1 });
    const [first, second] = organizations;
    // PostgreSQL ends the transaction that is first to look for a deadlock, after this time. By then the deadlock exists.
    await sql`do $$ begin
      execute format('alter database %I set deadlock_timeout = ''4s''', current_database());
    end $$`.execute(database.db);
    const other = await database.connectAgain();
    const deleting = await transaction(database.db, async (tx) => {
      await sql`set local deadlock_timeout = '50s'`.execute(tx);
      const change = (id: string) =>
        tx.updateTable('organization').set({ created_at: 2 }).where('id', '=', id).execute();
      await change(second);
      const isWaitedFor = await waitedFor(tx, database);
      // The deletion locks the first row and waits for the second one. It notices the deadlock before this transaction does.
      const deleted = other.db
        .deleteFrom('organization')
        .where('created_at', '<', 3)
        .executeTakeFirst();
      await expect.poll(isWaitedFor, patient).toBe(true);
      await change(first);
      return { deleted };
    });

    expect(await deleting.deleted).toEqual({ numDeletedRows: 2n });
  });

  test('a database that is not there is unavailable', async () => {
    const db = openPostgres({ host: '127.0.0.1', port: await freePort(), user: 'nobody' });

    expect(await sql`select 1`.execute(db).catch(databaseFault)).toBe('unavailable');
    await db.destroy();
  });

  test('a database whose connection breaks off during a query is unavailable', async () => {
    await using database = await postgres.open();
    const { hostname, port } = new URL(inject('postgresUrl'));
    await using proxy = await wireProxy({ host: hostname, port: Number(port || 5432) });
    const db = openPostgres({ connectionString: proxy.through(database.url) });
    await sql`select 1`.execute(db);
    const answer = sql`select pg_sleep(60)`.execute(db).catch(databaseFault);
    await proxy.cut();

    expect(await answer).toBe('unavailable');
    await db.destroy();
  });

  test('a database that does not answer a query in time is unavailable', async () => {
    await using database = await postgres.open();
    const db = openPostgres({ connectionString: database.url, query_timeout: 100 });

    expect(await sql`select pg_sleep(5)`.execute(db).catch(databaseFault)).toBe('unavailable');
    await db.destroy();
  });

  describe('when its connection ends, a transaction', () => {
    test('is not run again, as it may have been committed', async () => {
      await using database = await postgres.open();
      let runs = 0;
      const ended = transaction(database.db, async (tx) => {
        runs += 1;
        await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx);
      });

      expect(await ended.catch(databaseFault)).toBe('unavailable');
      expect(runs).toBe(1);
    });
  });
});
