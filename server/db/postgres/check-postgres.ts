import { sql } from 'kysely';
import { CommandError } from '#config/usage-error';
import type { Db } from '#db/transaction';

export const leastVersion = 150_000;

/** The facts that a PostgreSQL server reports about itself. */
export interface ServerFacts {
  /** 150004 is 15.4. */
  readonly version: number;
  readonly release: string;
  readonly encoding: string;
  readonly is_standby: boolean;
  readonly synchronous_commit: string;
  /** `synchronous_standby_names`; empty where commits wait for no standby. */
  readonly synchronous_names: string;
  /** How many standbys are attached. */
  readonly standbys: number;
}

export async function readServerFacts(db: Db): Promise<ServerFacts> {
  const { rows } =
    await sql<ServerFacts>`select current_setting('server_version_num')::int as version,
      current_setting('server_version') as release,
      current_setting('server_encoding') as encoding,
      pg_is_in_recovery() as is_standby,
      current_setting('synchronous_commit') as synchronous_commit,
      current_setting('synchronous_standby_names') as synchronous_names,
      (select count(*) from pg_stat_replication where application_name <> 'pg_basebackup')::int as standbys`.execute(
      db,
    );
  const [found] = rows;
  if (!found) throw new Error('PostgreSQL returned no facts about itself');
  return found;
}

/** Why a connection failed, in words; never the password. */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message || String(Reflect.get(cause, 'code')) : '';
}

/**
 * Checks that a PostgreSQL server can be trusted with everything: reachable, new enough, in UTF-8, and a primary whose standbys, if it
 * has any, are synchronous. An asynchronous standby that takes over has lost revocations that were confirmed.
 *
 * @throws {CommandError} with the problem and the remedy, without the password in the URL
 */
export async function checkPostgres(
  db: Db,
  {
    url,
    mayLoseWrites,
    option = '--database-url',
  }: { url: string; mayLoseWrites: boolean; option?: string },
): Promise<void> {
  const found = await readServerFacts(db).catch((cause: unknown) => {
    throw new CommandError(
      `the database ${withoutPassword(url)} cannot be used: ${reasonOf(cause)}`,
      `check ${option}: postgres://USER:PASSWORD@HOST:5432/DATABASE`,
      { cause },
    );
  });
  const { version, release, encoding } = found;
  const name = `the database ${withoutPassword(url)}`;
  if (version < leastVersion)
    throw new CommandError(`${name} is PostgreSQL ${release}`, 'use version 15 or newer');
  if (encoding !== 'UTF8') {
    throw new CommandError(
      `${name} stores text as ${encoding}`,
      "create a database with: create database latchkey encoding 'UTF8' template template0",
    );
  }
  if (found.is_standby) {
    throw new CommandError(`${name} is a standby`, `name the primary in ${option}`);
  }
  if (!mayLoseWrites && ['off', 'local'].includes(found.synchronous_commit)) {
    throw new CommandError(
      `${name} confirms writes before they are safe: synchronous_commit is ${found.synchronous_commit}`,
      "run: alter database DATABASE set synchronous_commit = 'on'",
    );
  }
  if (!mayLoseWrites && found.standbys > 0 && found.synchronous_names === '') {
    throw new CommandError(
      `${name} has a standby that is not synchronous: a failover would bring back revoked keys`,
      'set synchronous_standby_names on the primary, or accept that with --allow-async-standby',
    );
  }
}

/** The URL for messages. */
export function withoutPassword(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed) return '--database-url';
  parsed.password = '';
  parsed.search = '';
  return parsed.href;
}
