import { type InferResult, sql } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { emailKey } from '#model/email';
import { lockGroups } from './groups.ts';
import { countRows, readStrings } from './columns.ts';
import { findUser, insertPerson, lockMembers, readRole, type User } from './people.ts';
import { isDeactivated, linkProvisioned } from './provisioned-people.ts';
import { transaction, type Db } from './transaction.ts';

/**
 * An invitation to an organization. Until it expires, anyone with one of its links can accept it, once, as long as its author could
 * still create it.
 */
export type Invitation = ReturnType<typeof readInvitation>;

function readInvitation(row: InferResult<ReturnType<typeof selectActive>>[number]) {
  return {
    /** `invitation_` and 16 base62 characters; not a secret. */
    id: row.id,
    organizationId: row.organization_id,
    organization: row.organization,
    /** The title of the organization; empty if it has none. */
    organizationTitle: row.organization_title,
    role: readRole(row.role),
    groupIds: readStrings(row.group_ids),
    /** The address that it is for. Not compared with that of the person who accepts it. */
    email: row.email ?? undefined,
    /** The author's note on whom it is for. */
    note: row.note,
    /** The actor who created it. */
    createdBy: row.created_by,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  } as const;
}

/**
 * The result of accepting an invitation. `invalid`: the link is unknown, used, revoked or expired, or its author lost the right.
 * `deactivated`: the organization's directory deactivated the person, and only it can let them in again.
 */
export type InvitationResult =
  | 'done'
  | 'invalid'
  | 'member-already'
  | 'address-taken'
  | 'deactivated';

/** The person who accepts an invitation: an existing one by id, or a new one. */
export type Invitee =
  | { readonly id: string; readonly email?: undefined }
  | (User & {
      readonly passwordHash?: string | undefined;
      readonly identity?: { readonly issuer: string; readonly subject: string } | undefined;
    });

export type NewInvitation = Omit<Invitation, 'organization' | 'organizationTitle' | 'email'> & {
  readonly email?: string | undefined;
  readonly tokenHash: string;
};

/** How long an expired invitation is listed, so that it can be renewed. */
const expiredForSeconds = 30 * 86_400;
const rowsAStatement = 200;

export async function insertInvitation(db: Db, invitation: NewInvitation): Promise<void> {
  await insertInvitations(db, [invitation], invitation.createdAt);
}

/** Adds invitations, and deletes expired ones that are no longer listed. */
export async function insertInvitations(
  db: Db,
  invitations: readonly NewInvitation[],
  now: EpochSeconds,
): Promise<void> {
  await db
    .deleteFrom('invitation')
    .where('expires_at', '<=', now - expiredForSeconds)
    .execute();
  const rows = invitations.map((invitation) => ({
    id: invitation.id,
    token_hash: invitation.tokenHash,
    organization_id: invitation.organizationId,
    role: invitation.role,
    group_ids: JSON.stringify(invitation.groupIds),
    email: invitation.email ?? null,
    note: invitation.note,
    created_by: invitation.createdBy,
    created_at: invitation.createdAt,
    expires_at: invitation.expiresAt,
  }));
  for (let from = 0; from < rows.length; from += rowsAStatement) {
    const some = rows.slice(from, from + rowsAStatement);
    await db.insertInto('invitation').values(some).execute();
  }
}

/** The ids of the organization's members who have one of the addresses, by address. Addresses are as `emailKey` makes them. */
export async function membersAmong(
  db: Db,
  organizationId: string,
  keys: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (keys.length === 0) return new Map();
  const rows = await db
    .selectFrom('membership')
    .innerJoin('person', 'person.id', 'membership.person_id')
    .select(['person.id', 'person.email_key'])
    .where('membership.organization_id', '=', organizationId)
    .where('person.email_key', 'in', keys)
    .execute();
  return new Map(rows.map(({ id, email_key: key }) => [key, id]));
}

