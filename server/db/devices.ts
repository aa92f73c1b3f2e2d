import type { EpochSeconds } from '#model/clock';
import { currentGrants, readGrant, type NamedGrant } from './grants.ts';
import { isPostgres, transaction, type Db } from './transaction.ts';

/*
 * The computers of people, as Latchkey's proxy names them. A device groups grants, so that they can be ended together. Its id proves
 * nothing: it is valid only together with the person who gave the grants.
 */

/** A computer with active grants of a person. */
export interface Device {
  /** `device_` and 16 base62 characters. */
  readonly id: string;
  readonly userId: string;
  /** The host name that the proxy claimed. */
  readonly name: string;
  /** Its operating system, claimed too; may be empty. */
  readonly system: string;
  /** When its first active grant was given. */
  readonly since: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
  /** At least one, ordered by organization and server. */
  readonly grants: readonly NamedGrant[];
}

/** The person whose devices are meant, and the organizations: these or, without a list, all. */
export interface DeviceOwner {
  readonly userId: string;
  /** The names of the organizations. */
  readonly within?: readonly string[] | undefined;
}

export interface NamedDevice {
  /** The id that the device gets if it is not known yet. */
  readonly id: string;
  /** SHA-256 of the id that the proxy chose. */
  readonly claimHash: string;
  readonly name: string;
  readonly system: string;
}

/** The most devices that are stored for a person. */
const mostDevices = 50;

/**
 * Records the device that a proxy names while its person signs in. Within a transaction, the device is locked until the transaction ends,
 * so that a sign-out waits and then finds the codes and grants that the transaction gave the device.
 *
 * @returns its id; `undefined` when `mostDevices` others are stored, all with active grants
 */
export async function recordDevice(
  db: Db,
  userId: string,
  { id: newId, claimHash, name, system }: NamedDevice,
  now: EpochSeconds,
): Promise<string | undefined> {
  return transaction(db, async (tx) => {
    const known = { claim_hash: claimHash, name, system, named_at: now };
    const { id } = await tx
      .insertInto('device')
      .values({ id: newId, person_id: userId, created_at: now, ...known })
      .onConflict((conflict) =>
        conflict.columns(['person_id', 'claim_hash']).doUpdateSet({ name, system, named_at: now }),
      )
      .returning('id')
      .executeTakeFirstOrThrow();
    const others = await tx
      .selectFrom('device')
      .select((where) => [
        'id',
        where
          .exists(
            where
              .selectFrom('oauth_grant')
              .select('oauth_grant.id')
              .whereRef('device_id', '=', 'device.id')
              .where('revoked_at', 'is', null)
              .where('expires_at', '>', now),
          )
          .as('is_active'),
      ])
      .where('person_id', '=', userId)
      .where('id', '<>', id)
      .orderBy('named_at')
      .orderBy('id')
      .execute();
    const excess = others.length + 1 - mostDevices;
    if (excess <= 0) return id;
    const idle = others.filter((one) => !one.is_active).slice(0, excess);
    const isRefused = idle.length < excess;
    const dropped = isRefused ? [id] : idle.map((one) => one.id);
    await tx.deleteFrom('device').where('id', 'in', dropped).execute();
    return isRefused ? undefined : id;
  });
}

/** The devices with active grants, the last used one first. */
export async function listDevices(
  db: Db,
  { userId, within }: DeviceOwner,
  now: EpochSeconds,
): Promise<Device[]> {
  const rows = await currentGrants(db, now)
    .where('oauth_grant.person_id', '=', userId)
    .where('oauth_grant.revoked_at', 'is', null)
    .where('oauth_grant.device_id', 'is not', null)
    .$if(within !== undefined, (query) => query.where('organization.name', 'in', within ?? []))
    .orderBy('organization.name')
    .orderBy('endpoint.name')
    .orderBy('oauth_grant.created_at', 'desc')
    .execute();
  const byId = Map.groupBy(rows.map(readGrant), ({ device }) => device?.id ?? '');
  const devices = [...byId].map(([id, grants]) => toDevice(id, grants));
  return devices.toSorted((a, b) => lastSeen(b) - lastSeen(a));
}

function toDevice(id: string, grants: readonly NamedGrant[]): Device {
  const { name = '', system = '' } = grants[0]?.device ?? {};
  const used = grants.flatMap(({ lastUsedAt }) => lastUsedAt ?? []);
  return {
    id,
    userId: grants[0]?.userId ?? '',
    name,
    system,
    since: Math.min(...grants.map(({ createdAt }) => createdAt)),
    lastUsedAt: used.length === 0 ? undefined : Math.max(...used),
    grants,
  };
}

