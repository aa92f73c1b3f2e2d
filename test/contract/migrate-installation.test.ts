import { createHash } from 'node:crypto';
import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { insertAuditEvent } from '#server/db/audit';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { copySqlite, openSource } from '#server/db/postgres/copy-sqlite';
import { openPostgres } from '#server/db/postgres/open-postgres';
import type { Db } from '#server/db/transaction';
import { databaseName, openStores } from '#server/app/stores';
import { bearer } from '#support/acme-server';
import { postgres } from '#support/databases';
import { runCommandInProcess } from '#support/run-command-in-process';
import { runningServer } from '#support/running-server';
import { serverSources } from '#support/programs';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';
import { visitor } from '#support/visitor';
import { wireProxy } from '#support/wire-proxy';

const password = 'correct horse battery';
const email = 'olga@example.com';
const keySchema = z.object({ key: z.string() });
const copiedSchema = z.array(
  z.object({ table: z.string(), rows: z.number(), checksum: z.string().length(64) }),
);

/** An installation with text of every kind, and a server that refers to a row which refers back to it. */
async function furnished(rows = 3) {
  const folder = await temporaryFolder('migrate');
  const stores = await openStores(folder.path);
  const { db } = stores;
  await insertOrganization(db, { id: 'org_1', name: 'acme', createdAt: 1 });
  await insertUser(
    db,
    { id: 'user_1', email, createdAt: 1 },
    { organizationId: 'org_1', role: 'owner' },
  );
  await sql`insert into upstream_access
    (id, target_id, endpoint_id, kind, url, metadata, resource, client_id, scopes, vouched_hosts, created_at)
    values ('access_1', 'target_1', 'srv_1', 'client_credentials', 'https://a.example', '{}', '', 'c', '[]', '[]', 9007199254740991)`.execute(
    db,
  );
  await sql`insert into endpoint (id, organization_id, name, title, created_at)
    values ('srv_1', 'org_1', 'sales', ${'Ünï "q" \\N {a,b} 🙂\n\ttab, NULL'}, 2)`.execute(db);
  await sql`insert into target (id, endpoint_id, upstream_kind, upstream_settings, upstream_access_id)
    values ('target_1', 'srv_1', 'demo', '{}', 'access_1')`.execute(db);
  for (let n = 0; n < rows; n += 1) {
    await insertAuditEvent(db, {
      at: n,
      actor: 'system',
      organization: n % 2 === 0 ? 'acme' : undefined,
      action: 'sign-in',
      target: undefined,
      address: undefined,
      requestId: `r${n}`,
      outcome: 'done',
    });
  }
  await stores.close();
  const file = join(folder.path, databaseName);
  return {
    dataDir: folder.path,
    file,
    digest: async () =>
      createHash('sha256')
        .update(await readFile(file))
        .digest('hex'),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

const migrateTo = (dataDir: string, url: string) =>
  runCommandInProcess(['migrate', '--from', dataDir, '--to', url, '--json']);

/** The error of a process that opens the database as the server does, but does not wait for it. */
function tryToOpen(file: string): unknown {
  const connection = new DatabaseSync(file, { timeout: 0 });
  try {
    connection.exec('select count(*) from organization');
    return undefined;
  } catch (error) {
    return error;
  } finally {
    connection.close();
  }
}

async function tablesOf(db: Db): Promise<number> {
  const { rows } = await sql<{
    n: number;
  }>`select count(*) as n from pg_tables where schemaname = current_schema()`.execute(db);
  return rows[0]?.n ?? -1;
}

await suite('postgres', 'migrate', () => {
  test('migrate: after it, keys, sessions and sign-in work on PostgreSQL', async () => {
    await using target = await postgres.openEmpty();
    await using old = await runningServer({ launcher: serverSources });
    const link = /http:\S+(\/set-up\/\S+)/.exec(old.program.stdout)?.[1] ?? '';
    const olga = visitor(old.base);
    const made = await olga.submit(link, {
      organization: 'acme',
      email,
      password,
      repeated: password,
    });
    await old.command('server', 'create', 'acme/library', '--demo');
    const { key } = keySchema.parse(
      await old.command('key', 'create', 'acme/library', '--name', 'k'),
    );
    await old.program.end();
    const copied = copiedSchema.parse(JSON.parse(await migrateTo(old.dataDir, target.url)));
    const masterKeyFile = join(old.dataDir, 'master.key');
    await using folder = await temporaryFolder('node');

    await using node = await runningServer({
      launcher: serverSources,
      dataDir: folder.path,
      args: [
        '--database-url',
        target.url,
        '--allow-async-standby',
        '--master-key-file',
        masterKeyFile,
      ],
    });
    const call = await node.request('/mcp/acme/library', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...bearer(key) },
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    });
    const again = visitor(node.base);
    for (const [name, value] of olga.cookies) again.cookies.set(name, value);

    expect(made.status).toBe(303);
    expect(copied.find(({ table }) => table === 'api_key')?.rows).toBe(1);
    expect([call.status, call.text]).toEqual([200, expect.stringContaining('"tools"')]);
    expect((await again.get('/dashboard/acme')).status).toBe(200);
    const returning = visitor(node.base);
    expect((await returning.signIn(email, password)).status).toBe(303);
    expect((await returning.get('/dashboard/acme')).status).toBe(200);
  });

  test('migrate: every value arrives as it was, and the source file is not changed', async () => {
    await using source = await furnished(1200);
    await using target = await postgres.openEmpty();
    const before = await source.digest();

    const copied = copiedSchema.parse(JSON.parse(await migrateTo(source.dataDir, target.url)));

    const db = target.connect();
    const { title } = await db.selectFrom('endpoint').select('title').executeTakeFirstOrThrow();
    const { created_at } = await db
      .selectFrom('upstream_access')
      .select('created_at')
      .executeTakeFirstOrThrow();
    const { rows } = await sql<{ n: number }>`select count(*) as n from audit_event`.execute(db);
    expect(title).toBe('Ünï "q" \\N {a,b} 🙂\n\ttab, NULL');
    expect(created_at).toBe(Number.MAX_SAFE_INTEGER);
    expect(copied.find(({ table }) => table === 'audit_event')?.rows).toBe(1200);
    // The entry about the migration itself.
    expect(rows).toEqual([{ n: 1201 }]);
    expect(await source.digest()).toBe(before);
  });

  test('migrate: the audit log is protected afterwards', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    await migrateTo(source.dataDir, target.url);
    const db = target.connect();

    await expect(sql`update audit_event set at = 0`.execute(db)).rejects.toThrow('never changed');
    await expect(sql`delete from audit_event`.execute(db)).rejects.toThrow('never removed');
    await expect(sql`truncate audit_event`.execute(db)).rejects.toThrow('never removed');
  });

  test('migrate: a second run is refused and adds nothing', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    await migrateTo(source.dataDir, target.url);

    await expect(migrateTo(source.dataDir, target.url)).rejects.toThrow('is not empty');

    const { rows } = await sql<{ n: number }>`select count(*) as n from audit_event`.execute(
      target.connect(),
    );
    expect(rows).toEqual([{ n: 4 }]);
  });

  test('migrate: a database with tables of another program is refused', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    await sql`create table other (id text)`.execute(target.connect());

    await expect(migrateTo(source.dataDir, target.url)).rejects.toThrow('another program');
    expect(await tablesOf(target.connect())).toBe(1);
  });

  test('migrate: refused while the server has the SQLite database open', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    const stores = await openStores(source.dataDir);

    await expect(migrateTo(source.dataDir, target.url)).rejects.toThrow('stop the server');

    await stores.close();
    expect(await tablesOf(target.connect())).toBe(0);
  });

  test('migrate: no server can open the SQLite database while it is copied', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    const opened = openSource(source.file);

    let refusal: unknown;
    await copySqlite(opened, target.connect(), async () => {
      refusal = tryToOpen(source.file);
    });

    opened.close();
    expect(refusal).toMatchObject({ errcode: 5 });
    expect(tryToOpen(source.file)).toBeUndefined();
  });

  test('migrate: text with a NUL character is refused, by table, column and row', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    const stores = await openStores(source.dataDir);
    await sql`update endpoint set description = ${'a\0b'}`.execute(stores.db);
    await stores.close();

    await expect(migrateTo(source.dataDir, target.url)).rejects.toThrow(
      'endpoint.description has a NUL character, which PostgreSQL cannot store, in the row with id "srv_1"',
    );
    expect(await tablesOf(target.connect())).toBe(0);
  });

  test('migrate: another schema version is refused', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    const stores = await openStores(source.dataDir);
    await sql`delete from kysely_migration where name = '0002-nodes'`.execute(stores.db);
    await stores.close();

    await expect(migrateTo(source.dataDir, target.url)).rejects.toThrow('schema');
  });

  test('migrate: a lost connection leaves the target empty, and the next run succeeds', async () => {
    await using source = await furnished(1200);
    await using target = await postgres.openEmpty();
    const { hostname, port } = new URL(target.url);
    await using wire = await wireProxy({ host: hostname, port: Number(port || 5432) });
    const opened = openSource(source.file);
    const cut = openPostgres({ connectionString: wire.through(target.url) });

    const copying = copySqlite(opened, cut, () => wire.cut());

    await expect(copying).rejects.toThrow(/terminated|reset|connection/i);
    opened.close();
    await cut.destroy();
    expect(await tablesOf(target.connect())).toBe(0);
    expect(copiedSchema.parse(JSON.parse(await migrateTo(source.dataDir, target.url)))).not.toEqual(
      [],
    );
  });

  test('migrate: a difference after copying leaves the target empty', async () => {
    await using source = await furnished();
    await using target = await postgres.openEmpty();
    const opened = openSource(source.file);
    const db = target.connect();
    // Simulates a defect of the copy: another title than the one in SQLite.
    const changing = db.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        const rows = result.rows.map((row) => {
          const found = z.object({ row: z.array(z.string().nullable()) }).safeParse(row);
          if (!found.success || found.data.row[0] !== 'srv_1') return row;
          return { row: found.data.row.with(3, 'changed') };
        });
        return { ...result, rows };
      },
    });

    await expect(copySqlite(opened, changing, async () => undefined)).rejects.toThrow(
      'endpoint differs after copying',
    );
    opened.close();
    expect(await tablesOf(db)).toBe(0);
  });

  test('migrate: a data directory without a database is refused before anything is opened', async () => {
    await using folder = await temporaryFolder('nothing');
    await copyFile(import.meta.filename, join(folder.path, 'other'));

    await expect(migrateTo(folder.path, 'postgres://nobody@127.0.0.1:1/none')).rejects.toThrow(
      'there is no database',
    );
  });
});
