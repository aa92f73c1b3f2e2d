import type { BundleRequest } from '#model/authorization-request';
import type { EpochSeconds } from '#model/clock';
import type { Scope } from '#model/scopes';
import { expiredCodeRetentionSeconds, type AuthorizationCode } from './authorization-codes.ts';
import { readScopes, readSelection, selectionText } from './columns.ts';
import { keepPending, type PendingRequest, takePending } from './consents.ts';
import {
  insertGrant,
  insertRefreshToken,
  namedGrants,
  readGrant,
  type Grant,
  type NamedGrant,
  type RefreshToken,
} from './grants.ts';
import { transaction, type Db } from './transaction.ts';

/*
 * Bundles of grants that people gave applications for several servers at once. Each server of a bundle has a grant, which can end alone,
 * but all grants share one code and one family of refresh tokens. An access token is for one server and names its grant, so calls do
 * not depend on bundles.
 */

/** Several grants under one refresh token. */
export type GrantBundle = NonNullable<Awaited<ReturnType<typeof findBundle>>>;

/** The grant that a code gives at one server. */
export type BundlePart = Pick<AuthorizationCode, 'grantId' | 'serverId' | 'scopes' | 'tools'>;

/** The claims of Latchkey's proxy about itself, which are stored with each part. */
type ProxyClaim = 'assistant' | 'deviceId';

export interface BundleCode extends Omit<
  AuthorizationCode,
  keyof BundlePart | ProxyClaim | 'spentAt'
> {
  /** The id of the bundle that redeeming the code creates. */
  readonly bundleId: string;
  readonly listsServers: boolean;
  readonly assistant?: string | undefined;
  readonly deviceId?: string | undefined;
}

/** A code that was issued, with the servers that still exist and are enabled. */
export type IssuedBundleCode = NonNullable<Awaited<ReturnType<typeof findBundleCode>>>;

export async function insertBundleCode(
  db: Db,
  { bundleId, assistant, deviceId, listsServers, ...code }: BundleCode,
  parts: readonly BundlePart[],
  now: EpochSeconds,
): Promise<void> {
  const owner = { person_id: code.userId, client_id: code.clientId };
  const proof = { redirect_uri: code.redirectUri, code_challenge: code.codeChallenge };
  await db
    .deleteFrom('grant_bundle')
    .where((where) =>
      where.or([
        where('expires_at', '<', now),
        where.and([
          where('redeemed_at', 'is', null),
          where('code_expires_at', '<', now - expiredCodeRetentionSeconds),
        ]),
      ]),
    )
    .execute();
  await db
    .insertInto('grant_bundle')
    .values({
      id: bundleId,
      ...owner,
      ...proof,
      lists_servers: listsServers ? 1 : 0,
      code_hash: code.hash,
      code_expires_at: code.expiresAt,
      redeemed_at: null,
      expires_at: null,
      revoked_at: null,
    })
    .execute();
  const rows = parts.map(({ grantId, serverId, scopes, tools }) => ({
    // Not the hash of a code: this row is redeemed together with the other parts of the bundle.
    hash: `part of a bundle: ${grantId}`,
    grant_id: grantId,
    ...owner,
    endpoint_id: serverId,
    scopes: JSON.stringify(scopes),
    tool_selection: selectionText(tools),
    ...proof,
    assistant: assistant ?? null,
    device_id: deviceId ?? null,
    expires_at: code.expiresAt,
    spent_at: null,
    bundle_id: bundleId,
  }));
  await db.insertInto('authorization_code').values(rows).execute();
}

/** Finds redeemed and expired codes too. */
export async function findBundleCode(db: Db, hash: string) {
  const row = await db
    .selectFrom('grant_bundle')
    .selectAll()
    .where('code_hash', '=', hash)
    .executeTakeFirst();
  if (!row) return undefined;
  const parts = await db
    .selectFrom('authorization_code')
    .innerJoin('endpoint', 'endpoint.id', 'authorization_code.endpoint_id')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .select(['authorization_code.grant_id', 'endpoint_id', 'scopes', 'tool_selection', 'assistant'])
    .select('device_id')
    .select(['organization.name as organization', 'endpoint.name as server'])
    .where('bundle_id', '=', row.id)
    .where('organization.disabled_at', 'is', null)
    .where('endpoint.disabled_at', 'is', null)
    .orderBy('organization.name')
    .orderBy('endpoint.name')
    .execute();
  return {
    hash,
    bundleId: row.id,
    userId: row.person_id,
    clientId: row.client_id,
    listsServers: row.lists_servers === 1,
    redirectUri: row.redirect_uri,
    codeChallenge: row.code_challenge,
    expiresAt: row.code_expires_at,
    redeemedAt: row.redeemed_at ?? undefined,
    parts: parts.map((part) => ({
      grantId: part.grant_id,
      serverId: part.endpoint_id,
      serverPath: `${part.organization}/${part.server}`,
      scopes: readScopes(part.scopes),
      tools: readSelection(part.tool_selection),
      assistant: part.assistant ?? undefined,
      deviceId: part.device_id ?? undefined,
    })),
  } as const;
}

