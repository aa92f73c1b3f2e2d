import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { doctor } from '#server/cli/doctor';
import { readOptions } from '#server/config/read-options';
import { migrate } from '#server/db/migrate';
import { insertOutboundHost } from '#server/db/outbound-hosts';
import { NodeRegistry } from '#server/nodes/node-registry';
import { readMasterKey } from '#server/secrets/master-key';
import { readSigningKeys } from '#server/oauth/signing-keys';
import { databaseFile, isInUse, stageBackup } from '#server/app/stage-backup';
import { openStores } from '#server/app/stores';
import type { Db } from '#server/db/transaction';
import { postgres } from '#support/databases';
import { stillClock } from '#support/still-clock';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const findingSchema = z.array(
  z.object({
    check: z.string(),
    outcome: z.enum(['OK', 'warning', 'failure']),
    detail: z.string(),
    remedy: z.string().nullable(),
  }),
);

/** Whether the doctor can reach the internet; tests do not use the real one. */
let isOnline = true;
afterEach(() => {
  isOnline = true;
});

/** What the command prints, and the error that makes its exit code 1. */
async function examine(...args: string[]) {
  const lines: string[] = [];
  const error = await doctor
    .runOnFolder(readOptions(doctor.options, args, {}), {
      stage: stageBackup,
      isInUse,
      databaseFile,
      connects: async () => isOnline,
      clock: stillClock(),
      out: (line) => lines.push(line),
      readSecret: async () => '',
    })
    .then(
      () => undefined,
      (failure: unknown) => failure,
    );
  return { text: lines.join('\n'), error };
}

async function findings(...args: string[]) {
  const { text, error } = await examine(...args, '--json');
  const found = findingSchema.parse(JSON.parse(text));
  return { error, of: (check: string) => found.find((finding) => finding.check === check) };
}

/** A data folder with a master key, and its signing key in `db` or in a SQLite database of its own. */
async function installation(db?: Db) {
  const folder = await temporaryFolder('doctor');
  const stores = db ? undefined : await openStores(folder.path);
  const file = join(folder.path, 'master.key');
  const masterKey = readMasterKey(file, { mayCreate: true });
  const target = db ?? stores?.db;
  if (target) await readSigningKeys(target, { masterKey, clock: stillClock() });
  await stores?.close();
  return Object.assign(folder, { masterKeyFile: file });
}

test('doctor: a healthy SQLite installation passes every check', async () => {
  await using folder = await installation();

  const { text, error } = await examine('--data-dir', folder.path);

  expect(error).toBeUndefined();
  expect(text.split('\n').map((line) => line.slice(0, 21).trim())).toEqual([
    expect.stringMatching(/^OK +database/),
    expect.stringMatching(/^OK +version/),
    expect.stringMatching(/^OK +schema/),
    expect.stringMatching(/^OK +master key/),
    expect.stringMatching(/^OK +permission/),
    expect.stringMatching(/^OK +application/),
  ]);
});

test('doctor: for a server without access to the internet it explains how applications can sign in', async () => {
  await using folder = await installation();
  const place = ['--data-dir', folder.path];
  isOnline = false;

  const alone = await findings(...place);
  const half = await findings(...place, '--no-client-metadata-documents');
  const both = ['--no-client-metadata-documents', '--dynamic-registration'];
  const told = await findings(...place, ...both);

  const remedy = expect.stringContaining(both.join(' and '));
  expect(alone.error).toBeUndefined();
  expect(alone.of('applications')).toMatchObject({ outcome: 'warning', remedy });
  expect(half.of('applications')).toMatchObject({ outcome: 'warning', remedy });
  expect(told.of('applications')).toMatchObject({ outcome: 'OK' });
});

test('doctor: another master key and files that others can read are failures with remedies', async () => {
  await using folder = await installation();
  const text = Buffer.alloc(32, 1).toString('base64url');
  await writeFile(folder.masterKeyFile, text, { mode: 0o600 });
  await chmod(databaseFile(folder.path), 0o644);

  const found = await findings('--data-dir', folder.path);

  expect(found.error).toMatchObject({ message: '2 of 6 checks failed' });
  expect(found.of('master key')).toMatchObject({ outcome: 'failure' });
  expect(found.of('permissions')).toMatchObject({
    outcome: 'failure',
    remedy: `Run: chmod go-rwx ${databaseFile(folder.path)}`,
  });
  const shown = await examine('--data-dir', folder.path);
  expect(shown.text).not.toContain(text);
});

test('doctor: a missing or damaged SQLite database is a failure, and nothing is created', async () => {
  await using folder = await temporaryFolder('doctor');
  const missing = await findings('--data-dir', folder.path);
  await writeFile(databaseFile(folder.path), 'no database '.repeat(100));
  const damaged = await findings('--data-dir', folder.path);

  expect(missing.of('database')).toMatchObject({ outcome: 'failure' });
  expect(damaged.of('database')?.detail).toContain(
    'is not a backup of a Latchkey server, or it is damaged',
  );
});

