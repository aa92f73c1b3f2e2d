import type { EpochSeconds } from '#model/clock';
import { recordDevice, type NamedDevice } from './devices.ts';
import { allowDevice, lockAsserted, signedOutOf, type Grant } from './grants.ts';
import { transaction, type Db } from './transaction.ts';

/*
 * Grants by identity assertions: a provider vouched for the person, who was not asked. There is one grant for each person, client, server
 * and device, and further assertions renew it. Once a person or an administrator withdraws it, the grant names no device, and refuses all
 * assertions for this person, client and server, from any device, until it is allowed again. A device that was signed out is refused until
 * the person has signed in at the provider again, or allows the device: on a page, or by a consent that they give on it. A grant that ends
 * for any other reason, such as the removal of the provider, is deleted.
 */

/** A grant to make or renew. A grant through another provider, with all that was issued for it, becomes invalid. */
export interface AssertedGrant extends Pick<
  Grant,
  'userId' | 'clientId' | 'serverId' | 'scopes' | 'authenticated' | 'expiresAt'
> {
  /** The id of the grant if a new one is made: `grant_` and 16 base62 characters. */
  readonly id: string;
  readonly providerId: string;
  /** The computer that our proxy says it runs on. */
  readonly device?: NamedDevice | undefined;
  /** When the person signed in at the provider, if the provider says when. */
  readonly signedInAt?: EpochSeconds | undefined;
}

/** `isNew`: there was no grant for this person, client, server and device. */
export type Asserted =
  | { readonly outcome: 'granted'; readonly id: string; readonly isNew: boolean }
  /** `signed-out`: only this device is refused. */
  | { readonly outcome: 'withdrawn' | 'signed-out' };

/** How much later a grant must expire for its expiry to be written again. */
const renewalSeconds = 86_400;

/**
 * Makes or renews a grant, unless it was withdrawn. Concurrent calls for one person, client, server and device get the same grant.
 */
export async function putAssertedGrant(
  db: Db,
  grant: AssertedGrant,
  now: EpochSeconds,
): Promise<Asserted> {
  return transaction(db, async (tx) => {
    await lockAsserted(tx, grant);
    const deviceId = grant.device && (await recordDevice(tx, grant.userId, grant.device, now));
    const refusal = await ofSubject(tx, grant, undefined)
      .where('revoked_at', 'is not', null)
      .executeTakeFirst();
    if (refusal) return { outcome: 'withdrawn' };
    const scopes = JSON.stringify(grant.scopes);
    let known = await ofSubject(tx, grant, deviceId).executeTakeFirst();
    const signedOutAt = deviceId === undefined ? undefined : await lastSignOut(tx, grant, deviceId);
    if (signedOutAt !== undefined && (grant.signedInAt ?? 0) <= signedOutAt) {
      return { outcome: 'signed-out' };
    }
    if (known && known.revoked_at !== null) {
      await tx.deleteFrom('oauth_grant').where('id', '=', known.id).execute();
      known = undefined;
    }
    if (known?.provider_id === grant.providerId) {
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
        device_id: deviceId ?? null,
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
    // Another transaction has meanwhile made the grant, or revoked the known one.
    const made = await ofSubject(tx, grant, deviceId).executeTakeFirstOrThrow();
    return made.revoked_at === null
      ? { outcome: 'granted', id: made.id, isNew: false }
      : { outcome: 'withdrawn' };
  });
}

/** When the person's device was last signed out in the organization of the server. The sign-out applies to all servers of the organization. */
async function lastSignOut(
  tx: Db,
  { userId, serverId }: AssertedGrant,
  deviceId: string,
): Promise<EpochSeconds | undefined> {
  const { last } = await signedOutOf(tx, { userId, serverId, deviceId })
    .select(({ fn }) => fn.max('revoked_at').as('last'))
    .executeTakeFirstOrThrow();
  return last ?? undefined;
}

function ofSubject(
  db: Db,
  { userId, clientId, serverId }: AssertedGrant,
  deviceId: string | undefined,
) {
  return db
    .selectFrom('oauth_grant')
    .select(['id', 'provider_id', 'scopes', 'expires_at', 'revoked_at'])
    .where('person_id', '=', userId)
    .where('client_id', '=', clientId)
    .where('endpoint_id', '=', serverId)
    .where('is_by_assertion', '=', 1)
    .where('device_id', 'is not distinct from', deviceId ?? null);
}

/**
 * Lets assertions give withdrawn access again or, after a sign-out of a device, all access that the sign-out ended in the organization.
 *
 * @returns `false` when there is no such withdrawn grant
 */
export async function allowAssertedGrant(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    const allowed = await tx
      .deleteFrom('oauth_grant')
      .where('id', '=', id)
      .where('is_by_assertion', '=', 1)
      .where('revoked_at', 'is not', null)
      .returning(['person_id', 'endpoint_id', 'device_id'])
      .executeTakeFirst();
    if (!allowed) return false;
    const { person_id: userId, endpoint_id: serverId, device_id: deviceId } = allowed;
    if (deviceId !== null) await allowDevice(tx, { userId, serverId, deviceId });
    return true;
  });
}

/**
 * Deletes the active grants that a provider vouched for. Withdrawn grants stay and go on refusing. Triggers of the database do the same
 * when a provider is disabled or removed, or a person is unlinked.
 */
export async function endAssertedGrants(db: Db, providerId: string): Promise<void> {
  await db
    .deleteFrom('oauth_grant')
    .where('provider_id', '=', providerId)
    .where('revoked_at', 'is', null)
    .execute();
}
