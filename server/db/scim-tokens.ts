import { sql, type Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { countRows, ownerOf } from './columns.ts';
import type { Schema } from './schema.ts';
import { advisoryLock, inParts, transaction, type Db } from './transaction.ts';

/** A token by which a directory provisions one organization, without its value, which was displayed once. */
export type ScimToken = ReturnType<typeof readToken>;

function readToken(row: Selectable<Schema['scim_token']>, isCreatorGone: boolean) {
  return {
    /** `scimtoken_` and 16 base62 characters; not a secret. */
    id: row.id,
    hint: row.hint,
    /** The actor, as the audit log names it. */
    createdBy: row.created_by,
    /** Whether its creator is a person who is not a member of the organization any more. */
    isCreatorGone,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    /** Accurate to the minute. */
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  } as const;
}

export type NewScimToken = Pick<
  ScimToken,
  'id' | 'hint' | 'createdBy' | 'createdAt' | 'expiresAt'
> & {
  readonly organizationId: string;
  readonly hash: string;
};

/** A request that failed, and how often. */
export interface ScimFault {
  /** The method and the resource type, such as `POST Users`. */
  readonly request: string;
  /** Whom it was about, as the directory named them. */
  readonly subject: string;
  readonly problem: string;
  readonly at: EpochSeconds;
  readonly times: number;
}

const lastUsePrecisionSeconds = 60;
const mostFaults = 50;

/**
 * Adds a token. The others expire at `othersExpireAt` at the latest, if that is given.
 *
 * @returns `false`, without any change, when the organization has `most` active tokens
 */
export async function insertScimToken(
  db: Db,
  { organizationId, ...token }: NewScimToken,
  { most, othersExpireAt }: { most: number; othersExpireAt?: EpochSeconds | undefined },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `scim tokens ${organizationId}`);
    const count = await countRows(
      selectActive(tx, token.createdAt).where('organization_id', '=', organizationId),
    );
    if (count >= most) return false;
    if (othersExpireAt !== undefined) {
      await tx
        .updateTable('scim_token')
        .set({ expires_at: othersExpireAt })
        .where('organization_id', '=', organizationId)
        .where((where) =>
          where.or([where('expires_at', 'is', null), where('expires_at', '>', othersExpireAt)]),
        )
        .execute();
    }
    await tx
      .insertInto('scim_token')
      .values({
        id: token.id,
        organization_id: organizationId,
        hash: token.hash,
        hint: token.hint,
        created_by: token.createdBy,
        created_at: token.createdAt,
        expires_at: token.expiresAt ?? null,
        last_used_at: null,
        revoked_at: null,
      })
      .execute();
    return true;
  });
}

/** All tokens of an organization, newest first. */
export async function listScimTokens(db: Db, organizationId: string): Promise<ScimToken[]> {
  const rows = await db
    .selectFrom('scim_token')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .execute();
  const creators = rows.flatMap((row) => ownerOf(row.created_by) ?? []);
  const members = new Set<string>();
  for (const some of inParts([...new Set(creators)])) {
    const found = await db
      .selectFrom('membership')
      .select('person_id')
      .where('organization_id', '=', organizationId)
      .where('person_id', 'in', some)
      .execute();
    for (const { person_id: id } of found) members.add(id);
  }
  return rows.map((row) => {
    const creator = ownerOf(row.created_by);
    return readToken(row, creator !== null && !members.has(creator));
  });
}

/** How many active tokens a person created in an organization. */
export async function countScimTokensOf(
  db: Db,
  organizationId: string,
  userId: string,
  now: EpochSeconds,
): Promise<number> {
  return countRows(
    selectActive(db, now)
      .where('organization_id', '=', organizationId)
      .where('created_by', '=', `user:${userId}`),
  );
}

/** Revokes the active tokens that a person created in an organization. @returns how many */
export async function revokeScimTokensOf(
  tx: Db,
  organizationId: string,
  userId: string,
  now: EpochSeconds,
): Promise<number> {
  const { numUpdatedRows } = await tx
    .updateTable('scim_token')
    .set({ revoked_at: now })
    .where('organization_id', '=', organizationId)
    .where('created_by', '=', `user:${userId}`)
    .where('revoked_at', 'is', null)
    .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]))
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

