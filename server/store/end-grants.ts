import type { Kysely } from 'kysely';

import type { EndGrants } from '#people/end-grants';
import { grantStore } from './grant-store.ts';
import { personalTokenStore } from './personal-token-store.ts';
import type { Schema } from './schema.ts';

/** Ends what was allowed in a person's name in SQL: grants with all that leads to one, and personal tokens. */
export function endGrants(db: Kysely<Schema>): EndGrants {
  const grants = grantStore(db);
  const personalTokens = personalTokenStore(db);
  return async (userId, now) => {
    await grants.revokeAll(userId, now);
    await personalTokens.revokeAll(userId, now);
  };
}
