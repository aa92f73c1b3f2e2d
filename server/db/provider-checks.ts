// The refresh tokens with which Latchkey checks people again at the provider that they signed in at.
import type { EpochSeconds } from '#model/clock';
import { placeKey, type SignInPlace } from './provider-sessions.ts';
import type { Db } from './transaction.ts';

/** A person to check again, and the refresh token as it was when it was read. */
export interface ProviderCheck {
  readonly place: SignInPlace;
  readonly subject: string;
  /** A refresh token, encrypted for `checkPurpose`. */
  readonly sealedToken: string;
  readonly version: number;
  readonly checkedAt: EpochSeconds;
  readonly attempts: number;
  /** Why the last check failed; `undefined` if it passed. */
  readonly failure: string | undefined;
}

type ReadCheck = Pick<ProviderCheck, 'place' | 'subject' | 'version'>;

/** Stores the token of a sign-in, in place of the one before. The account must be linked. */
export async function insertCheck(
  db: Db,
  { place, subject, sealedToken }: Pick<ProviderCheck, 'place' | 'subject' | 'sealedToken'>,
  { now, nextAt }: { readonly now: EpochSeconds; readonly nextAt: EpochSeconds },
): Promise<void> {
  const fresh = {
    sealed_token: sealedToken,
    claimed_until: 0,
    checked_at: now,
    next_at: nextAt,
    attempts: 0,
    failing_since: null,
    failure: null,
  };
  await db
    .insertInto('provider_check')
    .values({
      provider: placeKey(place),
      subject,
      provider_id: place.type === 'organization' ? place.providerId : null,
      issuer: place.type === 'installation' ? place.issuer : null,
      ...fresh,
    })
    .onConflict((conflict) =>
      conflict.columns(['provider', 'subject']).doUpdateSet(({ eb }) => ({
        ...fresh,
        version: eb('provider_check.version', '+', 1),
      })),
    )
    .execute();
}

/**
 * Checks that are due and that no process has claimed: at most `share` for each provider, those that are due longest first, so that a
 * provider with many people does not delay the others. Disabled providers, and those in `except`, are left out.
 */
export async function listDueChecks(
  db: Db,
  {
    now,
    except,
    share,
    limit,
  }: {
    readonly now: EpochSeconds;
    readonly except: readonly string[];
    readonly share: number;
    readonly limit: number;
  },
): Promise<ProviderCheck[]> {
  const due = db
    .selectFrom('provider_check')
    .leftJoin('identity_provider', 'identity_provider.id', 'provider_check.provider_id')
    .leftJoin('organization', 'organization.id', 'identity_provider.organization_id')
    .select(['provider', 'provider_check.subject', 'identity_provider.organization_id'])
    .select(({ fn }) =>
      fn
        .agg<number | string>('row_number')
        .over((over) =>
          over.partitionBy('provider').orderBy('next_at').orderBy('provider_check.subject'),
        )
        .as('turn'),
    )
    .where('next_at', '<=', now)
    .where('claimed_until', '<=', now)
    .where('identity_provider.disabled_at', 'is', null)
    .where('organization.disabled_at', 'is', null)
    .$if(except.length > 0, (query) => query.where('provider', 'not in', except));
  const rows = await db
    .selectFrom(due.as('due'))
    .innerJoin('provider_check', (join) =>
      join
        .onRef('provider_check.provider', '=', 'due.provider')
        .onRef('provider_check.subject', '=', 'due.subject'),
    )
    .selectAll('provider_check')
    .select('due.organization_id')
    .where('due.turn', '<=', share)
    .orderBy('due.turn')
    .orderBy('provider_check.next_at')
    .orderBy('provider_check.provider')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    place:
      row.provider_id === null
        ? { type: 'installation', issuer: row.provider }
        : {
            type: 'organization',
            providerId: row.provider_id,
            organizationId: row.organization_id ?? '',
          },
    subject: row.subject,
    sealedToken: row.sealed_token,
    version: row.version,
    checkedAt: row.checked_at,
    attempts: row.attempts,
    failure: row.failure ?? undefined,
  }));
}