/** @returns `false` when the organization has no such token, or it is already revoked */
export async function revokeScimToken(
  db: Db,
  organizationId: string,
  id: string,
  now: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('scim_token')
    .set({ revoked_at: now })
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** The organization that a token provisions. */
export type ScimTenant = NonNullable<Awaited<ReturnType<typeof useScimToken>>>;

/**
 * The organization of this name, if the token with this hash is active and belongs to it. `undefined` if the token or the organization
 * is unknown, or they do not belong together; these cases are deliberately not distinguished. Records the use, accurate to the minute.
 */
export async function useScimToken(
  db: Db,
  { organization, hash, now }: { organization: string; hash: string; now: EpochSeconds },
) {
  const row = await selectActive(db, now)
    .innerJoin('organization', 'organization.id', 'scim_token.organization_id')
    .select(['scim_token.id', 'scim_token.last_used_at', 'scim_token.organization_id'])
    .where('scim_token.hash', '=', hash)
    .where('organization.name', '=', organization)
    .where('organization.disabled_at', 'is', null)
    .executeTakeFirst();
  if (!row) return undefined;
  if (row.last_used_at === null || now - row.last_used_at >= lastUsePrecisionSeconds) {
    await db
      .updateTable('scim_token')
      .set({ last_used_at: now })
      .where('id', '=', row.id)
      .execute();
  }
  return { organizationId: row.organization_id, organization, tokenId: row.id } as const;
}

/** Within a transaction: whether a token is active. It cannot be revoked until the transaction ends. */
export async function lockScimToken(tx: Db, id: string, now: EpochSeconds): Promise<boolean> {
  // Written rather than locked for sharing, so that SQLite and PostgreSQL do the same.
  const { numUpdatedRows } = await tx
    .updateTable('scim_token')
    .set({ last_used_at: now })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]))
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Records a request that failed. Equal requests are counted in one row; beyond `mostFaults`, the oldest are removed. */
export async function noteScimFault(
  db: Db,
  organizationId: string,
  { id, request, subject, problem, at }: Omit<ScimFault, 'times'> & { readonly id: string },
): Promise<void> {
  await transaction(db, async (tx) => {
    await advisoryLock(tx, `scim faults ${organizationId}`);
    await tx
      .insertInto('scim_fault')
      .values({ id, organization_id: organizationId, request, subject, problem, at, times: 1 })
      .onConflict((conflict) =>
        conflict
          .columns(['organization_id', 'request', 'subject', 'problem'])
          .doUpdateSet({ at, times: sql<number>`scim_fault.times + 1` }),
      )
      .execute();
    const kept = tx
      .selectFrom('scim_fault')
      .select('id')
      .where('organization_id', '=', organizationId)
      .orderBy('at', 'desc')
      .orderBy('id')
      .limit(mostFaults);
    await tx
      .deleteFrom('scim_fault')
      .where('organization_id', '=', organizationId)
      .where('id', 'not in', kept)
      .execute();
  });
}

/** The requests that failed, newest first. */
export async function listScimFaults(db: Db, organizationId: string): Promise<ScimFault[]> {
  return db
    .selectFrom('scim_fault')
    .select(['request', 'subject', 'problem', 'at', 'times'])
    .where('organization_id', '=', organizationId)
    .orderBy('at', 'desc')
    .orderBy('id')
    .execute();
}

/** Forgets the requests that failed. */
export async function clearScimFaults(db: Db, organizationId: string): Promise<void> {
  await db.deleteFrom('scim_fault').where('organization_id', '=', organizationId).execute();
}

function selectActive(db: Db, now: EpochSeconds) {
  return db
    .selectFrom('scim_token')
    .where('scim_token.revoked_at', 'is', null)
    .where((where) =>
      where.or([
        where('scim_token.expires_at', 'is', null),
        where('scim_token.expires_at', '>', now),
      ]),
    );
}
