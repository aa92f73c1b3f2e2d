import type { EpochSeconds } from '#model/clock';
import {
  advisoryLock,
  synced,
  syncedTransaction,
  transaction,
  writeNow,
  type Db,
} from './transaction.ts';

// Values that work once: links, challenges that a browser answers, and assertions. Only the SHA-256 of the value is stored.

/** What a link can be used for, once: `set-up` creates the first owner, `reset` sets a new password. */
export type LinkPurpose =
  | { readonly type: 'set-up' }
  | { readonly type: 'reset'; readonly userId: string };

/** Adds a link. Earlier links for the same purpose are deleted. */
export async function insertLink(
  db: Db,
  tokenHash: string,
  purpose: LinkPurpose,
  expiresAt: EpochSeconds,
): Promise<void> {
  const personId = purpose.type === 'reset' ? purpose.userId : null;
  await transaction(db, async (tx) => {
    await advisoryLock(tx, `link ${purpose.type} ${personId ?? ''}`);
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

/**
 * Adds the link that creates the first owner, unless there is one that may be handed out again. Returns when the valid link expires.
 *
 * @param hashOf the hash of the link that expires at this time
 * @param isLongEnough whether a link that expires at this time may be handed out again
 * @param expiresAt of a new link
 */
export async function insertSetUpLink(
  db: Db,
  {
    hashOf,
    isLongEnough,
    expiresAt,
  }: {
    readonly hashOf: (expiresAt: EpochSeconds) => string;
    readonly isLongEnough: (expiresAt: EpochSeconds) => boolean;
    readonly expiresAt: EpochSeconds;
  },
): Promise<EpochSeconds> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, 'link set-up ');
    const known = await tx
      .selectFrom('one_time_link')
      .select(['token_hash', 'expires_at'])
      .where('purpose', '=', 'set-up')
      .executeTakeFirst();
    const isKept = known && isLongEnough(known.expires_at);
    if (isKept && known.token_hash === hashOf(known.expires_at)) return known.expires_at;
    await insertLink(tx, hashOf(expiresAt), { type: 'set-up' }, expiresAt);
    return expiresAt;
  });
}

/** The purpose of a link that is neither used nor expired. The link stays valid. */
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

/** Deletes a link and returns its purpose; `undefined` for all but the first caller. */
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
 * Records that a challenge was answered, so that it cannot be answered twice. The record is deleted after `expiresAt`,
 * when the challenge is refused because of its age.
 *
 * @returns `true` only for the first answer
 */
export async function markChallengeSpent(
  db: Db,
  challengeHash: string,
  expiresAt: EpochSeconds,
  now: EpochSeconds,
): Promise<boolean> {
  const [isFirst = false] = await markChallengesSpent(
    db,
    [{ hash: challengeHash, expiresAt }],
    now,
  );
  return isFirst;
}

interface Challenge {
  readonly hash: string;
  readonly expiresAt: EpochSeconds;
}

/** Like `markChallengeSpent`, for several challenges in one transaction. Of equal challenges, only one is the first. */
export async function markChallengesSpent(
  db: Db,
  challenges: readonly Challenge[],
  now: EpochSeconds,
): Promise<boolean[]> {
  return transaction(db, async (tx) => {
    await tx.deleteFrom('spent_challenge').where('expires_at', '<=', now).execute();
    const rows = await tx
      .insertInto('spent_challenge')
      // Always in the same order: transactions that insert the same rows in different orders can deadlock.
      .values(
        challenges
          .map(({ hash, expiresAt }) => ({ hash, expires_at: expiresAt }))
          .toSorted((one, other) => (one.hash < other.hash ? -1 : 1)),
      )
      .onConflict((conflict) => conflict.column('hash').doNothing())
      .returning('hash')
      .execute();
    return areFirst(challenges, rows);
  });
}

/** Like `markChallengesSpent`, in a transaction of its own. Resolves when it is on disk, without blocking the process. */
export async function markChallengesSpentMeanwhile(
  db: Db,
  challenges: readonly Challenge[],
  now: EpochSeconds,
): Promise<boolean[]> {
  const given = challenges.map(({ hash, expiresAt }) => [hash, expiresAt]);
  const [, inserted] =
    writeNow(db, [
      [`delete from spent_challenge where expires_at <= ?`, now],
      [
        `insert into spent_challenge (hash, expires_at) select value ->> 0, value ->> 1 from json_each(?)
         where true on conflict (hash) do nothing returning hash`,
        JSON.stringify(given),
      ],
    ]) ?? [];
  if (!inserted) return syncedTransaction(db, (tx) => markChallengesSpent(tx, challenges, now));
  await synced(db);
  return areFirst(challenges, inserted);
}

/** Tells for each challenge whether its hash was inserted; of equal challenges, only for the first. */
function areFirst(challenges: readonly Challenge[], inserted: readonly unknown[]): boolean[] {
  const hashes = new Set(inserted.map((row) => String(Object(row).hash)));
  return challenges.map(({ hash }) => hashes.delete(hash));
}

/** How many sessions and links were ended. */
export interface EndedCounts {
  readonly sessions: number;
  /** One-time links and invitations. */
  readonly links: number;
}

/**
 * Deletes everything that works once or in one browser: sessions, one-time links, invitations, authorization requests and
 * codes. For a restored database, which does not know which of them were used or ended since the backup.
 */
export async function endSessionsAndLinks(db: Db): Promise<EndedCounts> {
  return transaction(db, async (tx) => {
    const end = async (
      table:
        | 'authorization_code'
        | 'authorization_request'
        | 'browser_session'
        | 'invitation'
        | 'one_time_link'
        | 'provider_check',
    ) => Number((await tx.deleteFrom(table).executeTakeFirst()).numDeletedRows);
    await end('authorization_code');
    await tx.deleteFrom('grant_bundle').where('redeemed_at', 'is', null).execute();
    await end('authorization_request');
    // The provider may have replaced these refresh tokens since the backup, and would take their use for theft.
    await end('provider_check');
    const sessions = await end('browser_session');
    return { sessions, links: (await end('one_time_link')) + (await end('invitation')) };
  });
}

function readPurpose(row: { purpose: string; person_id: string | null }): LinkPurpose {
  return row.person_id === null ? { type: 'set-up' } : { type: 'reset', userId: row.person_id };
}