/** Claims a check until `until`. @returns `true` only for one caller in all processes */
export async function claimCheck(
  db: Db,
  check: ReadCheck,
  { now, until }: { readonly now: EpochSeconds; readonly until: EpochSeconds },
): Promise<boolean> {
  const { numUpdatedRows } = await updateVersion(db, check)
    .set({ claimed_until: until })
    .where('claimed_until', '<=', now)
    .where('next_at', '<=', now)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Records that the provider knows the person, and the new token if it issued one. Does nothing if a sign-in stored another token. */
export async function noteCheckPassed(
  db: Db,
  check: ReadCheck,
  {
    sealedToken,
    now,
    nextAt,
  }: {
    readonly sealedToken: string | undefined;
    readonly now: EpochSeconds;
    readonly nextAt: EpochSeconds;
  },
): Promise<void> {
  await updateVersion(db, check)
    .set({
      ...(sealedToken !== undefined && { sealed_token: sealedToken }),
      claimed_until: 0,
      checked_at: now,
      next_at: nextAt,
      attempts: 0,
      failing_since: null,
      failure: null,
    })
    .set(({ eb }) => ({ version: eb('version', '+', 1) }))
    .execute();
}

/** Records a check that the provider did not answer, and when to repeat it. */
export async function noteCheckFailed(
  db: Db,
  check: ReadCheck,
  {
    failure,
    now,
    nextAt,
  }: { readonly failure: string; readonly now: EpochSeconds; readonly nextAt: EpochSeconds },
): Promise<void> {
  await updateVersion(db, check)
    .set(({ eb, fn }) => ({
      claimed_until: 0,
      next_at: nextAt,
      attempts: eb('attempts', '+', 1),
      failing_since: fn.coalesce('failing_since', eb.val(now)),
      failure,
    }))
    .execute();
}

/** Postpones a check that is not needed yet. */
export async function postponeCheck(db: Db, check: ReadCheck, nextAt: EpochSeconds): Promise<void> {
  await updateVersion(db, check).set({ claimed_until: 0, next_at: nextAt }).execute();
}

/** Deletes a token. @returns `false` when a sign-in has stored another one, or the account is not linked any more */
export async function deleteCheck(
  db: Db,
  { place, subject, version }: ReadCheck,
): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('provider_check')
    .where('provider', '=', placeKey(place))
    .where('subject', '=', subject)
    .where('version', '=', version)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** Deletes the tokens of a provider, when it would not accept them any more or they must not be used any more. */
export async function deleteChecks(db: Db, provider: string): Promise<void> {
  await db.deleteFrom('provider_check').where('provider', '=', provider).execute();
}

/** Makes all checks of a provider due, so that changed intervals apply. Checks that are not needed yet are postponed again. */
export async function renewChecks(db: Db, provider: string): Promise<void> {
  await db
    .updateTable('provider_check')
    .set({ next_at: 0 })
    .where('provider', '=', provider)
    .execute();
}

/** How many people of a provider can be checked, and how many of the checks fail. */
export type CheckSummary = Awaited<ReturnType<typeof summarizeChecks>>;

export async function summarizeChecks(db: Db, provider: string) {
  const all = db.selectFrom('provider_check').where('provider', '=', provider);
  const counts = await all
    .select(({ fn }) => [
      fn.countAll<number | string>().as('people'),
      fn.count<number | string>('failing_since').as('failing'),
      fn.min('failing_since').as('since'),
    ])
    .executeTakeFirstOrThrow();
  const first = await all
    .select('failure')
    .where('failing_since', 'is not', null)
    .orderBy('failing_since')
    .orderBy('subject')
    .limit(1)
    .executeTakeFirst();
  return {
    /** How many people can be checked. */
    people: Number(counts.people),
    /** How many of these people the provider did not answer for. */
    failing: Number(counts.failing),
    failingSince: counts.since ?? undefined,
    failure: first?.failure ?? undefined,
  };
}

function updateVersion(db: Db, { place, subject, version }: ReadCheck) {
  return db
    .updateTable('provider_check')
    .where('provider', '=', placeKey(place))
    .where('subject', '=', subject)
    .where('version', '=', version);
}
