import type { EpochSeconds } from '#model/clock';
import { lockGroups } from './groups.ts';
import type { JoiningRole } from './identity-providers.ts';
import { insertPerson, lockMembers, type User } from './people.ts';
import { isDeactivated, linkProvisioned } from './provisioned-people.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

/** An account at a provider, with which a member signs in to the provider's organization. */
export interface MemberIdentity {
  readonly providerId: string;
  readonly subject: string;
}

/** The member to whom this account at a provider is linked. */
export async function findLinkedMember(
  db: Db,
  { providerId, subject }: MemberIdentity,
): Promise<string | undefined> {
  const row = await db
    .selectFrom('member_identity')
    .select('person_id')
    .where('provider_id', '=', providerId)
    .where('subject', '=', subject)
    .executeTakeFirst();
  return row?.person_id;
}

/** The linked members of a provider, ordered by e-mail address: at most `limit`. */
export async function listLinkedMembers(db: Db, providerId: string, limit: number) {
  const rows = await db
    .selectFrom('member_identity')
    .innerJoin('person', 'person.id', 'member_identity.person_id')
    .selectAll('member_identity')
    .select('person.email as own_email')
    .where('provider_id', '=', providerId)
    .orderBy('person.email_key')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    providerId,
    subject: row.subject,
    userId: row.person_id,
    /** The address of the person at Latchkey, not at the provider. */
    email: row.own_email,
    linkedAt: row.created_at,
    /** When the account last signed in. */
    usedAt: row.used_at,
  }));
}

/** How many members have a linked account, by provider. */
export async function countLinkedMembers(
  db: Db,
  organizationId: string,
): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom('member_identity')
    .select(({ fn }) => ['provider_id', fn.countAll().as('members')])
    .where('organization_id', '=', organizationId)
    .groupBy('provider_id')
    .execute();
  return new Map(rows.map((row) => [row.provider_id, Number(row.members)]));
}

/**
 * Links an account at a provider to a member of the provider's organization.
 *
 * @returns `taken` when the account is linked, or another account of this provider is linked to the person: an address that was given
 * to a new employee must not open the account of its previous holder. `stranger` when the person is not a member
 */
export async function linkMember(
  db: Db,
  { providerId, subject }: MemberIdentity,
  member: { readonly organizationId: string; readonly userId: string },
  at: EpochSeconds,
): Promise<'done' | 'taken' | 'stranger'> {
  const { organizationId, userId } = member;
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    const membership = await tx
      .selectFrom('membership')
      .select('person_id')
      .where('organization_id', '=', organizationId)
      .where('person_id', '=', userId)
      .executeTakeFirst();
    if (!membership) return 'stranger';
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('member_identity')
      .values({
        provider_id: providerId,
        subject,
        organization_id: organizationId,
        person_id: userId,
        created_at: at,
        used_at: at,
      })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    return numInsertedOrUpdatedRows === 1n ? 'done' : 'taken';
  });
}

/**
 * Removes the link of a member, and ends the sessions that the provider opened for them. A trigger ends the grants that it vouched for.
 *
 * @returns `false` when there is none
 */
export async function unlinkMember(
  db: Db,
  organizationId: string,
  providerId: string,
  userId: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { numDeletedRows } = await tx
      .deleteFrom('member_identity')
      .where('organization_id', '=', organizationId)
      .where('provider_id', '=', providerId)
      .where('person_id', '=', userId)
      .executeTakeFirst();
    await tx
      .deleteFrom('browser_session')
      .where('provider_id', '=', providerId)
      .where('person_id', '=', userId)
      .execute();
    return numDeletedRows === 1n;
  });
}

/**
 * Creates a person with a membership and a linked account, and adds the person to the given groups that still exist.
 *
 * @returns `taken` when another person has the address, `deactivated` when a directory deactivated the person
 */
export async function insertJoiningMember(
  db: Db,
  { providerId, subject }: MemberIdentity,
  { id, email, createdAt }: User,
  place: {
    readonly organizationId: string;
    readonly role: JoiningRole;
    readonly groups: readonly string[];
  },
): Promise<'done' | 'taken' | 'deactivated'> {
  const { organizationId, role, groups } = place;
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    await lockGroups(tx, organizationId);
    if (await isDeactivated(tx, organizationId, { id, email })) return 'deactivated';
    if (!(await insertPerson(tx, { id, email, createdAt }))) return 'taken';
    await tx
      .insertInto('membership')
      .values({ person_id: id, organization_id: organizationId, role, source: 'sso' })
      .execute();
    await linkProvisioned(tx, organizationId, { id, email });
    await tx
      .insertInto('member_identity')
      .values({
        provider_id: providerId,
        subject,
        organization_id: organizationId,
        person_id: id,
        created_at: createdAt,
        used_at: createdAt,
      })
      .execute();
    const existing = await tx
      .selectFrom('person_group')
      .select('id')
      .where('organization_id', '=', organizationId)
      .where('id', 'in', groups.length > 0 ? groups : [''])
      .execute();
    if (existing.length > 0) {
      await tx
        .insertInto('group_member')
        .values(
          existing.map((group) => ({
            group_id: group.id,
            organization_id: organizationId,
            person_id: id,
          })),
        )
        .execute();
    }
    return 'done';
  });
}

/**
 * Records a sign-in: its time, and the groups and the address that the provider reported.
 *
 * @returns `false` when the account is not linked
 */
export async function noteMemberSignIn(
  db: Db,
  { providerId, subject }: MemberIdentity,
  { at, email, groups }: { at: EpochSeconds; email: string | undefined; groups: readonly string[] },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `member identity ${providerId} ${subject}`);
    const { numUpdatedRows } = await tx
      .updateTable('member_identity')
      .set({ used_at: at, email: email ?? null })
      .where('provider_id', '=', providerId)
      .where('subject', '=', subject)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    await tx
      .deleteFrom('member_identity_group')
      .where('provider_id', '=', providerId)
      .where('subject', '=', subject)
      .execute();
    const names = [...new Set(groups)];
    if (names.length === 0) return true;
    await tx
      .insertInto('member_identity_group')
      .values(names.map((name) => ({ provider_id: providerId, subject, external_name: name })))
      .execute();
    return true;
  });
}
