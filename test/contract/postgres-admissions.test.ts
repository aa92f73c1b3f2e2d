import { sql } from 'kysely';
import { Client } from 'pg';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { lockAdmissions } from '#server/db/admissions';
import { insertAuditEvent } from '#server/db/audit';
import {
  checkClientSecret,
  insertSecret,
  listClientSecrets,
  revokeClientSecret,
} from '#server/db/client-secrets';
import {
  callingClientColumns,
  findCallingClient,
  findDocumentedClient,
  insertClient,
  putDocumentedClient,
  revokeClient,
  updateClient,
} from '#server/db/clients';
import { insertKey, revokeKey } from '#server/db/keys';
import { updateLastUses } from '#server/db/last-uses';
import { migrate } from '#server/db/migrate';
import { insertOrganization } from '#server/db/organizations';
import { AdmissionsUnavailable } from '#server/db/postgres/admission-reader';
import { targetColumns } from '#server/db/server-rows';
import { openPostgresStores } from '#server/app/stores';
import { postgres, type Connection, type TestDatabase } from '#support/databases';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { patient } from '#support/patient';
import { suite } from '#support/suite';
import { waitedFor } from '#support/waited-for';
import { wireProxy } from '#support/wire-proxy';

const now = madeAt + 60;
const place = { organization: 'acme', server: 'sales' };

async function opened(): Promise<TestDatabase> {
  const database = await postgres.open();
  await makeServer(database, 'sales');
  await insertKey(database.db, newKey());
  await insertClient(database.db, newClient());
  return database;
}

const epochOf = async ({ db }: Pick<TestDatabase, 'db'>) => {
  const { rows } = await sql<{ epoch: number }>`select epoch from admission_epoch`.execute(db);
  return rows[0]?.epoch ?? 0;
};

