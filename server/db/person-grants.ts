// The access that a person gave to applications, in one organization or in all.
import type { EpochSeconds } from '#model/clock';
import { transaction, type Db } from './transaction.ts';

/** Whether any application has access on behalf of a person. */
export async function hasActiveGrant(
  db: Db,
  userId: string,
  now: EpochSeconds,
  organizationId?: string,
): Promise<boolean> {
  const row = await db
    .selectFrom('oauth_grant')
    .select('id')
    .where('person_id', '=', userId)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now)
    .$if(organizationId !== undefined, (query) =>
      query.where('endpoint_id', 'in', endpointsOf(db, organizationId)),
    )
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Revokes all grants of the person and deletes their codes, pending requests and consents; with `organizationId`, only those at its
 * servers. Codes are deleted before grants are revoked: a code that is being redeemed concurrently has become a grant by then, or
 * never will. Grants by assertions are deleted, because a revoked one would refuse the next assertion too.
 */
export async function revokeGrantsOfPerson(
  db: Db,
  userId: string,
  now: EpochSeconds,
  organizationId?: string,
): Promise<void> {
  const isLimited = organizationId !== undefined;
  await transaction(db, async (tx) => {
    for (const table of ['authorization_request', 'authorization_code', 'consent'] as const) {
      await tx
        .deleteFrom(table)
        .where('person_id', '=', userId)
        .$if(isLimited, (query) =>
          query.where('endpoint_id', 'in', endpointsOf(tx, organizationId)),
        )
        .execute();
    }
    // A request for several servers has an empty `endpoint_id`.
    await tx
      .deleteFrom('authorization_request')
      .where('person_id', '=', userId)
      .where('endpoint_id', '=', '')
      .execute();
    await tx
      .deleteFrom('oauth_grant')
      .where('person_id', '=', userId)
      .where('is_by_assertion', '=', 1)
      .where('revoked_at', 'is', null)
      .$if(isLimited, (query) => query.where('endpoint_id', 'in', endpointsOf(tx, organizationId)))
      .execute();
    await tx
      .updateTable('oauth_grant')
      .set({ revoked_at: now })
      .where('person_id', '=', userId)
      .where('revoked_at', 'is', null)
      .$if(isLimited, (query) => query.where('endpoint_id', 'in', endpointsOf(tx, organizationId)))
      .execute();
  });
}

function endpointsOf(db: Db, organizationId = '') {
  return db.selectFrom('endpoint').select('id').where('organization_id', '=', organizationId);
}
