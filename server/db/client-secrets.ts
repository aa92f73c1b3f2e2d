import type { Selectable } from 'kysely';

import { type Awaitable, whenReady } from '#model/awaitable';
import type { EpochSeconds } from '#model/clock';
import type { KeptQuery } from './kept-query.ts';
import { keptQuery } from './prepared-query.ts';
import type { Schema } from './schema.ts';
import { countRows } from './columns.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

/** A secret of an OAuth client without its value, which was displayed once, at creation. */
export type ClientSecret = ReturnType<typeof readSecret>;

function readSecret(row: Selectable<Schema['client_secret']>) {
  return {
    /** `cs_` and 16 characters of its hash; not a secret. */
    id: row.id ?? '',
    clientId: row.client_id,
    /** Prefix and last four characters. */
    hint: row.hint,
    createdAt: row.created_at,
    /** Set on the older secret in a rotation. */
    expiresAt: row.expires_at ?? undefined,
    /** Accurate to the minute. */
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  } as const;
}

type NewClientSecret = Pick<ClientSecret, 'clientId' | 'hint' | 'createdAt'> & {
  /** The actor, as the audit log names it. */
  readonly createdBy?: string | undefined;
  /** SHA-256 of the secret, in hex. */
  readonly hash: string;
};

/** A use is stored only when the last stored one is at least this old. */
const lastUsePrecisionSeconds = 60;

/**
 * Adds a secret. The client's other secrets expire at `othersExpireAt` at the latest; if that is `undefined`, their expiry does not
 * change.
 *
 * @returns its id; `undefined`, without any change, when the client has `most` active secrets, or is revoked or deleted
 */
export async function insertClientSecret(
  db: Db,
  secret: NewClientSecret,
  { most, othersExpireAt }: { most: number; othersExpireAt: EpochSeconds | undefined },
): Promise<string | undefined> {
  const { clientId, createdAt } = secret;
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `client-secrets:${clientId}`);
    const client = await tx
      .selectFrom('oauth_client')
      .select('id')
      .where('id', '=', clientId)
      .where('revoked_at', 'is', null)
      .executeTakeFirst();
    const count = await countRows(
      tx
        .selectFrom('client_secret')
        .where('client_id', '=', clientId)
        .where('revoked_at', 'is', null)
        .where((where) =>
          where.or([where('expires_at', 'is', null), where('expires_at', '>', createdAt)]),
        ),
    );
    if (!client || count >= most) return undefined;
    if (othersExpireAt !== undefined) {
      await tx
        .updateTable('client_secret')
        .set({ expires_at: othersExpireAt })
        .where('client_id', '=', clientId)
        .where((where) =>
          where.or([where('expires_at', 'is', null), where('expires_at', '>', othersExpireAt)]),
        )
        .execute();
    }
    return insertSecret(tx, secret);
  });
}

/** Adds a secret unconditionally. @returns its id */
export async function insertSecret(
  db: Db,
  { clientId, hash, hint, createdBy, createdAt }: NewClientSecret,
): Promise<string> {
  const id = `cs_${hash.slice(0, 16)}`;
  await db
    .insertInto('client_secret')
    .values({
      hash,
      id,
      client_id: clientId,
      hint,
      created_by: createdBy ?? null,
      created_at: createdAt,
      expires_at: null,
      last_used_at: null,
      revoked_at: null,
    })
    .execute();
  return id;
}

/** An unrevoked secret of an unrevoked client. It is valid until `expiresAt`. */
export const activeSecret: KeptQuery<
  { readonly clientId: string; readonly expiresAt: number | null; lastUsedAt: number | null },
  Pick<Selectable<Schema['client_secret']>, 'client_id' | 'expires_at' | 'last_used_at'>
> = {
  name: 'secret',
  sql: `select secret.client_id, secret.expires_at, secret.last_used_at
    from client_secret secret
    join oauth_client client on client.id = secret.client_id
    where secret.hash = :hash and secret.revoked_at is null and client.revoked_at is null`,
  parameters: ['hash'],
  read: (row) => ({
    clientId: row.client_id,
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at,
  }),
};

const findActiveSecret = keptQuery(activeSecret);

/** Whether the client has an active secret with this `hash`. Records its use, accurate to the minute. */
export function checkClientSecret(
  db: Db,
  clientId: string,
  hash: string,
  now: EpochSeconds,
): Awaitable<boolean> {
  return whenReady(findActiveSecret(db, { hash }), (secret) => {
    if (secret?.clientId !== clientId) return false;
    if (secret.expiresAt !== null && secret.expiresAt <= now) return false;
    const { lastUsedAt } = secret;
    if (lastUsedAt !== null && now - lastUsedAt < lastUsePrecisionSeconds) return true;
    return recordSecretUse(db, hash, now).then(() => {
      // Recording a use does not change the epoch, so the use of a cached secret would be recorded again at each request.
      secret.lastUsedAt = now;
      return true;
    });
  });
}

async function recordSecretUse(db: Db, hash: string, now: EpochSeconds): Promise<void> {
  await db
    .updateTable('client_secret')
    .set({ last_used_at: now })
    .where('hash', '=', hash)
    .execute();
}

/** All secrets of a client, newest first, including expired and revoked ones. */
export async function listClientSecrets(db: Db, clientId: string): Promise<ClientSecret[]> {
  const rows = await db
    .selectFrom('client_secret')
    .selectAll()
    .where('client_id', '=', clientId)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .execute();
  return rows.map(readSecret);
}

/** Who created the secrets of a client, by their ids. */
export async function findSecretCreators(
  db: Db,
  clientId: string,
): Promise<ReadonlyMap<string, string>> {
  const rows = await db
    .selectFrom('client_secret')
    .select(['id', 'created_by'])
    .where('client_id', '=', clientId)
    .execute();
  return new Map(
    rows.flatMap((row) =>
      row.id === null || row.created_by === null ? [] : [[row.id, row.created_by]],
    ),
  );
}

/** @returns `false` when the client has no such secret, or it is already revoked */
export async function revokeClientSecret(
  db: Db,
  clientId: string,
  id: string,
  now: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('client_secret')
    .set({ revoked_at: now })
    .where('client_id', '=', clientId)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Records that a client assertion was used. @returns `false` when this client already used that `jti`, and it has not expired */
export async function markAssertionUsed(
  db: Db,
  { clientId, jti, expiresAt }: { clientId: string; jti: string; expiresAt: EpochSeconds },
  now: EpochSeconds,
): Promise<boolean> {
  await db.deleteFrom('used_assertion').where('expires_at', '<', now).execute();
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('used_assertion')
    .values({ client_id: clientId, jti, expires_at: expiresAt })
    .onConflict((conflict) => conflict.columns(['client_id', 'jti']).doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}
