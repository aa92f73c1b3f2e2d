// The sessions that identity providers opened, and the logouts that providers announce.
import type { EpochSeconds } from '#model/clock';
import { identityAssertionLifeSeconds, sessionIdleSeconds } from '#model/lifetimes';
import { findLinkedMember } from './member-identities.ts';
import { findUserIdByIdentity } from './identities.ts';
import { advisoryLock, isPostgres, type Db } from './transaction.ts';

/** The provider that someone signed in at: one of an organization, or that of the installation. */
export type SignInPlace =
  | {
      readonly type: 'organization';
      readonly providerId: string;
      readonly organizationId: string;
    }
  | { readonly type: 'installation'; readonly issuer: string };

/** The name of a place in the tables of this file and of `provider-checks.ts`. */
export function placeKey(place: SignInPlace): string {
  return place.type === 'organization' ? place.providerId : place.issuer;
}

/** The sign-in at a provider that a new session comes from. */
export interface ProviderSignIn {
  readonly place: SignInPlace;
  readonly subject: string;
  /** The session at the provider. */
  readonly providerSession?: string | undefined;
  /** When the provider issued the ID token, by its own clock. */
  readonly issuedAt: EpochSeconds;
}

/** A logout that a provider announced. It names a session there, a person, or a session and its person. */
export interface ProviderLogout {
  readonly tokenId: string;
  readonly subject?: string | undefined;
  readonly providerSession?: string | undefined;
  readonly issuedAt: EpochSeconds;
  readonly expiresAt: EpochSeconds;
}

/** How far the clock of a provider may differ from ours, in both directions. */
const skewSeconds = 120;
/** The least time that a logout is remembered, so that neither a sign-in in progress nor an assertion outlives its record. */
const leastMemorySeconds = identityAssertionLifeSeconds + skewSeconds;

/**
 * Within a transaction: records a logout. Until the transaction ends, no session of the provider begins, and none of its assertions counts.
 *
 * @returns `false` if the token was recorded before
 */