await suite('postgres', 'admissions in PostgreSQL', () => {
  test('no key is admitted after its revocation was confirmed, however many calls are under way', async () => {
    await using database = await opened();
    const revoking = await database.connectAgain();
    const ids = Array.from({ length: 300 }, (_, at) => `key_${at}`);
    for (const id of ids) await insertKey(database.db, newKey({ id, hash: `hash of ${id}` }));
    const revoked = new Set<string>();
    const wrong: string[] = [];
    let calls = 0;
    let refusals = 0;
    let answered = Promise.withResolvers<void>();
    const over = new AbortController();
    const caller = async (from: number) => {
      for (let at = from; !over.signal.aborted; at += 7) {
        const id = ids[at % ids.length] ?? '';
        const wasRevoked = revoked.has(id);
        const found = await database.admissions.byKey({ ...place, keyHash: `hash of ${id}`, now });
        calls += 1;
        if (!found) refusals += 1;
        if (found && wasRevoked) wrong.push(id);
        answered.resolve();
      }
    };
    const callers = Array.from({ length: 16 }, (_, at) => caller(at * 19));

    for (const id of ids) {
      await revokeKey(revoking.db, id, now);
      revoked.add(id);
      // The first answers wait for a connection, and all revocations could be over by then.
      answered = Promise.withResolvers();
      await answered.promise;
    }
    over.abort();
    await Promise.all(callers);

    expect(wrong).toEqual([]);
    expect(calls).toBeGreaterThan(ids.length);
    expect(refusals).toBeGreaterThan(0);
  });

  test.each([
    ['a key', 'revoke', `update api_key set revoked_at = 1`],
    ['a key', 'delete', `delete from api_key`],
    ['a key’s scopes', 'change', `update api_key set scopes = '[]'`],
    ['a client', 'revoke', `update oauth_client set revoked_at = 1`],
    ['a client', 'delete', `delete from oauth_client`],
    ['a client', 'give keys', `update oauth_client set jwks = '{"keys":[]}'`],
    ['a secret', 'revoke', `update client_secret set revoked_at = 1`],
    ['a secret', 'limit', `update client_secret set expires_at = 1`],
    ['a secret', 'delete', `delete from client_secret`],
    ['a server', 'disable', `update endpoint set disabled_at = 1`],
    ['a server', 'delete', `delete from endpoint`],
    ['the limits of a server', 'change', `update endpoint set limits = '{}'`],
    ['the hidden tools', 'change', `update target set hidden_tools = '["drop"]'`],
    ['an organization', 'disable', `update organization set disabled_at = 1`],
    [
      'an organization',
      'close to open clients',
      `update organization set open_clients_allowed = 0`,
    ],
    ['an organization', 'close to our proxy', `update organization set latchkey_proxy_allowed = 0`],
    ['an organization', 'delete', `delete from organization`],
    ['a token', 'revoke', `insert into revoked_token (jti, expires_at) values ('jti', 1)`],
    ['a person', 'delete', `delete from person`],
    ['a role', 'change', `update membership set role = 'viewer'`],
    ['a membership', 'delete', `delete from membership`],
    [
      'a server',
      'restrict to a group',
      `insert into endpoint_group values ('srv_sales', 'group_a')`,
    ],
    ['a server', 'open to everyone', `update endpoint set access = 'everyone'`],
    ['a server', 'close all tools but some', `update target set offered = '{"open":{"tool":[]}}'`],
    ['a server', 'restrict a tool', `update target set tool_rules = '{}'`],
    ['a key', 'limit to tools', `update api_key set tool_selection = '{}'`],
    ['the upstream of a server', 'change', `update target set upstream_settings = '{"a":1}'`],
    ['the target of a server', 'delete', `delete from target`],
    ['a group', 'empty', `delete from group_member`],
    ['a mapping of a group', 'delete', `delete from group_mapping`],
    ['the groups of a provider', 'forget', `delete from provider_group`],
    ['an identity provider', 'disable', `update identity_provider set disabled_at = 1`],
    ['a link of a member', 'delete', `delete from member_identity`],
    ['the groups of a member there', 'forget', `delete from member_identity_group`],
  ])('%s: to %s changes the epoch', async (_, __, statement) => {
    await using database = await opened();
    await sql
      .raw(
        `insert into person (id, email, email_key, created_at) values ('p', 'p@example.com', 'p@example.com', 1);
         insert into membership (person_id, organization_id, role) values ('p', 'org_acme', 'member');
         insert into person_group (id, organization_id, name, created_at) values ('group_a', 'org_acme', 'staff', 1);
         insert into group_member values ('group_a', 'org_acme', 'p');
         insert into group_mapping values ('org_acme', 'staff', 'group_a');
         insert into identity values ('https://idp', 'p', 'p');
         insert into provider_group values ('https://idp', 'p', 'staff');
         insert into identity_provider (id, organization_id, name, issuer, client_id, sealed_secret, scopes,
             groups_claim, email_trusted, joining_groups, role_groups, counts_as_two_factors, created_at)
           values ('idp', 'org_acme', 'n', 'https://idp', 'c', 's', '[]', 'groups', 0, '[]', '[]', 0, 1);
         insert into member_identity (provider_id, subject, organization_id, person_id, created_at, used_at)
           values ('idp', 'p', 'org_acme', 'p', 1, 1);
         insert into member_identity_group values ('idp', 'p', 'staff')`,
      )
      .execute(database.db);
    const before = await epochOf(database);

    await sql.raw(statement).execute(database.db);

    expect(await epochOf(database)).toBe(before + 1);
  });

  test('an epoch changes once in a transaction, and in each one of a connection', async () => {
    await using database = await opened();
    const ids = Array.from({ length: 20 }, (_, at) => `key_${at}`);
    for (const id of ids) await insertKey(database.db, newKey({ id, hash: `hash of ${id}` }));
    const before = await epochOf(database);
    const changes = await database.db.connection().execute(async (connection) => {
      const epochs = [];
      for (const scopes of ['[]', '["mcp:tools:read"]', '[]']) {
        await sql`update api_key set scopes = ${scopes}`.execute(connection);
        epochs.push((await epochOf({ db: connection })) - before);
      }
      return epochs;
    });

    expect(changes).toEqual([1, 2, 3]);
  });

  test.each([
    ['a target', 'target', ['endpoint_id', ...targetColumns]],
    // The id of a client never changes.
    ['a client', 'oauth_client', callingClientColumns.filter((column) => column !== 'id')],
    ['a secret', 'client_secret', ['hash', 'client_id', 'expires_at', 'revoked_at']],
  ])('a change of any column that %s is read from changes the epoch', async (_, table, columns) => {
    await using database = await opened();
    const { rows } = await sql<{ column: string }>`select event_object_column as "column"
      from information_schema.triggered_update_columns
      where trigger_schema = current_schema() and trigger_name in (${`${table}_changes_admissions`}, ${`${table}_contents_change_admissions`}, ${`${table}_provisioned_changes_admissions`}, ${`${table}_tools_change_admissions`})`.execute(
      database.db,
    );

    expect(rows.map(({ column }) => column).toSorted()).toEqual(columns.toSorted());
  });

  test('a change that is checked early and rolled back lets a later one of its transaction change the epoch', async () => {
    await using database = await opened();
    const before = await epochOf(database);
    await database.db.transaction().execute(async (tx) => {
      await sql`set constraints all immediate`.execute(tx);
      await sql`savepoint early`.execute(tx);
      await sql`update api_key set scopes = '[]'`.execute(tx);
      await sql`rollback to savepoint early`.execute(tx);
      await sql`update api_key set revoked_at = 1`.execute(tx);
    });

    expect(await epochOf(database)).toBe(before + 1);
  });

  test('no one loses access until a transaction that has locked admissions ends', async () => {
    await using database = await opened();
    const other = await database.connectAgain();
    const order: string[] = [];
    const revoking = await database.db.transaction().execute(async (tx) => {
      const admissions = await lockAdmissions(tx);
      const isWaitedFor = await waitedFor(tx, database);
      const revoked = revokeKey(other.db, 'key_a', now).then(() => void order.push('revoked'));
      await expect.poll(isWaitedFor, patient).toBe(true);
      const found = await admissions.byKey({ ...place, keyHash: 'hash of a', now });
      order.push(found ? 'admitted' : 'refused');
      return { revoked };
    });
    await revoking.revoked;

    expect(order).toEqual(['admitted', 'revoked']);
  });

  test('113: moved database: no table keeps a transaction id, which another cluster gives to another transaction', async () => {
    await using database = await opened();
    const { rows } = await sql`select c.relname, a.attname from pg_attribute a
      join pg_class c on c.oid = a.attrelid
      where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace and a.attnum > 0
        and a.atttypid::regtype::text in ('xid', 'xid8', 'pg_snapshot', 'txid_snapshot', 'pg_lsn')`.execute(
      database.db,
    );

    expect(rows).toEqual([]);
  });

  test('113: moved database: no column has the id of the transaction that wrote it, in whatever form', async () => {
    await using database = await opened();
    await insertKey(database.db, newKey({ id: 'key_b', hash: 'hash of b' }));
    const { rows: tables } = await sql<{ name: string }>`select relname as name from pg_class
      where relkind = 'r' and relnamespace = current_schema()::regnamespace`.execute(database.db);
    const written = async (keyId: string) => {
      const id = await database.db.transaction().execute(async (tx) => {
        await revokeKey(tx, keyId, now);
        await updateLastUses(tx, [{ type: 'client', id: 'client_a', usedAt: now }]);
        await insertAuditEvent(tx, {
          at: now,
          actor: 'operator',
          organization: 'acme',
          action: 'key.revoke',
          target: keyId,
          address: undefined,
          requestId: undefined,
          outcome: 'done',
        });
        const { rows } = await sql<{ id: string }>`select pg_current_xact_id()::text as id`.execute(
          tx,
        );
        return rows[0]?.id ?? '';
      });
      const found: string[] = [];
      for (const { name } of tables) {
        const { rows } = await sql<{ key: string; value: string | null }>`select member.*
          from ${sql.id(name)} as stored_row, jsonb_each_text(to_jsonb(stored_row)) as member`.execute(
          database.db,
        );
        for (const { key, value } of rows)
          if (value?.split(/\D+/).includes(id)) found.push(`${name}.${key}`);
      }
      return { id: Number(id), found };
    };

    const before = await epochOf(database);
    const first = await written('key_a');
    // Uses up an id: a count that equals the id by chance, and also grows by one, then differs the second time.
    await sql`select pg_current_xact_id()`.execute(database.db);
    const second = await written('key_b');

    expect(await epochOf(database)).toBe(before + 2);
    expect(second.id).toBeGreaterThan(first.id + 1);
    expect(first.found.filter((one) => second.found.includes(one))).toEqual([]);
  });

  test('an admission reads a few rows, however many credentials there are', async () => {
    // Tables of its own: counts of connections that ended in an earlier test arrive late.
    await using database = await postgres.openEmpty();
    const db = database.connect();
    await migrate(db);
    await insertOrganization(db, { id: 'org_acme', name: 'acme', createdAt: 1 });
    await sql`insert into endpoint (id, organization_id, name, created_at)
      select 'srv_' || n, 'org_acme', 's' || n, 1 from generate_series(1, 3000) n`.execute(db);
    await sql`insert into target (id, endpoint_id, upstream_kind, upstream_settings)
      select 'target_' || n, 'srv_' || n, 'demo', '{}' from generate_series(1, 3000) n`.execute(db);
    await sql`insert into api_key (id, hash, hint, name, endpoint_id, scopes, created_at)
      select 'key_' || n, 'hash ' || n, '', '', 'srv_' || n, '[]', 1 from generate_series(1, 3000) n`.execute(
      db,
    );
    await sql`analyze`.execute(db);
    // Makes PostgreSQL count all reads so far, mostly by checks of references. Otherwise it may wait for a second.
    await sql`select pg_stat_force_next_flush()`.execute(db);
    // Other tests have tables of this name in schemas of their own.
    const read = async () => {
      const { rows } = await sql<{ fetched: number; scans: number }>`
        select sum(idx_tup_fetch + seq_tup_read) as fetched, min(idx_scan) as scans from pg_stat_user_tables
        where relid in ('api_key'::regclass, 'endpoint'::regclass, 'target'::regclass)`.execute(db);
      return rows[0] ?? { fetched: 0, scans: 0 };
    };
    const before = await read();
    const ports = { mayAdmit: () => true, failed: () => undefined };
    const stores = await openPostgresStores({ url: database.url, mayLoseWrites: true }, ports);

    for (let n = 1; n <= 50; n += 1) {
      const at = { organization: 'acme', server: `s${n}`, now };
      // On a machine that is busy, an answer may take longer than its deadline.
      const admitted = async () => {
        try {
          return await stores.admissions.byKey({ ...at, keyHash: `hash ${n}` });
        } catch (error) {
          if (!(error instanceof AdmissionsUnavailable)) throw error;
          return undefined;
        }
      };
      await expect.poll(admitted, patient).toBeDefined();
    }

    // PostgreSQL counts the reads of a connection when the connection ends, which is after `close` resolves here.
    await stores.close();
    const looked = async () => (await read()).scans - before.scans;
    await expect.poll(looked, patient).toBeGreaterThanOrEqual(50);
    // Each admission reads a row or two of each table. A single one that reads a whole table would add 3,000.
    expect((await read()).fetched - before.fetched).toBeLessThanOrEqual(1000);
  });

  test('a metadata document changes the epoch only if it says something else', async () => {
    await using database = await opened();
    const document = {
      id: 'https://app.example/client.json',
      name: 'App',
      redirectUris: ['https://app.example/callback'],
      jwks: undefined,
    };
    await putDocumentedClient(database.db, document, now);
    const before = await epochOf(database);
    await putDocumentedClient(database.db, document, now + 3600);
    const afterSame = await epochOf(database);
    await putDocumentedClient(database.db, { ...document, jwks: '{"keys":[]}' }, now + 7200);

    expect([afterSame, await epochOf(database)]).toEqual([before, before + 1]);
    expect(await findDocumentedClient(database.db, document.id)).toMatchObject({
      client: { jwks: '{"keys":[]}' },
      fetchedAt: now + 7200,
    });
  });

  test('a use, and a credential that is added, leave the epoch as it is', async () => {
    await using database = await opened();
    const before = await epochOf(database);

    await updateLastUses(database.db, [
      { type: 'key', id: 'key_a', usedAt: now },
      { type: 'client', id: 'client_a', usedAt: now },
    ]);
    await checkClientSecret(database.db, 'client_a', 'hash of a', now);
    await insertSecret(database.db, { clientId: 'client_a', hint: '', hash: 'b', createdAt: now });
    await insertKey(database.db, newKey({ id: 'key_b', hash: 'hash of b' }));

    expect(await epochOf(database)).toBe(before);
  });

  test('a database that stalls or breaks off is unavailable, never a yes, and works again when it is back', async () => {
    await using database = await opened();
    const { hostname, port } = new URL(inject('postgresUrl'));
    await using proxy = await wireProxy({ host: hostname, port: Number(port || 5432) });
    const ports = { mayAdmit: () => true, failed: () => undefined };
    const url = proxy.through(database.url);
    const stores = await openPostgresStores({ url, mayLoseWrites: true }, ports);
    const ask = async () => stores.admissions.byKey({ ...place, keyHash: 'hash of a', now });
    const wanted = { keyId: 'key_a' };
    expect(await ask()).toMatchObject(wanted);

    proxy.stall();
    await expect(ask()).rejects.toThrow('the database did not answer within 1000 ms');
    await revokeKey(database.db, 'key_a', now);
    proxy.resume();
    await expect.poll(ask, patient).toBeUndefined();

    await sql`update api_key set revoked_at = null`.execute(database.db);
    await proxy.cut();
    await expect(ask()).rejects.toThrow('the database did not answer');
    await proxy.mend();
    await expect.poll(() => ask().catch(() => undefined), patient).toMatchObject(wanted);

    await stores.close();
  });

  test('queries open no more connections than they may, and one more is for admissions', async () => {
    await using database = await opened();
    const ports = { mayAdmit: () => true, failed: () => undefined };
    const url = new URL(database.url);
    url.searchParams.set('application_name', 'two connections');
    const limited = { url: url.href, connections: 2, mayLoseWrites: true };
    const stores = await openPostgresStores(limited, ports);
    await stores.admissions.byKey({ ...place, keyHash: 'hash of a', now });

    await Promise.all(
      Array.from({ length: 6 }, () => sql`select pg_sleep(0.05)`.execute(stores.db)),
    );
    const { rows } = await sql`select 1 from pg_stat_activity
      where application_name = 'two connections'`.execute(database.db);

    expect(rows).toHaveLength(3);
    await stores.close();
  });

  test('a query that always fails costs few connections until its deadline', async () => {
    await using database = await opened();
    const failures: unknown[] = [];
    const ports = { mayAdmit: () => true, failed: (error: unknown) => void failures.push(error) };
    const stores = await openPostgresStores({ url: database.url, mayLoseWrites: true }, ports);
    await sql`alter table admission_epoch rename to hidden_epoch`.execute(database.db);

    const asked = stores.admissions.byKey({ ...place, keyHash: 'hash of a', now });
    await expect(asked).rejects.toThrow('the database did not answer within 1000 ms');

    // The pauses are 0, 20, 40, 80, 160 and then 250 ms.
    expect(failures.length).toBeGreaterThan(1);
    expect(failures.length).toBeLessThan(12);
    await sql`alter table hidden_epoch rename to admission_epoch`.execute(database.db);
    await stores.close();
  });

  test('what was read before a failover is read again, though the new primary is at the same epoch', async () => {
    await using database = await opened();
    const { hostname, port } = new URL(inject('postgresUrl'));
    await using proxy = await wireProxy({ host: hostname, port: Number(port || 5432) });
    const ports = { mayAdmit: () => true, failed: () => undefined };
    const url = proxy.through(database.url);
    const stores = await openPostgresStores({ url, mayLoseWrites: true }, ports);
    const ask = async () => stores.admissions.byKey({ ...place, keyHash: 'hash of a', now });
    expect(await ask()).toMatchObject({ keyId: 'key_a' });

    // A standby without the last write took over, and then the key was revoked there.
    await revokeKey(database.db, 'key_a', now);
    await sql`update admission_epoch set epoch = epoch - 1`.execute(database.db);
    await proxy.cut();
    await proxy.mend();

    await expect.poll(() => ask().catch(() => 'unavailable'), patient).toBeUndefined();
    await stores.close();
  });

  test('a node that the database has not seen lately admits no one', async () => {
    await using database = await opened();
    let isSeen = true;
    const ports = { mayAdmit: () => isSeen, failed: () => undefined };
    const stores = await openPostgresStores({ url: database.url, mayLoseWrites: true }, ports);
    const ask = async () => stores.admissions.byKey({ ...place, keyHash: 'hash of a', now });
    expect(await ask()).toMatchObject({ keyId: 'key_a' });

    isSeen = false;

    await expect(ask()).rejects.toThrow('this node has not been seen by the database lately');
    await stores.close();
  });
});

