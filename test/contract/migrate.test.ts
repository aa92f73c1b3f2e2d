import { sql, type Kysely } from 'kysely';
import { describe, expect, test } from 'vitest';
import { migrate } from '#server/store/migrate';
import { clientStore } from '#server/store/client-store';
import { organizationStore } from '#server/store/organization-store';
import type { Schema } from '#server/store/schema';
import { newClient } from '#support/made-records';
import { storeAdapters } from '#support/store-adapters';

const acme = { id: 'org_acme', name: 'acme', createdAt: 1 };

async function migrations(db: Kysely<Schema>) {
  const { rows } = await sql<{ name: string }>`select name from migration`.execute(db);
  return rows.map(({ name }) => name);
}

describe.each(storeAdapters)('migrations of $name', ({ openEmpty }) => {
  test('make every table out of nothing', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await migrate(db);

    expect(await organizationStore(db).add(acme)).toBe(true);
    expect(await migrations(db)).toContain('0001-credentials');
  });

  test('change nothing when they are run again', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await migrate(db);
    await organizationStore(db).add(acme);
    const before = await migrations(db);
    await migrate(db);
    await migrate(database.connect());

    expect(await migrations(db)).toEqual(before);
    expect(await organizationStore(db).byName('acme')).toEqual(acme);
  });

  test('refuse a database of a newer version, and leave it as it is', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await migrate(db);
    await sql`insert into migration (name) values ('9999-of-tomorrow')`.execute(db);
    const before = await migrations(db);

    await expect(migrate(db)).rejects.toThrow(
      'the database was made by a newer Latchkey (it has migration 9999-of-tomorrow)',
    );
    expect(await migrations(db)).toEqual(before);
  });

  test('make clients authenticate that registered themselves with a secret before', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await migrate(db);
    const clients = clientStore(db);
    const self = { serverId: undefined };
    await clients.add(newClient({ ...self, id: 'with a secret', secretHash: 'hash' }));
    await clients.add(newClient({ ...self, id: 'public', secretHash: undefined }));
    for (const [table, column] of [
      ['oauth_client', 'authentication_required'],
      ['authorization_request', 'server_id'],
      ['authorization_request', 'scopes'],
    ] as const) {
      await sql`alter table ${sql.table(table)} drop column ${sql.ref(column)}`.execute(db);
    }
    await sql`delete from migration where name = '0019-authorization'`.execute(db);

    await migrate(db);

    expect(await clients.byId('with a secret')).toMatchObject({ authenticationRequired: true });
    expect(await clients.byId('public')).toMatchObject({ authenticationRequired: false });
  });

  test('that fail in the middle leave nothing behind', async () => {
    await using database = await openEmpty();
    const db = database.connect();
    await sql`create table signing_key (in_the_way text)`.execute(db);

    await expect(migrate(db)).rejects.toThrow('signing_key');
    await expect(migrations(db)).rejects.toThrow('migration');
    await expect(organizationStore(db).byName('acme')).rejects.toThrow('organization');
  });
});
