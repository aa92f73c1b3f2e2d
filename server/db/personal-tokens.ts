import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Schema } from './schema.ts';
import { countRows } from './columns.ts';
import { advisoryLock, isPostgres, transaction, type Db } from './transaction.ts';

/** A token for the admin API, without its value, which was displayed once, at creation. */
export type PersonalToken = ReturnType<typeof readToken>;

function readToken(row: Selectable<Schema['personal_token']>) {
  return {
    /** `token_` and 16 base62 characters; not a secret. */
    id: row.id,
    userId: row.person_id,
    name: row.name,
    /** Prefix and last four characters. */
    hint: row.hint,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    /** Accurate to the minute. */
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    /** How many factors the person had proved when they created the token. */
    factors: row.factors === 2 ? 2 : 1,
  } as const;
}

export type NewPersonalToken = Omit<PersonalToken, 'lastUsedAt' | 'revokedAt'> & {
  /** The actor, as the audit log names it. */
  readonly createdBy?: string | undefined;
  readonly hash: string;
};

/** A use is stored only when the last stored one is at least this old, so that a request rarely writes. */
const lastUsePrecisionSeconds = 60;

/** @returns `false`, without any change, when the person has `most` active tokens */
export async function insertPersonalToken(
  db: Db,
  token: NewPersonalToken,
  most: number,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `personal tokens ${token.userId}`);
    const count = await countRows(
      selectActive(tx, token.createdAt).where('person_id', '=', token.userId),
    );
    if (count >= most) return false;
    await tx
      .insertInto('personal_token')
      .values({
        id: token.id,
        person_id: token.userId,
        hash: token.hash,
        hint: token.hint,
        name: token.name,
        created_by: token.createdBy ?? null,
        created_at: token.createdAt,
        expires_at: token.expiresAt,
        last_used_at: null,
        revoked_at: null,
        factors: token.factors,
      })
      .execute();
    return true;
  });
}

/** The token with this hash, if it is active at `now`. Records its use, accurate to the minute. */
export async function usePersonalToken(
  db: Db,
  hash: string,
  now: EpochSeconds,
): Promise<PersonalToken | undefined> {
  const row = await selectActive(db, now).selectAll().where('hash', '=', hash).executeTakeFirst();
  if (!row) return undefined;
  if (row.last_used_at !== null && now - row.last_used_at < lastUsePrecisionSeconds)
    return readToken(row);
  await db
    .updateTable('personal_token')
    .set({ last_used_at: now })
    .where('id', '=', row.id)
    .execute();
  return readToken({ ...row, last_used_at: now });
}

/** Within a transaction: whether a token is active. It cannot be revoked until the transaction ends. */
export async function lockPersonalToken(tx: Db, id: string, now: EpochSeconds): Promise<boolean> {
  const row = await selectActive(tx, now)
    .select('id')
    .where('id', '=', id)
    .$if(isPostgres(tx), (query) => query.forShare())
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * The ids of the organizations that the owner of a token has left since they created it. The token does not work there any more, even if
 * the owner joins one of them again.
 */
export async function listEndedOrganizations(db: Db, id: string): Promise<ReadonlySet<string>> {
  const rows = await db
    .selectFrom('personal_token_ended')
    .select('organization_id')
    .where('token_id', '=', id)
    .execute();
  return new Set(rows.map((row) => row.organization_id));
}

/** All tokens of a person, newest first. */
export async function listPersonalTokens(db: Db, userId: string): Promise<PersonalToken[]> {
  const rows = await db
    .selectFrom('personal_token')
    .selectAll()
    .where('person_id', '=', userId)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .execute();
  return rows.map(readToken);
}

/** Who created the tokens of a person, by their ids. */
export async function findTokenCreators(
  db: Db,
  userId: string,
): Promise<ReadonlyMap<string, string>> {
  const rows = await db
    .selectFrom('personal_token')
    .select(['id', 'created_by'])
    .where('person_id', '=', userId)
    .execute();
  return new Map(
    rows.flatMap((row) => (row.created_by === null ? [] : [[row.id, row.created_by]])),
  );
}

/** @returns `false` when the person has no such token, or it is already revoked */
export async function revokePersonalToken(
  db: Db,
  userId: string,
  id: string,
  now: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('personal_token')
    .set({ revoked_at: now })
    .where('person_id', '=', userId)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export async function revokePersonalTokens(
  db: Db,
  userId: string,
  now: EpochSeconds,
): Promise<void> {
  await db
    .updateTable('personal_token')
    .set({ revoked_at: now })
    .where('person_id', '=', userId)
    .where('revoked_at', 'is', null)
    .execute();
}

function selectActive(db: Db, now: EpochSeconds) {
  return db
    .selectFrom('personal_token')
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now);
}