test('doctor: a host is checked as the server checks it', async () => {
  await using folder = await installation();
  const place = ['--data-dir', folder.path];

  const inside = await findings(...place, '--reach', '127.0.0.1');
  const named = await findings(...place, '--reach', '127.0.0.1', '--outbound-host', '127.0.0.1');

  expect(inside.of('outbound')).toMatchObject({ outcome: 'failure' });
  expect(named.of('outbound')).toMatchObject({ outcome: 'OK' });
  await expect(
    doctor.runOnFolder(readOptions(doctor.options, [...place, '--reach', 'a/b'], {}), {
      stage: stageBackup,
      isInUse,
      databaseFile,
      connects: async () => isOnline,
      clock: stillClock(),
      out: () => undefined,
      readSecret: async () => '',
    }),
  ).rejects.toThrow('is not a host');
});

test('doctor: a host that was allowed while the server ran is reached', async () => {
  await using folder = await installation();
  const stores = await openStores(folder.path);
  const made = { note: '', createdBy: 'operator', createdAt: 1 };
  await insertOutboundHost(stores.db, { ...made, host: '127.0.0.1:8443' }, 9);
  await insertOutboundHost(stores.db, { ...made, host: '10.20.0.0/16' }, 9);
  await stores.close();
  const outcome = async (host: string) =>
    (await findings('--data-dir', folder.path, '--reach', host)).of('outbound')?.outcome;

  expect(await outcome('127.0.0.1:8443')).toBe('OK');
  expect(await outcome('10.20.1.1')).toBe('OK');
  expect(await outcome('127.0.0.1')).toBe('failure');
});

test('doctor: with --database-url, the data folder of another installation is not checked', async () => {
  await using folder = await temporaryFolder('doctor');
  const data = join(folder.path, 'data');
  await mkdir(data);
  await chmod(data, 0o755);
  const before = process.cwd();
  process.chdir(folder.path);
  const url = ['--database-url', 'postgres://lk@127.0.0.1:1/none'];

  const unnamed = await findings(...url);
  const named = await findings(...url, '--data-dir', data);
  process.chdir(before);

  expect(unnamed.of('permissions')).toBeUndefined();
  expect(named.of('permissions')).toMatchObject({ outcome: 'failure' });
});

test('doctor: a database that cannot be reached is a failure without the password', async () => {
  const { text, error } = await examine('--database-url', 'postgres://lk:hunter2@127.0.0.1:1/none');

  expect(error).toMatchObject({ message: '1 of 2 checks failed' });
  expect(text).toContain('ECONNREFUSED');
  expect(text).not.toContain('hunter2');
});

await suite('postgres', 'doctor', () => {
  test('doctor: a shared database is checked with its nodes', async () => {
    await using database = await postgres.openEmpty();
    const db = database.connect();
    await migrate(db);
    await using folder = await installation(db);
    const ports = { name: 'one', version: '1.0.0', failed: () => undefined };
    const node = new NodeRegistry(db, ports);
    await node.open();
    await sql`insert into node select 'gone', 'two', version, started_at, seen_at - 60, 0 from node`.execute(
      db,
    );
    const key = ['--master-key-file', folder.masterKeyFile];

    const found = await findings('--database-url', database.url, ...key);

    await node.close();
    const outcomes = ['database', 'version', 'encoding', 'clock', 'schema', 'master key'].map(
      (check) => found.of(check)?.outcome,
    );
    expect(outcomes).toEqual(['OK', 'OK', 'OK', 'OK', 'OK', 'OK']);
    expect(found.of('node one')).toMatchObject({ outcome: 'OK' });
    expect(found.of('node two')).toMatchObject({ outcome: 'warning' });
    // The tests' connections confirm commits before they are on disk.
    expect(found.of('standby')).toMatchObject({ outcome: 'failure' });
    expect(found.error).toMatchObject({ message: '1 of 10 checks failed' });
    const keyless = await findings('--database-url', database.url);
    expect(keyless.of('master key')).toMatchObject({
      outcome: 'warning',
      remedy: 'Give --master-key-file',
    });
  });

  test('doctor: a clock that is set differently on a node, and nodes of two versions', async () => {
    await using database = await postgres.openEmpty();
    const db = database.connect();
    await migrate(db);
    const now = sql`extract(epoch from clock_timestamp())::bigint`;
    await sql`insert into node values ('a', 'a', '1.0.0', 1, ${now}, 2500), ('b', 'b', '1.1.0', 1, ${now}, 0)`.execute(
      db,
    );

    const found = await findings('--database-url', database.url);

    expect(found.of('node a')).toMatchObject({ outcome: 'failure' });
    expect(found.of('nodes')?.detail).toBe('nodes run different versions: 1.0.0, 1.1.0');
  });

  test('doctor: an empty database and one of a newer version are failures', async () => {
    await using database = await postgres.openEmpty();
    const empty = await findings('--database-url', database.url);
    const db = database.connect();
    await migrate(db);
    await sql`insert into kysely_migration values ('9999-future', '')`.execute(db);
    const newer = await findings('--database-url', database.url);

    expect(empty.of('schema')).toMatchObject({ outcome: 'failure' });
    expect(newer.of('schema')?.remedy).toContain('made by a newer Latchkey');
  });
});
