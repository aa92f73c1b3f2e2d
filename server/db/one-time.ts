import type { EpochSeconds } from '#clock/clock';
import { alone, transaction, type Db } from './transaction.ts';

// One-time values: links, and challenges that a browser answers. Both are stored by the SHA-256 of their value.

/** What a link may be used for, once: make the first owner, or set a new password. */
export type LinkPurpose =
  | { readonly type: 'set-up' }
  | { readonly type: 'reset'; readonly userId: string };

/** Adds a link, in place of those for the same purpose. */
export async function insertLink(
  db: Db,
  tokenHash: string,
  purpose: LinkPurpose,
  expiresAt: EpochSeconds,
): Promise<void> {
  const personId = purpose.type === 'reset' ? purpose.userId : null;
  await transaction(db, async (tx) => {
    await alone(tx, `link ${purpose.type} ${personId ?? ''}`);
    await tx
      .deleteFrom('one_time_link')
      .where('purpose', '=', purpose.type)
      .where('person_id', 'is not distinct from', personId)
      .execute();
    await tx
      .insertInto('one_time_link')
      .values({
        token_hash: tokenHash,
        purpose: purpose.type,
        person_id: personId,
        expires_at: expiresAt,
      })
      .execute();
  });
}

/** What an unused link is for that has not expired; this uses nothing up. */
export async function findLink(
  db: Db,
  tokenHash: string,
  now: EpochSeconds,
): Promise<LinkPurpose | undefined> {
  const row = await db
    .selectFrom('one_time_link')
    .selectAll()
    .where('token_hash', '=', tokenHash)
    .where('expires_at', '>', now)
    .executeTakeFirst();
  return row && readPurpose(row);
}

/** Uses a link up: `undefined` for everybody but the first. */
export async function takeLink(
  db: Db,
  tokenHash: string,
  now: EpochSeconds,
): Promise<LinkPurpose | undefined> {
  const row = await db
    .deleteFrom('one_time_link')
    .where('token_hash', '=', tokenHash)
    .where('expires_at', '>', now)
    .returningAll()
    .executeTakeFirst();
  return row && readPurpose(row);
}

/**
 * Remembers that a challenge was answered, so that it is not answered twice. Forgotten after `expiresAt`, when it is
 * refused for its age.
 *
 * @returns `true` for the first to answer it
 */
export async function markChallengeSpent(
  db: Db,
  challengeHash: string,
  expiresAt: EpochSeconds,
  now: EpochSeconds,
): Promise<boolean> {
  await db.deleteFrom('spent_challenge').where('expires_at', '<=', now).execute();
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('spent_challenge')
    .values({ hash: challengeHash, expires_at: expiresAt })
    .onConflict((conflict) => conflict.column('hash').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

/** How much was open, and has ended. */
export interface Ended {
  readonly sessions: number;
  /** One-time links and invitations. */
  readonly links: number;
}

/**
 * Ends everything that works once or for one browser: sessions, one-time links, invitations, and what waits for
 * consent or is a code already. An older state of the database knows neither which of them ended nor which
 * were used up since.
 */
export async function endWhatWasOpen(db: Db): Promise<Ended> {
  return transaction(db, async (tx) => {
    const end = async (
      table:
        | 'authorization_code'
        | 'authorization_request'
        | 'browser_session'
        | 'invitation'
        | 'one_time_link',
    ) => Number((await tx.deleteFrom(table).executeTakeFirst()).numDeletedRows);
    await end('authorization_code');
    await end('authorization_request');
    const sessions = await end('browser_session');
    return { sessions, links: (await end('one_time_link')) + (await end('invitation')) };
  });
}

function readPurpose(row: { purpose: string; person_id: string | null }): LinkPurpose {
  return row.person_id === null ? { type: 'set-up' } : { type: 'reset', userId: row.person_id };
}
