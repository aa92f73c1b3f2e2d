import type { InferResult } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { ToolSelection } from '#model/tool-rights';
import type { Page } from '#model/page';
import { containsText, readScopes, readSelection, selectionText, countRows } from './columns.ts';
import { deleteConsents } from './consents.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

/*
 * The grants that people gave applications. A grant's refresh token is exchanged for its successor. Only SHA-256 hashes of tokens are stored.
 * A token works once: an update marks it as spent, and its row count tells the first caller from all others.
 */

/** The access that a person allowed an application at one server. Every token issued for a grant names it and becomes invalid with it. */
export interface Grant extends Omit<
  NamedGrant,
  'clientName' | 'serverPath' | 'titles' | 'device' | 'lastUsedAt' | 'assistant' | 'isByAssertion'
> {
  /** The assistant that our proxy said it works for. */
  readonly assistant?: string | undefined;
  /** The id of the computer that our proxy said it runs on. */
  readonly deviceId?: string | undefined;
  /** Default: `false` */
  readonly isByAssertion?: boolean;
}

/** A grant with the names of its application and server. */
export type NamedGrant = ReturnType<typeof readGrant>;

export function readGrant(row: InferResult<ReturnType<typeof namedGrants>>[number]) {
  const { device_id: deviceId, device_name: name, device_system: system } = row;
  // Declared as a string, because `as const` would make it a template type.
  const serverPath: string = `${row.organization}/${row.server}`;
  return {
    /** `grant_` and 16 base62 characters. */
    id: row.id,
    userId: row.person_id,
    clientId: row.client_id,
    clientName: row.client_name,
    serverId: row.endpoint_id,
    /** `{organization}/{server}` */
    serverPath,
    /** Empty where they have none. */
    titles: { organization: row.organization_title, server: row.server_title },
    scopes: readScopes(row.scopes),
    /** The tools, prompts and resources of the server that the application may use, as far as the scopes allow. */
    tools: readSelection(row.tool_selection),
    /** The host that the code was sent to, as the consent page displayed it. */
    redirectHost: row.redirect_host,
    /** The assistant that our proxy said it works for. */
    assistant: row.assistant ?? undefined,
    /** The computer that our proxy said it runs on. `system` may be empty. */
    device:
      deviceId === null
        ? undefined
        : ({ id: deviceId, name: name ?? '', system: system ?? '' } as const),
    /** Whether the code was redeemed with client authentication. If so, every refresh requires it too. */
    authenticated: row.authenticated === 1,
    createdAt: row.created_at,
    /** The hard limit, however often the grant is refreshed. The next assertion renews a grant by an assertion. */
    expiresAt: row.expires_at,
    /** When the application last called on behalf of the person. */
    lastUsedAt: row.last_used_at ?? undefined,
    /** A revoked grant by an assertion refuses further assertions, until it is allowed again. */
    revokedAt: row.revoked_at ?? undefined,
    /** Whether an identity provider vouched for the person, who was not asked. */
    isByAssertion: row.is_by_assertion === 1,
  } as const;
}

/** A grant as an administrator sees it. */
export interface ListedGrant extends NamedGrant {
  readonly email: string;
  /** Whether the application registered itself, rather than being created by an administrator. */
  readonly isOpenClient: boolean;
}

export interface GrantQuery {
  readonly organizationId: string;
  readonly userId?: string | undefined;
  /** Only the grant with this id. */
  readonly grantId?: string | undefined;
  /** Part of the application's name or of the person's e-mail address. */
  readonly text?: string | undefined;
  readonly now: EpochSeconds;
  readonly limit: number;
  readonly offset: number;
}

export type RefreshToken = NonNullable<Awaited<ReturnType<typeof findRefreshToken>>>;

export interface Successor {
  readonly hash: string;
  /** The successor, encrypted with the token that it replaces. */
  readonly sealed: string;
  readonly expiresAt: EpochSeconds;
}

