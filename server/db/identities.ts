import type { Db } from './transaction.ts';

// Accounts of people at the operator's OpenID provider.

/** The person to whom this account of an upstream OpenID provider is linked. */
export async function findUserIdByIdentity(
  db: Db,
  issuer: string,
  subject: string,
): Promise<string | undefined> {
  const row = await db
    .selectFrom('identity')
    .select('person_id')
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst();
  return row?.person_id;
}

/** Links an account of an upstream OpenID provider. @returns `false` when it is already linked */
export async function linkIdentity(
  db: Db,
  { issuer, subject, userId }: { issuer: string; subject: string; userId: string },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('identity')
    .values({ issuer, subject, person_id: userId })
    .onConflict((conflict) => conflict.columns(['issuer', 'subject']).doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

/** Whether an account of this issuer is linked to the person. */
export async function hasIdentity(db: Db, issuer: string, userId: string): Promise<boolean> {
  const row = await db
    .selectFrom('identity')
    .select('subject')
    .where('issuer', '=', issuer)
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return row !== undefined;
}

/** Unlinks the person's accounts of one issuer, or of all. @returns `false` when there was none */
export async function unlinkIdentities(db: Db, userId: string, issuer?: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('identity')
    .where('person_id', '=', userId)
    .$if(issuer !== undefined, (query) => query.where('issuer', '=', issuer ?? ''))
    .executeTakeFirst();
  return numDeletedRows > 0n;
}