await suite('postgres', 'clients that ask for tokens in PostgreSQL', () => {
  const ask = async ({ db }: Pick<TestDatabase, 'db'>, at = now) => {
    const [isActive, client] = await Promise.all([
      checkClientSecret(db, 'client_a', 'hash of a', at),
      findCallingClient(db, 'client_a'),
    ]);
    return { isActive, client };
  };
  const secretId = async (database: TestDatabase) =>
    (await listClientSecrets(database.db, 'client_a'))[0]?.id ?? '';

  test.each([
    [
      'a secret that is revoked',
      async (from: Connection, id: string) => revokeClientSecret(from.db, 'client_a', id, now),
      { isActive: false, client: { revokedAt: undefined } },
    ],
    [
      'a secret that is deleted',
      async (from: Connection) => from.db.deleteFrom('client_secret').execute(),
      { isActive: false },
    ],
    [
      'a client that is revoked',
      async (from: Connection) => revokeClient(from.db, 'client_a', now),
      { isActive: false, client: { revokedAt: now } },
    ],
    [
      'a client that is deleted',
      async (from: Connection) => from.db.deleteFrom('oauth_client').execute(),
      { isActive: false, client: undefined },
    ],
    [
      'a client that gets keys',
      async (from: Connection) => updateClient(from.db, 'client_a', { jwks: '{"keys":[]}' }),
      { isActive: true, client: { jwks: '{"keys":[]}' } },
    ],
    [
      'a client that loses scopes',
      async (from: Connection) => updateClient(from.db, 'client_a', { scopes: [] }),
      { isActive: true, client: { scopes: [] } },
    ],
  ])('%s, by any node, is so at the next request of each', async (_, change, expected) => {
    await using database = await opened();
    const other = await database.connectAgain();
    const id = await secretId(database);
    for (const from of [database, other])
      for (let times = 0; times < 2; times += 1)
        expect(await ask(from)).toMatchObject({ isActive: true, client: { id: 'client_a' } });

    await change(other, id);

    expect(await ask(database)).toMatchObject(expected);
    expect(await ask(other)).toMatchObject(expected);
  });

  test('a kept secret expires by the clock, though nothing is written', async () => {
    await using database = await opened();
    await database.db
      .updateTable('client_secret')
      .set({ expires_at: now + 10 })
      .execute();

    expect(await ask(database, now + 9)).toMatchObject({ isActive: true });
    expect(await ask(database, now + 10)).toMatchObject({ isActive: false });
    expect(await ask(database, now + 9)).toMatchObject({ isActive: true });
  });

  test('while nothing changes, a request with a secret costs one reading of the epoch', async () => {
    await using database = await opened();
    await ask(database);
    const executed = vi.spyOn(Client.prototype, 'query');
    onTestFinished(() => executed.mockRestore());

    for (let times = 0; times < 3; times += 1) await ask(database);

    // Each connected process also reads the change token twice a second.
    const asked = executed.mock.calls
      .map(([query]: readonly unknown[]) => query)
      .filter((query) => !String(query).includes('pg_current_snapshot'));
    expect(asked).toEqual(
      Array.from({ length: 3 }, () => expect.objectContaining({ name: 'epoch' })),
    );
  });

  test('the use of a kept secret is recorded once a minute', async () => {
    await using database = await opened();
    const written = async () => (await listClientSecrets(database.db, 'client_a'))[0]?.lastUsedAt;
    const used = async (at: number) => {
      await ask(database, at);
      return written();
    };

    expect(await used(now)).toBe(now);
    expect(await used(now + 59)).toBe(now);
    expect(await used(now + 60)).toBe(now + 60);
    expect(await used(now + 119)).toBe(now + 60);
  });

  test('a secret that was absent is found as soon as it is added', async () => {
    await using database = await opened();
    const added = async () => checkClientSecret(database.db, 'client_a', 'hash of b', now);
    expect(await added()).toBe(false);

    await insertSecret(database.db, {
      clientId: 'client_a',
      hint: '',
      hash: 'hash of b',
      createdAt: now,
    });

    expect(await added()).toBe(true);
  });

  test('within a transaction a client is read as the transaction sees it', async () => {
    await using database = await opened();
    await ask(database);

    await database.db.transaction().execute(async (tx) => {
      await revokeClient(tx, 'client_a', now);
      expect(await ask({ db: tx })).toMatchObject({ isActive: false });
    });
  });
});