export async function insertLogout(
  tx: Db,
  place: SignInPlace,
  { tokenId, subject, providerSession, issuedAt, expiresAt }: ProviderLogout,
  now: EpochSeconds,
): Promise<boolean> {
  await lockPlace(tx, place);
  await tx.deleteFrom('provider_logout').where('expires_at', '<=', now).execute();
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('provider_logout')
    .values({
      provider: placeKey(place),
      token_id: tokenId,
      subject: subject ?? null,
      provider_session: providerSession ?? null,
      issued_at: issuedAt,
      expires_at: Math.max(expiresAt, now + leastMemorySeconds),
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

/** The person to whom an account at a provider is linked. */
export async function findPersonAt(
  db: Db,
  place: SignInPlace,
  subject: string,
): Promise<string | undefined> {
  return place.type === 'organization'
    ? findLinkedMember(db, { providerId: place.providerId, subject })
    : findUserIdByIdentity(db, place.issuer, subject);
}

/**
 * Within a transaction: whether a sign-in may still become a session of `userId`. The account must be linked, the provider enabled, and
 * neither the session nor the person logged out there since. None of that can change until the transaction ends.
 */
export async function isSignInOpen(
  tx: Db,
  userId: string,
  { place, subject, providerSession, issuedAt }: ProviderSignIn,
): Promise<boolean> {
  await lockPlace(tx, place);
  if (!(await isLinked(tx, userId, place, subject))) return false;
  const logouts = await tx
    .selectFrom('provider_logout')
    .select(['subject', 'provider_session', 'issued_at'])
    .where('provider', '=', placeKey(place))
    .where((where) =>
      where.or([
        where('subject', '=', subject),
        ...(providerSession === undefined ? [] : [where('provider_session', '=', providerSession)]),
      ]),
    )
    .execute();
  return !logouts.some((logout) =>
    logout.provider_session === null
      ? logout.issued_at >= issuedAt
      : logout.provider_session === providerSession,
  );
}

/**
 * Within a transaction: whether a provider of an organization announced, or a check found, that a person was logged out at or after
 * `issuedAt`, by the provider's clock. No logout is recorded until the transaction ends. Logouts from a single session at the provider do
 * not count, because they leave applications their access.
 */
export async function isLoggedOutSince(
  tx: Db,
  { providerId, subject }: { readonly providerId: string; readonly subject: string },
  issuedAt: EpochSeconds,
): Promise<boolean> {
  await advisoryLock(tx, lockName(providerId), { isShared: true });
  const row = await tx
    .selectFrom('provider_logout')
    .select('token_id')
    .where('provider', '=', providerId)
    .where('subject', '=', subject)
    .where('provider_session', 'is', null)
    .where('issued_at', '>=', issuedAt)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

async function isLinked(
  tx: Db,
  userId: string,
  place: SignInPlace,
  subject: string,
): Promise<boolean> {
  if (place.type === 'installation') {
    const row = await tx
      .selectFrom('identity')
      .select('person_id')
      .where('issuer', '=', place.issuer)
      .where('subject', '=', subject)
      .$if(isPostgres(tx), (query) => query.forShare())
      .executeTakeFirst();
    return row?.person_id === userId;
  }
  // A transaction that unlinks a member or disables a provider waits for these locks, and then ends the session.
  const row = await tx
    .selectFrom('member_identity')
    .innerJoin('identity_provider', 'identity_provider.id', 'member_identity.provider_id')
    .select('member_identity.person_id')
    .where('member_identity.provider_id', '=', place.providerId)
    .where('member_identity.subject', '=', subject)
    .where('identity_provider.disabled_at', 'is', null)
    .$if(isPostgres(tx), (query) => query.forShare())
    .executeTakeFirst();
  return row?.person_id === userId;
}

/** Sessions that a provider opened: those of one session there (only of `userId`, if given), or all of a person. */
type SessionsAt =
  | { readonly providerSession: string; readonly userId?: string | undefined }
  | { readonly providerSession?: undefined; readonly userId: string };

/** Ends sessions that a provider opened. @returns the ids of the people who had them */
export async function endSessionsAt(
  db: Db,
  place: SignInPlace,
  { providerSession, userId }: SessionsAt,
): Promise<ReadonlySet<string>> {
  const rows = await db
    .deleteFrom('browser_session')
    .where(columnOf(place), '=', placeKey(place))
    .$if(providerSession !== undefined, (query) =>
      query.where('provider_session', '=', providerSession ?? ''),
    )
    .$if(userId !== undefined, (query) => query.where('person_id', '=', userId ?? ''))
    .returning('person_id')
    .execute();
  return new Set(rows.map((row) => row.person_id));
}

/** Whether a person has a session through a provider. */
export async function hasSessionAt(
  db: Db,
  place: SignInPlace,
  userId: string,
  now: EpochSeconds,
): Promise<boolean> {
  const row = await db
    .selectFrom('browser_session')
    .select('id')
    .where(columnOf(place), '=', placeKey(place))
    .where('person_id', '=', userId)
    .where('expires_at', '>', now)
    .where('used_at', '>', now - sessionIdleSeconds)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Records that a provider of an organization announces logouts. */
export async function noteAnnouncement(
  db: Db,
  providerId: string,
  at: EpochSeconds,
): Promise<void> {
  await db
    .updateTable('identity_provider')
    .set({ announced_at: at })
    .where('id', '=', providerId)
    .execute();
}

const columnOf = ({ type }: SignInPlace) => (type === 'organization' ? 'provider_id' : 'issuer');

const lockName = (provider: string) => `provider sessions ${provider}`;

/** Within a transaction: until it ends, no session of the provider begins, none of its assertions counts, and no logout is recorded. */
export async function lockPlace(tx: Db, place: SignInPlace): Promise<void> {
  await advisoryLock(tx, lockName(placeKey(place)));
}