/** The ids of an organization's invitations for an address: the pending ones, and expired ones that are stored and could be renewed. */
export async function findInvitationsTo(
  db: Db,
  organizationId: string,
  email: string,
): Promise<string[]> {
  const rows = await db
    .selectFrom('invitation')
    .select(['id', 'email'])
    .where('organization_id', '=', organizationId)
    .where('email', 'is not', null)
    .orderBy('id')
    .execute();
  const key = emailKey(email);
  return rows.filter((row) => emailKey(row.email ?? '') === key).map(({ id }) => id);
}

/** How many invitations of an organization are stored, pending and expired. */
export async function countInvitations(db: Db, organizationId: string): Promise<number> {
  return countRows(db.selectFrom('invitation').where('organization_id', '=', organizationId));
}

/** The number of earlier links of an invitation that stay valid. */
const mostEarlierLinks = 3;

/**
 * Gives an invitation a new link and a new expiry, and makes this actor its author. Its earlier links stay valid if `keepsLinks`.
 *
 * @returns `false` when the organization has no such invitation
 */
export async function renewInvitation(
  tx: Db,
  organizationId: string,
  id: string,
  renewed: {
    readonly tokenHash: string;
    readonly keepsLinks: boolean;
    readonly createdBy: string;
    readonly createdAt: EpochSeconds;
    readonly expiresAt: EpochSeconds;
  },
): Promise<boolean> {
  const before = await tx
    .selectFrom('invitation')
    .select('token_hash')
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  if (!before) return false;
  if (renewed.keepsLinks) {
    const { token_hash } = before;
    const link = { token_hash, invitation_id: id, created_at: renewed.createdAt };
    await tx.insertInto('invitation_link').values(link).execute();
  }
  const kept = tx
    .selectFrom('invitation_link')
    .select('token_hash')
    .where('invitation_id', '=', id)
    .orderBy('created_at', 'desc')
    .orderBy('token_hash')
    .limit(renewed.keepsLinks ? mostEarlierLinks : 0);
  await tx
    .deleteFrom('invitation_link')
    .where('invitation_id', '=', id)
    .where('token_hash', 'not in', kept)
    .execute();
  await tx
    .updateTable('invitation')
    .set({
      token_hash: renewed.tokenHash,
      created_by: renewed.createdBy,
      created_at: renewed.createdAt,
      expires_at: renewed.expiresAt,
    })
    .where('id', '=', id)
    .execute();
  return true;
}

/** The invitation of an active link. The link stays active. */
export async function findInvitation(
  db: Db,
  tokenHash: string,
  now: EpochSeconds,
): Promise<Invitation | undefined> {
  const row = await selectActive(db)
    .where('invitation.expires_at', '>', now)
    .where((where) =>
      where.or([
        where('invitation.token_hash', '=', tokenHash),
        where(
          'invitation.id',
          'in',
          where
            .selectFrom('invitation_link')
            .select('invitation_id')
            .where('token_hash', '=', tokenHash),
        ),
      ]),
    )
    .executeTakeFirst();
  return row && readInvitation(row);
}

/**
 * Creates the person if they are new, makes them a member with the role and with those of the groups that still
 * exist, and deletes the invitation, all in one transaction. Of concurrent attempts one succeeds. The invitation stays
 * open if the person is already a member.
 */