/** The result of exchanging a refresh token. */
export type Spending =
  | { readonly outcome: 'spent' }
  | {
      readonly outcome: 'spent-before';
      readonly at: EpochSeconds;
      readonly sealedSuccessor: string;
      readonly successorUsed: boolean;
    };

/**
 * Inserts a grant and deletes expired grants. `bundleId` is set for grants that share one refresh token. If the device was signed out, the
 * person has just allowed access again, so assertions may give the device access again, too.
 */
export async function insertGrant(
  tx: Db,
  grant: Omit<Grant, 'revokedAt'>,
  bundleId?: string,
): Promise<void> {
  await tx
    .insertInto('oauth_grant')
    .values({
      id: grant.id,
      person_id: grant.userId,
      client_id: grant.clientId,
      endpoint_id: grant.serverId,
      scopes: JSON.stringify(grant.scopes),
      tool_selection: selectionText(grant.tools),
      redirect_host: grant.redirectHost,
      assistant: grant.assistant ?? null,
      device_id: grant.deviceId ?? null,
      authenticated: grant.authenticated ? 1 : 0,
      created_at: grant.createdAt,
      expires_at: grant.expiresAt,
      last_used_at: null,
      revoked_at: null,
      bundle_id: bundleId ?? null,
    })
    .execute();
  await tx
    .deleteFrom('oauth_grant')
    .where('expires_at', '<', grant.createdAt)
    // A person's refusal does not expire.
    .where((where) => where.or([where('is_by_assertion', '=', 0), where('revoked_at', 'is', null)]))
    .execute();
  const { userId, serverId, deviceId } = grant;
  if (deviceId !== undefined) await allowDevice(tx, { userId, serverId, deviceId });
}

/** A device of a person, at the organization of a server. */
interface DeviceAt {
  readonly userId: string;
  readonly serverId: string;
  readonly deviceId: string;
}

/** The revoked grants by which a device, signed out in the organization of a server, refuses assertions there. */
export function signedOutOf(db: Db, { userId, serverId, deviceId }: DeviceAt) {
  return db
    .selectFrom('oauth_grant')
    .where('person_id', '=', userId)
    .where('device_id', '=', deviceId)
    .where('is_by_assertion', '=', 1)
    .where('revoked_at', 'is not', null)
    .where('endpoint_id', 'in', (endpoints) =>
      endpoints
        .selectFrom('endpoint')
        .select('id')
        .where('organization_id', '=', (own) =>
          own.selectFrom('endpoint').select('organization_id').where('id', '=', serverId),
        ),
    );
}

/** Lets assertions give access again to a device that was signed out in the organization of a server. */
export async function allowDevice(tx: Db, at: DeviceAt): Promise<void> {
  const refusals = signedOutOf(tx, at).select('id');
  await tx.deleteFrom('oauth_grant').where('id', 'in', refusals).execute();
}

/** Finds revoked and expired grants too. */
export async function findGrant(db: Db, id: string): Promise<NamedGrant | undefined> {
  const row = await namedGrants(db).where('oauth_grant.id', '=', id).executeTakeFirst();
  return row && readGrant(row);
}

/** The person's active grants, newest first. */
export async function listGrantsOfPerson(
  db: Db,
  userId: string,
  now: EpochSeconds,
): Promise<NamedGrant[]> {
  const all = await listDecisionsOfPerson(db, userId, now);
  return all.filter(({ revokedAt }) => revokedAt === undefined);
}

/** The person's active grants, and those by assertions that they or an administrator withdrew, newest first. */
export async function listDecisionsOfPerson(
  db: Db,
  userId: string,
  now: EpochSeconds,
): Promise<NamedGrant[]> {
  const rows = await currentGrants(db, now)
    .where('oauth_grant.person_id', '=', userId)
    .orderBy('oauth_grant.created_at', 'desc')
    .orderBy('oauth_grant.id')
    .execute();
  return rows.map(readGrant);
}

