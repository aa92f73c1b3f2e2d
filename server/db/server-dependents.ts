import type { EpochSeconds } from '#model/clock';
import type { Db } from './transaction.ts';

/** Counts the active credentials that stop working when a server is deleted. */
export async function countServerDependents(db: Db, serverId: string, now: EpochSeconds) {
  const row = await db
    .selectNoFrom((select) => [
      select
        .selectFrom('api_key')
        .select(({ fn }) => fn.countAll<number | string>().as('n'))
        .where('endpoint_id', '=', serverId)
        .where('revoked_at', 'is', null)
        .where((where) =>
          where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]),
        )
        .as('keys'),
      select
        .selectFrom('oauth_client')
        .select(({ fn }) => fn.countAll<number | string>().as('n'))
        .where('endpoint_id', '=', serverId)
        .where('revoked_at', 'is', null)
        .as('clients'),
      select
        .selectFrom('oauth_grant')
        .select(({ fn }) => fn.countAll<number | string>().as('n'))
        .where('endpoint_id', '=', serverId)
        .where('revoked_at', 'is', null)
        .where('expires_at', '>', now)
        .as('grants'),
    ])
    .executeTakeFirstOrThrow();
  return {
    activeKeys: Number(row.keys),
    activeClients: Number(row.clients),
    /** Active grants of people to applications. */
    activeGrants: Number(row.grants),
  };
}