export async function acceptInvitation(
  db: Db,
  tokenHash: string,
  invitee: Invitee,
  now: EpochSeconds,
): Promise<InvitationResult> {
  return transaction(db, async (tx) => {
    const offered = await findInvitation(tx, tokenHash, now);
    if (!offered) return 'invalid';
    const { organizationId, role } = offered;
    await lockMembers(tx, organizationId);
    await lockGroups(tx, organizationId);
    // While this waited for the locks, the invitation may have been accepted, or its author may have lost the right to create it.
    const invitation = await findInvitation(tx, tokenHash, now);
    if (!invitation) return 'invalid';
    const { id: userId } = invitee;
    const email = invitee.email ?? (await findUser(tx, userId))?.email ?? '';
    if (await isDeactivated(tx, organizationId, { id: userId, email })) return 'deactivated';
    if (invitee.email !== undefined && !(await addPerson(tx, invitee))) return 'address-taken';
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('membership')
      .values({ person_id: userId, organization_id: organizationId, role })
      .onConflict((conflict) => conflict.columns(['person_id', 'organization_id']).doNothing())
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows !== 1n) return 'member-already';
    await linkProvisioned(tx, organizationId, { id: userId, email });
    const { numDeletedRows } = await tx
      .deleteFrom('invitation')
      .where('id', '=', invitation.id)
      .executeTakeFirst();
    if (numDeletedRows !== 1n) throw new Error('an invitation was accepted twice');
    const { groupIds } = invitation;
    const groups = await tx
      .selectFrom('person_group')
      .select('id')
      .where('organization_id', '=', organizationId)
      .where('id', 'in', groupIds.length > 0 ? groupIds : [''])
      .execute();
    for (const { id } of groups) {
      await tx
        .insertInto('group_member')
        .values({ group_id: id, organization_id: organizationId, person_id: userId })
        .execute();
    }
    return 'done';
  });
}

/** The invitations of an organization whose author could still create them, newest first. `all`: also those that expired within 30 days. */
export async function listInvitations(
  db: Db,
  organizationId: string,
  now: EpochSeconds,
  which: 'pending' | 'all' = 'pending',
): Promise<Invitation[]> {
  const after = which === 'pending' ? now : now - expiredForSeconds;
  const rows = await selectActive(db)
    .where('invitation.organization_id', '=', organizationId)
    .where('invitation.expires_at', '>', after)
    .orderBy('invitation.created_at', 'desc')
    .orderBy('invitation.id')
    .execute();
  return rows.map(readInvitation);
}

/** The given groups that the person was added to by hand, which is also how accepting an invitation adds them. */
export async function joinedGroups(
  db: Db,
  groupIds: readonly string[],
  userId: string,
): Promise<string[]> {
  if (groupIds.length === 0) return [];
  const rows = await db
    .selectFrom('group_member')
    .select('group_id')
    .where('group_id', 'in', groupIds)
    .where('person_id', '=', userId)
    .orderBy('group_id')
    .execute();
  return rows.map(({ group_id: id }) => id);
}

/** @returns `false` when the organization has no such invitation */
export async function revokeInvitation(
  db: Db,
  organizationId: string,
  id: string,
): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('invitation')
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/**
 * Whether the author could still create the invitation: a link must not readmit a person who was removed, or grant a role that
 * its author has lost.
 */
export const isAuthorEntitled = sql<boolean>`(
  invitation.created_by = 'operator' or exists (
    select 1 from membership author
    where author.organization_id = invitation.organization_id
      and invitation.created_by = 'user:' || author.person_id
      and (author.role = 'owner' or (author.role = 'admin' and invitation.role <> 'owner'))))`;

function selectActive(db: Db) {
  return db
    .selectFrom('invitation')
    .innerJoin('organization', 'organization.id', 'invitation.organization_id')
    .selectAll('invitation')
    .select(['organization.name as organization', 'organization.title as organization_title'])
    .where('organization.disabled_at', 'is', null)
    .where(isAuthorEntitled);
}

/** @returns `false`, without any change, when the e-mail address is taken */
async function addPerson(
  tx: Db,
  { id, email, createdAt, passwordHash, identity }: Exclude<Invitee, { email?: undefined }>,
): Promise<boolean> {
  if (!(await insertPerson(tx, { id, email, createdAt }))) return false;
  if (passwordHash !== undefined) {
    const row = { person_id: id, hash: passwordHash };
    await tx.insertInto('password').values(row).execute();
  }
  if (identity) {
    const row = { ...identity, person_id: id };
    await tx.insertInto('identity').values(row).execute();
  }
  return true;
}