/** The active grants at an organization's servers, and those by assertions that were withdrawn, newest first. */
export async function listGrants(
  db: Db,
  { organizationId, userId, grantId, text, now, limit, offset }: GrantQuery,
): Promise<Page<ListedGrant>> {
  const all = currentGrants(db, now)
    .innerJoin('person', 'person.id', 'oauth_grant.person_id')
    .where('endpoint.organization_id', '=', organizationId)
    .$if(grantId !== undefined, (query) => query.where('oauth_grant.id', '=', grantId ?? ''))
    .$if(userId !== undefined, (query) => query.where('person.id', '=', userId ?? ''))
    .$if(text !== undefined, (query) =>
      query.where((where) =>
        where.or([
          containsText(where.ref('oauth_client.name'), text ?? ''),
          containsText(where.ref('person.email'), text ?? ''),
        ]),
      ),
    );
  const rows = await all
    .select(['person.email', 'oauth_client.organization_id as own_organization'])
    .orderBy('oauth_grant.created_at', 'desc')
    .orderBy('oauth_grant.id')
    .limit(limit)
    .offset(offset)
    .execute();
  const total = await countRows(all);
  const items = rows.map((row) =>
    Object.assign(readGrant(row), {
      email: row.email,
      isOpenClient: row.own_organization === null,
    }),
  );
  return { items, total };
}

