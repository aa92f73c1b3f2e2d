import type { EpochSeconds } from '#model/clock';
import type { Scope } from '#model/scopes';
import { transaction, type Db } from './transaction.ts';

/*
 * Grants that come of identity assertions: a provider vouched for the person, who was not asked. There is one for each person, client
 * and server, which further assertions renew. A person or an administrator who revokes it refuses all further ones, until it is
 * allowed again. If anything else ends it, such as the removal of the provider, it is deleted.
 */

/** A grant to make or renew. Whatever was issued through another provider becomes invalid. */
export interface AssertedGrant {
  /** The id that it has if there is none yet: `grant_` and 16 base62 characters. */
  readonly id: string;
  readonly userId: string;
  readonly clientId: string;
  readonly serverId: string;
  readonly providerId: string;
  readonly scopes: readonly Scope[];
  readonly authenticated: boolean;
  readonly expiresAt: EpochSeconds;
}

/** `isNew`: there was none for this person, client and server. */
export type Asserted =
  | { readonly outcome: 'granted'; readonly id: string; readonly isNew: boolean }
  | { readonly outcome: 'withdrawn' };

/** How much later a grant must expire for its expiry to be written again. */
const renewalSeconds = 86_400;

/** Makes or renews a grant, unless it was withdrawn. Concurrent calls for one person, client and server get the same grant. */
export async function putAssertedGrant(
  db: Db,
  grant: AssertedGrant,
  now: EpochSeconds,
): Promise<Asserted> {
  return transaction(db, async (tx) => {
    const scopes = JSON.stringify(grant.scopes);
    const known = await ofSubject(tx, grant).executeTakeFirst();
    const isRenewable = known?.provider_id === grant.providerId || known?.revoked_at;
    if (known && isRenewable) {
      if (known.revoked_at !== null) return { outcome: 'withdrawn' };
      const granted: Asserted = { outcome: 'granted', id: known.id, isNew: false };
      const isFresh = known.expires_at > grant.expiresAt - renewalSeconds;
      if (isFresh && known.scopes === scopes) return granted;
      const { numUpdatedRows } = await tx
        .updateTable('oauth_grant')
        .set({ scopes, expires_at: grant.expiresAt })
        .where('id', '=', known.id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n ? granted : { outcome: 'withdrawn' };
    }
    if (known) {
      await tx
        .deleteFrom('oauth_grant')
        .where('id', '=', known.id)
        .where('revoked_at', 'is', null)
        .execute();
    }
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('oauth_grant')
      .values({
        id: grant.id,
        person_id: grant.userId,
        client_id: grant.clientId,
        endpoint_id: grant.serverId,
        scopes,
        redirect_host: '',
        assistant: null,
        authenticated: grant.authenticated ? 1 : 0,
        created_at: now,
        expires_at: grant.expiresAt,
        last_used_at: null,
        revoked_at: null,
        is_by_assertion: 1,
        provider_id: grant.providerId,
      })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows === 1n) {
      return { outcome: 'granted', id: grant.id, isNew: known === undefined };
    }
    // Another transaction made it in the meantime, or revoked the one that was known.
    const made = await ofSubject(tx, grant).executeTakeFirstOrThrow();
    return made.revoked_at === null
      ? { outcome: 'granted', id: made.id, isNew: false }
      : { outcome: 'withdrawn' };
  });
}

function ofSubject(db: Db, { userId, clientId, serverId }: AssertedGrant) {
  return db
    .selectFrom('oauth_grant')
    .select(['id', 'provider_id', 'scopes', 'expires_at', 'revoked_at'])
    .where('person_id', '=', userId)
    .where('client_id', '=', clientId)
    .where('endpoint_id', '=', serverId)
    .where('is_by_assertion', '=', 1);
}

/** Lets assertions grant again what was withdrawn. @returns `false` when there is no such withdrawn grant */
export async function allowAssertedGrant(db: Db, id: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('oauth_grant')
    .where('id', '=', id)
    .where('is_by_assertion', '=', 1)
    .where('revoked_at', 'is not', null)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/**
 * Ends what a provider vouched for. What was withdrawn goes on refusing. Triggers of the database do the same when a provider is disabled or
 * removed, or a person is unlinked.
 */
export async function endAssertedGrants(db: Db, providerId: string): Promise<void> {
  await db
    .deleteFrom('oauth_grant')
    .where('provider_id', '=', providerId)
    .where('revoked_at', 'is', null)
    .execute();
}
