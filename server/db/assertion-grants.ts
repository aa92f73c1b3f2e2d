import type { EpochSeconds } from '#model/clock';
import { recordDevice, type NamedDevice } from './devices.ts';
import { allowDevice, lockAsserted, signedOutOf, type Grant } from './grants.ts';
import { transaction, type Db } from './transaction.ts';

/*
 * Grants that come of identity assertions: a provider vouched for the person, who was not asked. There is one for each person, client,
 * server and device, which further assertions renew. A person or an administrator who withdraws one refuses all further ones of this
 * client there, from any device, until it is allowed again: it then names no device. A device that was signed out is refused until the
 * person has signed in at the provider again, or allows it: on a page, or by a consent that they give on that device. If anything else
 * ends a grant, such as the removal of the provider, it is deleted.
 */

/** A grant to make or renew. Whatever was issued through another provider becomes invalid. */
export interface AssertedGrant extends Pick<
  Grant,
  'userId' | 'clientId' | 'serverId' | 'scopes' | 'authenticated' | 'expiresAt'
> {
  /** The id that it has if there is none yet: `grant_` and 16 base62 characters. */
  readonly id: string;
  readonly providerId: string;
  /** The computer that our proxy says it runs on. */
  readonly device?: NamedDevice | undefined;
  /** When the person signed in at the provider, if it says so. */
  readonly signedInAt?: EpochSeconds | undefined;
}

/** `isNew`: there was none for this person, client, server and device. */
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
    // Another transaction made it in the meantime, or revoked the one that was known.
    const made = await ofSubject(tx, grant, deviceId).executeTakeFirstOrThrow();
    return made.revoked_at === null
      ? { outcome: 'granted', id: made.id, isNew: false }
      : { outcome: 'withdrawn' };
  });
}

/** When a device of the person was last signed out in the organization of the server: it then gets into none of its servers. */
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
 * Lets assertions grant again what was withdrawn, or everything in the organization that was signed out with a device.
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