/** Makes the code invalid, because the client that presented it could not prove that it received it. */
export async function spendBundleCode(db: Db, hash: string, now: EpochSeconds): Promise<void> {
  await db
    .updateTable('grant_bundle')
    .set({ redeemed_at: now, expires_at: now, revoked_at: now })
    .where('code_hash', '=', hash)
    .where('redeemed_at', 'is', null)
    .execute();
}

/**
 * Redeems the code: begins the grants with the first refresh token, in one transaction. Grants whose part of the code was deleted
 * meanwhile, because access ended, do not begin.
 *
 * @returns the ids of the grants that began; `undefined` for every caller but the first that presents the code
 */
export async function beginBundle(
  db: Db,
  codeHash: string,
  bundle: GrantBundle,
  grants: readonly Omit<Grant, 'revokedAt'>[],
  refreshToken: { hash: string; expiresAt: EpochSeconds; createdAt: EpochSeconds },
): Promise<readonly string[] | undefined> {
  const { createdAt } = refreshToken;
  return transaction(db, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('grant_bundle')
      .set({
        redeemed_at: createdAt,
        expires_at: bundle.expiresAt,
        authenticated: bundle.authenticated ? 1 : 0,
      })
      .where('code_hash', '=', codeHash)
      .where('redeemed_at', 'is', null)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return undefined;
    // Locks the parts: a transaction that ends access waits, and then finds the grants.
    const parts = await tx
      .updateTable('authorization_code')
      .set({ spent_at: createdAt })
      .where('bundle_id', '=', bundle.id)
      .where('spent_at', 'is', null)
      .returning('grant_id')
      .execute();
    const open = new Set(parts.map(({ grant_id: id }) => id));
    const begun = grants.filter(({ id }) => open.has(id));
    for (const grant of begun) await insertGrant(tx, grant, bundle.id);
    await insertRefreshToken(tx, { bundleId: bundle.id }, refreshToken);
    return begun.map(({ id }) => id);
  });
}

/** Finds revoked and expired bundles too; `undefined` before the code of the bundle is redeemed. */
export async function findBundle(db: Db, id: string) {
  const row = await db
    .selectFrom('grant_bundle')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirst();
  if (row?.expires_at === null || row?.expires_at === undefined) return undefined;
  return {
    /** `bundle_` and 16 base62 characters. */
    id,
    userId: row.person_id,
    clientId: row.client_id,
    /** Whether its tokens may list the person's servers. */
    listsServers: row.lists_servers === 1,
    /** Whether the code was redeemed with client authentication. If so, every refresh requires it too. */
    authenticated: row.authenticated === 1,
    /** The hard limit of the bundle and its grants, however often the bundle is refreshed. */
    expiresAt: row.expires_at,
    /** Set if the whole bundle was revoked at once. */
    revokedAt: row.revoked_at ?? undefined,
  } as const;
}

export interface BundleToken extends Pick<RefreshToken, 'hash' | 'expiresAt' | 'spentAt'> {
  readonly bundle: GrantBundle;
}

/** Finds spent and expired tokens too. */
export async function findBundleToken(db: Db, hash: string): Promise<BundleToken | undefined> {
  const row = await db
    .selectFrom('refresh_token')
    .select(['bundle_id', 'expires_at', 'spent_at'])
    .where('hash', '=', hash)
    .where('bundle_id', 'is not', null)
    .executeTakeFirst();
  const bundle = row && (await findBundle(db, row.bundle_id ?? ''));
  return bundle && { hash, expiresAt: row.expires_at, spentAt: row.spent_at ?? undefined, bundle };
}

