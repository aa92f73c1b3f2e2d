import { sql, type Kysely } from 'kysely';
import { expect, test } from 'vitest';
import { migrate, migrationNames, migrations as known } from '#server/db/migrate';
import { findOrganization, insertOrganization } from '#server/db/organizations';
import type { Schema } from '#server/db/schema';
import type { Db } from '#server/db/transaction';
import { suite } from '#support/suite';
import { onEachDatabase, postgres } from '#support/databases';

const acme = { id: 'org_acme', name: 'acme', createdAt: 1 };

async function migrations(db: Kysely<Schema>) {
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db);
  return rows.map(({ name }) => name);
}

await onEachDatabase('migrations', ({ openEmpty }) => {
  test('create every table in an empty database', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await migrate(db);

    expect(await insertOrganization(db, acme)).toBe(true);
    expect(await migrations(db)).toEqual([...migrationNames]);
  });

  test('change nothing when they run again', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await migrate(db);
    await insertOrganization(db, acme);
    const before = await migrations(db);
    await migrate(db);
    await migrate(database.connect());

    expect(await migrations(db)).toEqual(before);
    expect(await findOrganization(db, 'acme')).toEqual(acme);
  });

  test('refuse a database of a newer version and leave it as it is', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await migrate(db);
    await sql`insert into kysely_migration (name, timestamp) values ('9999-of-tomorrow', '')`.execute(
      db,
    );
    const before = await migrations(db);

    await expect(migrate(db)).rejects.toThrow(
      'the database was made by a newer Latchkey (it has migration 9999-of-tomorrow)',
    );
    expect(await migrations(db)).toEqual(before);
  });

  test('refuse a database from before the first release and leave it as it is', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await sql`create table migration (name text primary key)`.execute(db);

    await expect(migrate(db)).rejects.toThrow(
      'the database was made by a Latchkey from before the first release, which this one cannot read: start with an empty data folder',
    );
    await expect(migrations(db)).rejects.toThrow('migration');
  });

  test('leave nothing behind when they fail half way', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await sql`create table signing_key (in_the_way text)`.execute(db);

    await expect(migrate(db)).rejects.toThrow('signing_key');
    await expect(migrations(db)).rejects.toThrow('migration');
    await expect(findOrganization(db, 'acme')).rejects.toThrow('organization');
  });
});

await suite('postgres', 'migrations in PostgreSQL', () => {
  test('run once when eight processes start together', async () => {
    await using database = await postgres.openEmpty();
    const connections = Array.from({ length: 8 }, () => database.connect());
    await Promise.all(connections.map((db) => migrate(db)));

    expect(await migrations(database.connect())).toEqual([...migrationNames]);
  });

  const up = async (db: Db) => void (await sql`create table of_tomorrow (id text)`.execute(db));

  test('an additive migration of a newer version is accepted, and left as it is', async () => {
    await using database = await postgres.openEmpty();
    const db = database.connect();
    await migrate(db, { ...known, '9999-of-tomorrow': { up, isAdditive: true } });

    await migrate(db);

    expect(await migrations(db)).toContain('9999-of-tomorrow');
  });

  test('any other migration of a newer version is refused, also beside an additive one', async () => {
    await using database = await postgres.openEmpty();
    const db = database.connect();
    const nothing = () => Promise.resolve();
    await migrate(db, {
      ...known,
      '9998-of-tomorrow': { up, isAdditive: true },
      '9999-of-tomorrow': { up: nothing },
    });

    await expect(migrate(db)).rejects.toThrow(
      'the database was made by a newer Latchkey (it has migration 9999-of-tomorrow)',
    );
  });
});