/** Whether any grant at a server of the organization is stored, active or not. */
export async function hasGrants(db: Db, organizationId: string): Promise<boolean> {
  const row = await db
    .selectFrom('oauth_grant')
    .innerJoin('endpoint', 'endpoint.id', 'oauth_grant.endpoint_id')
    .select('oauth_grant.id')
    .where('endpoint.organization_id', '=', organizationId)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Changes what a grant allows. Takes effect on the next call. Unless the grant now allows everything, the person is asked again when
 * the application next connects, because a remembered consent would allow more.
 *
 * @returns `false` when there is no such grant, or it is revoked
 */
export async function setGrantTools(db: Db, id: string, tools: ToolSelection): Promise<boolean> {
  return transaction(db, async (tx) => {
    const grant = await tx
      .updateTable('oauth_grant')
      .set({ tool_selection: selectionText(tools) })
      .where('id', '=', id)
      .where('revoked_at', 'is', null)
      .returning(['person_id', 'client_id', 'endpoint_id'])
      .executeTakeFirst();
    if (!grant) return false;
    const { person_id: userId, client_id: clientId, endpoint_id: serverId } = grant;
    if (tools.type !== 'all') await deleteConsents(tx, { userId, clientId, serverId });
    return true;
  });
}

/**
 * Revokes the grant, and with it all its tokens. A grant by an assertion then replaces the grants by assertions of all devices.
 *
 * @returns `false` when there is no such grant, or it is already revoked
 */
export async function revokeGrant(db: Db, id: string, now: EpochSeconds): Promise<boolean> {
  return transaction(db, async (tx) => {
    const asserted = await tx
      .selectFrom('oauth_grant')
      .select(['person_id', 'client_id', 'endpoint_id'])
      .where('id', '=', id)
      .where('is_by_assertion', '=', 1)
      .executeTakeFirst();
    if (asserted) {
      const { person_id: userId, client_id: clientId, endpoint_id: serverId } = asserted;
      await lockAsserted(tx, { userId, clientId, serverId });
    }
    const { numUpdatedRows } = await tx
      .updateTable('oauth_grant')
      .set({ revoked_at: now })
      .where('id', '=', id)
      .where('revoked_at', 'is', null)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    if (!asserted) return true;
    await tx
      .deleteFrom('oauth_grant')
      .where('person_id', '=', asserted.person_id)
      .where('client_id', '=', asserted.client_id)
      .where('endpoint_id', '=', asserted.endpoint_id)
      .where('is_by_assertion', '=', 1)
      .where('id', '<>', id)
      .execute();
    await tx.updateTable('oauth_grant').set({ device_id: null }).where('id', '=', id).execute();
    return true;
  });
}

/** Within a transaction: no other transaction makes or withdraws a grant by an assertion for this person, client and server. */
export async function lockAsserted(
  tx: Db,
  { userId, clientId, serverId }: Pick<Grant, 'userId' | 'clientId' | 'serverId'>,
): Promise<void> {
  await advisoryLock(tx, `asserted grant ${userId} ${clientId} ${serverId}`);
}

/** Finds spent, expired and suspended tokens too. `undefined` when the organization is disabled. */
export async function findRefreshToken(db: Db, hash: string) {
  const row = await namedGrants(db)
    .innerJoin('refresh_token', 'refresh_token.grant_id', 'oauth_grant.id')
    .select([
      'refresh_token.expires_at as idle_at',
      'refresh_token.spent_at',
      'endpoint.disabled_at as server_disabled_at',
    ])
    .where('refresh_token.hash', '=', hash)
    .where('organization.disabled_at', 'is', null)
    .executeTakeFirst();
  if (!row) return undefined;
  return {
    hash,
    /** When it expires if it is not used. */
    expiresAt: row.idle_at,
    spentAt: row.spent_at ?? undefined,
    grant: readGrant(row),
    /** Whether its server is disabled, and refuses it until it is enabled again. */
    isSuspended: row.server_disabled_at !== null,
  } as const;
}

/** Replaces the token with its successor, for the first caller. Later callers get the successor that the first one received. */
export async function spendRefreshToken(
  db: Db,
  hash: string,
  successor: Successor,
  now: EpochSeconds,
): Promise<Spending> {
  return transaction(db, async (tx) => {
    const spent = await tx
      .updateTable('refresh_token')
      .set({ spent_at: now, successor_hash: successor.hash, sealed_successor: successor.sealed })
      .where('hash', '=', hash)
      .where('spent_at', 'is', null)
      .returning(['grant_id', 'bundle_id'])
      .executeTakeFirst();
    if (spent) {
      const { grant_id: grantId, bundle_id: bundleId } = spent;
      const owner = grantId === null ? { bundleId: bundleId ?? '' } : { grantId };
      await insertRefreshToken(tx, owner, successor);
      await tx
        .deleteFrom('refresh_token')
        .where(grantId === null ? 'bundle_id' : 'grant_id', '=', grantId ?? bundleId)
        .where('expires_at', '<', now)
        .execute();
      return { outcome: 'spent' };
    }
    const before = await tx
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
}

export async function insertRefreshToken(
  db: Db,
  owner: { readonly grantId: string } | { readonly bundleId: string },
  { hash, expiresAt }: { hash: string; expiresAt: EpochSeconds },
): Promise<void> {
  await db
    .insertInto('refresh_token')
    .values({
      hash,
      grant_id: 'grantId' in owner ? owner.grantId : null,
      bundle_id: 'bundleId' in owner ? owner.bundleId : null,
      expires_at: expiresAt,
      spent_at: null,
      successor_hash: null,
      sealed_successor: null,
    })
    .execute();
}

/** Active grants, and withdrawn grants by assertions, which go on refusing. */
export function currentGrants(db: Db, now: EpochSeconds) {
  return namedGrants(db)
    .where('oauth_client.revoked_at', 'is', null)
    .where((where) =>
      where.or([
        where.and([
          where('oauth_grant.revoked_at', 'is', null),
          where('oauth_grant.expires_at', '>', now),
        ]),
        where.and([
          where('oauth_grant.revoked_at', 'is not', null),
          where('oauth_grant.is_by_assertion', '=', 1),
        ]),
      ]),
    );
}

/** Grants with the names of their client, server and organization. */
export function namedGrants(db: Db) {
  return db
    .selectFrom('oauth_grant')
    .innerJoin('oauth_client', 'oauth_client.id', 'oauth_grant.client_id')
    .innerJoin('endpoint', 'endpoint.id', 'oauth_grant.endpoint_id')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .leftJoin('device', 'device.id', 'oauth_grant.device_id')
    .selectAll('oauth_grant')
    .select([
      'device.name as device_name',
      'device.system as device_system',
      'oauth_client.name as client_name',
      'organization.name as organization',
      'endpoint.name as server',
      'organization.title as organization_title',
      'endpoint.title as server_title',
    ]);
}