/** A grant of a bundle. It is suspended while its server is disabled, and works again once the server is enabled. */
export interface BundledGrant extends NamedGrant {
  readonly isSuspended: boolean;
}

/** The unrevoked grants of a bundle, ordered by organization and server, without those of disabled organizations. */
export async function listBundledGrants(db: Db, bundleId: string): Promise<BundledGrant[]> {
  const rows = await namedGrants(db)
    .select('endpoint.disabled_at as server_disabled_at')
    .where('oauth_grant.bundle_id', '=', bundleId)
    .where('oauth_grant.revoked_at', 'is', null)
    .where('organization.disabled_at', 'is', null)
    .orderBy('organization.name')
    .orderBy('endpoint.name')
    .execute();
  return rows.map((row) =>
    Object.assign(readGrant(row), { isSuspended: row.server_disabled_at !== null }),
  );
}

/** The organizations at whose servers a bundle has grants, or had some that were revoked. */
export async function listBundleOrganizations(
  db: Db,
  bundleId: string,
): Promise<ReadonlySet<string>> {
  const rows = await namedGrants(db)
    .clearSelect()
    .select('organization.name')
    .distinct()
    .where('oauth_grant.bundle_id', '=', bundleId)
    .execute();
  return new Set(rows.map(({ name }) => name));
}

/**
 * Revokes all grants of a bundle, and with them all its tokens.
 *
 * @returns the grants that were revoked now; `undefined` if the whole bundle was revoked before
 */
export async function revokeBundle(
  db: Db,
  id: string,
  now: EpochSeconds,
): Promise<readonly { readonly id: string; readonly organization: string }[] | undefined> {
  return transaction(db, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('grant_bundle')
      .set({ revoked_at: now })
      .where('id', '=', id)
      .where('revoked_at', 'is', null)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return undefined;
    const revoked = await tx
      .updateTable('oauth_grant')
      .set({ revoked_at: now })
      .where('bundle_id', '=', id)
      .where('revoked_at', 'is', null)
      .returning(['id', 'endpoint_id'])
      .execute();
    if (revoked.length === 0) return [];
    const places = await tx
      .selectFrom('endpoint')
      .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
      .select(['endpoint.id', 'organization.name'])
      .where(
        'endpoint.id',
        'in',
        revoked.map((grant) => grant.endpoint_id),
      )
      .execute();
    const organizations = new Map(places.map((place) => [place.id, place.name]));
    return revoked.map((grant) => ({
      id: grant.id,
      organization: organizations.get(grant.endpoint_id) ?? '',
    }));
  });
}

/** The bundle that a grant belongs to; `undefined` for a grant without a bundle. */
export async function findBundleOfGrant(db: Db, grantId: string): Promise<GrantBundle | undefined> {
  const row = await db
    .selectFrom('oauth_grant')
    .select('bundle_id')
    .where('id', '=', grantId)
    .executeTakeFirst();
  return row?.bundle_id ? findBundle(db, row.bundle_id) : undefined;
}

/** A server as the page displayed it. */
export interface ShownServer {
  readonly serverId: string;
  readonly serverPath: string;
  readonly scopes: readonly Scope[];
}

/** A request for several servers that waits for a person's decision. */
export interface PendingBundle extends Omit<PendingRequest, 'request' | 'shown'> {
  readonly request: BundleRequest;
  /** The servers that the person could choose. */
  readonly shown: readonly ShownServer[];
}

export async function insertPendingBundle(
  db: Db,
  { request, shown, ...pending }: PendingBundle,
  now: EpochSeconds,
): Promise<void> {
  await keepPending(db, { ...pending, request: { ...request, shown } as BundleRequest }, {}, now);
}

/** Removes and returns a request; `undefined` when it was taken before, has expired, or belongs to another session. */
export async function takePendingBundle(
  db: Db,
  idHash: string,
  sessionId: string,
  now: EpochSeconds,
): Promise<PendingBundle | undefined> {
  const row = await takePending(db, { idHash, sessionId, ofSeveral: true }, now);
  if (!row) return undefined;
  const { shown, ...request } = JSON.parse(row.request) as BundleRequest & {
    shown: readonly ShownServer[];
  };
  return { idHash, sessionId, userId: row.person_id, request, shown, expiresAt: row.expires_at };
}