function lastSeen({ lastUsedAt, since }: Device): EpochSeconds {
  return Math.max(lastUsedAt ?? 0, since);
}

/**
 * Revokes all grants of a device, and deletes its codes, and the consents that would give the grants back without a question.
 *
 * Locks the device first: each transaction that gives it a code or a grant also records the device, and so ends before this one or
 * waits for it. Then deletes codes: a code that is being redeemed concurrently has become a grant by then, or never will.
 *
 * Where a provider vouches for people, one of the revoked grants then refuses assertions of this device, even if none was by an assertion.
 *
 * @returns the number of revoked grants, by the name of the organization
 */
export async function signOutDevice(
  db: Db,
  deviceId: string,
  { userId, within }: DeviceOwner,
  now: EpochSeconds,
): Promise<ReadonlyMap<string, number>> {
  return transaction(db, async (tx) => {
    await tx
      .selectFrom('device')
      .select('id')
      .where('id', '=', deviceId)
      .where('person_id', '=', userId)
      // Inserting a grant only refers to the device, and need not wait for this lock.
      .$if(isPostgres(tx), (query) => query.forNoKeyUpdate())
      .execute();
    const endpoints = tx
      .selectFrom('endpoint')
      .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
      .select('endpoint.id')
      .$if(within !== undefined, (query) => query.where('organization.name', 'in', within ?? []));
    await tx
      .deleteFrom('authorization_code')
      .where('device_id', '=', deviceId)
      .where('person_id', '=', userId)
      .where('endpoint_id', 'in', endpoints)
      .execute();
    const revoked = await tx
      .updateTable('oauth_grant')
      .set({ revoked_at: now })
      .where('device_id', '=', deviceId)
      .where('person_id', '=', userId)
      .where('revoked_at', 'is', null)
      .where('endpoint_id', 'in', endpoints)
      .returning(['id', 'client_id', 'endpoint_id'])
      .execute();
    await refuseAssertions(
      tx,
      deviceId,
      revoked.map(({ id }) => id),
    );
    const counts = new Map<string, number>();
    for (const { client_id: clientId, endpoint_id: endpointId } of revoked) {
      await tx
        .deleteFrom('consent')
        .where('person_id', '=', userId)
        .where('client_id', '=', clientId)
        .where('endpoint_id', '=', endpointId)
        .execute();
      const { name } = await tx
        .selectFrom('endpoint')
        .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
        .select('organization.name')
        .where('endpoint.id', '=', endpointId)
        .executeTakeFirstOrThrow();
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return counts;
  });
}

/** Lets one of these revoked grants in each organization with a vouching provider refuse assertions of the device, unless one already does. */
async function refuseAssertions(tx: Db, deviceId: string, ids: readonly string[]): Promise<void> {
  const rows = await tx
    .selectFrom('oauth_grant')
    .innerJoin('endpoint', 'endpoint.id', 'oauth_grant.endpoint_id')
    .select(['oauth_grant.id', 'endpoint.organization_id'])
    .where('oauth_grant.id', 'in', [...ids, ''])
    .where((where) =>
      where.exists(
        where
          .selectFrom('identity_provider')
          .select('identity_provider.id')
          .whereRef('identity_provider.organization_id', '=', 'endpoint.organization_id')
          .where('identity_provider.assertions_allowed', '=', 1),
      ),
    )
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom('oauth_grant as refusal')
            .innerJoin('endpoint as beside', 'beside.id', 'refusal.endpoint_id')
            .select('refusal.id')
            .where('refusal.device_id', '=', deviceId)
            .where('refusal.is_by_assertion', '=', 1)
            .where('refusal.revoked_at', 'is not', null)
            .whereRef('beside.organization_id', '=', 'endpoint.organization_id'),
        ),
      ),
    )
    .execute();
  const refusals = new Map(rows.map(({ id, organization_id: organization }) => [organization, id]));
  await tx
    .updateTable('oauth_grant')
    .set({ is_by_assertion: 1 })
    .where('id', 'in', [...refusals.values(), ''])
    .execute();
}

/** The names of devices, by id. Deleted devices are absent. */
export async function findDeviceNames(
  db: Db,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('device')
    .select(['id', 'name'])
    .where('id', 'in', [...new Set(ids)])
    .execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}
