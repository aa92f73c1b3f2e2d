import type { Kysely } from 'kysely';

import type { RefreshTokenStore } from '#oauth/refresh-token-store';
import { namedGrants, readGrant } from './grant-store.ts';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Refresh tokens in SQL. */
export function refreshTokenStore(db: Kysely<Schema>): RefreshTokenStore {
  return {
    async byHash(hash) {
      const row = await namedGrants(db)
        .innerJoin('refresh_token', 'refresh_token.grant_id', 'oauth_grant.id')
        .select(['refresh_token.expires_at as idle_at', 'refresh_token.spent_at'])
        .where('refresh_token.hash', '=', hash)
        .where('organization.disabled_at', 'is', null)
        .where('mcp_server.disabled_at', 'is', null)
        .executeTakeFirst();
      const spentAt = row?.spent_at ?? undefined;
      return row && { hash, expiresAt: row.idle_at, spentAt, grant: readGrant(row) };
    },

    spend(hash, successor, now) {
      return inTransaction(db, async (transaction) => {
        const spent = await transaction
          .updateTable('refresh_token')
          .set({
            spent_at: now,
            successor_hash: successor.hash,
            sealed_successor: successor.sealed,
          })
          .where('hash', '=', hash)
          .where('spent_at', 'is', null)
          .returning('grant_id')
          .executeTakeFirst();
        if (spent) {
          await transaction
            .insertInto('refresh_token')
            .values({
              hash: successor.hash,
              grant_id: spent.grant_id,
              expires_at: successor.expiresAt,
              spent_at: null,
              successor_hash: null,
              sealed_successor: null,
            })
            .execute();
          await transaction
            .deleteFrom('refresh_token')
            .where('grant_id', '=', spent.grant_id)
            .where('expires_at', '<', now)
            .execute();
          return { outcome: 'spent' };
        }
        const before = await transaction
          .selectFrom('refresh_token as old')
          .innerJoin('refresh_token as next', 'next.hash', 'old.successor_hash')
          .select(['old.spent_at', 'old.sealed_successor', 'next.spent_at as next_spent_at'])
          .where('old.hash', '=', hash)
          .executeTakeFirstOrThrow();
        return {
          outcome: 'spent-before',
          at: before.spent_at ?? 0,
          sealedSuccessor: before.sealed_successor ?? '',
          successorUsed: before.next_spent_at !== null,
        };
      });
    },
  };
}
