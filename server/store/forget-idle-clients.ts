import type { Kysely } from 'kysely';

import type { Schema } from './schema.ts';

const idleSeconds = 30 * 24 * 3600;

/**
 * Forgets clients that made themselves known, by registration or document, and that nobody has allowed or
 * used for thirty days: anybody can make more of them. One that was revoked stays revoked.
 */
export async function forgetIdleClients(db: Kysely<Schema>, now: number): Promise<void> {
  const since = now - idleSeconds;
  await db
    .deleteFrom('oauth_client')
    .where('server_id', 'is', null)
    .where('revoked_at', 'is', null)
    .where('created_at', '<', since)
    .where((where) => where.or([where('fetched_at', 'is', null), where('fetched_at', '<', since)]))
    .where((where) =>
      where.or([where('last_used_at', 'is', null), where('last_used_at', '<', since)]),
    )
    .where('id', 'not in', (select) => select.selectFrom('oauth_grant').select('client_id'))
    .where('id', 'not in', (select) =>
      select.selectFrom('consent').select('client_id').where('expires_at', '>', now),
    )
    .execute();
}
