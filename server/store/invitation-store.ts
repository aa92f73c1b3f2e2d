import { sql, type Kysely, type Selectable } from 'kysely';

import { emailKey } from '#people/email';
import type { Invitation, InvitationStore, Invitee } from '#people/invitation-store';
import { isRole } from '#people/role';
import { inTransaction } from './in-transaction.ts';
import { readStrings } from './json-column.ts';
import type { Schema } from './schema.ts';

/**
 * Whether who made it may make it still: a link must not bring back somebody who was removed, or a role
 * that was taken away.
 */
const standsBehind = sql<boolean>`(
  invitation.created_by = 'operator' or exists (
    select 1 from membership maker
    where maker.organization_id = invitation.organization_id
      and invitation.created_by = 'user:' || maker.person_id
      and (maker.role = 'owner' or (maker.role = 'admin' and invitation.role <> 'owner'))))`;

/** Invitations in SQL; one that was taken or revoked is gone. */
export function invitationStore(db: Kysely<Schema>): InvitationStore {
  const live = (source: Kysely<Schema>, now: number) =>
    source
      .selectFrom('invitation')
      .innerJoin('organization', 'organization.id', 'invitation.organization_id')
      .selectAll('invitation')
      .select('organization.name as organization')
      .where('organization.disabled_at', 'is', null)
      .where(standsBehind)
      .where('invitation.expires_at', '>', now);

  return {
    async add(invitation) {
      await db.deleteFrom('invitation').where('expires_at', '<=', invitation.createdAt).execute();
      await db
        .insertInto('invitation')
        .values({
          id: invitation.id,
          token_hash: invitation.tokenHash,
          organization_id: invitation.organizationId,
          role: invitation.role,
          group_ids: JSON.stringify(invitation.groupIds),
          note: invitation.note,
          created_by: invitation.createdBy,
          created_at: invitation.createdAt,
          expires_at: invitation.expiresAt,
        })
        .execute();
    },

    async peek(tokenHash, now) {
      const row = await live(db, now).where('token_hash', '=', tokenHash).executeTakeFirst();
      return row && readInvitation(row);
    },

    async take(tokenHash, invitee, now) {
      return inTransaction(db, async (transaction) => {
        const row = await live(transaction, now)
          .where('token_hash', '=', tokenHash)
          .executeTakeFirst();
        if (!row) return 'over';
        const { organization_id: organizationId, role } = row;
        const { id: userId } = invitee;
        if (invitee.email !== undefined && !(await addPerson(transaction, invitee))) {
          return 'address-taken';
        }
        const { numInsertedOrUpdatedRows } = await transaction
          .insertInto('membership')
          .values({ person_id: userId, organization_id: organizationId, role })
          .onConflict((conflict) => conflict.columns(['person_id', 'organization_id']).doNothing())
          .executeTakeFirst();
        if (numInsertedOrUpdatedRows !== 1n) return 'member-already';
        const { numDeletedRows } = await transaction
          .deleteFrom('invitation')
          .where('id', '=', row.id)
          .executeTakeFirst();
        if (numDeletedRows !== 1n) throw new Error('an invitation was taken twice');
        const wanted = readStrings(row.group_ids);
        const groups = await transaction
          .selectFrom('person_group')
          .select('id')
          .where('organization_id', '=', organizationId)
          .where('id', 'in', wanted.length > 0 ? wanted : [''])
          .execute();
        for (const { id } of groups) {
          await transaction
            .insertInto('group_member')
            .values({ group_id: id, organization_id: organizationId, person_id: userId })
            .execute();
        }
        return 'done';
      });
    },

    async list(organizationId, now) {
      const rows = await live(db, now)
        .where('invitation.organization_id', '=', organizationId)
        .orderBy('invitation.created_at', 'desc')
        .orderBy('invitation.id')
        .execute();
      return rows.map(readInvitation);
    },

    async revoke(organizationId, id) {
      const { numDeletedRows } = await db
        .deleteFrom('invitation')
        .where('organization_id', '=', organizationId)
        .where('id', '=', id)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },
  };
}

/** `false` when somebody has the address; then nothing was written. */
async function addPerson(
  transaction: Kysely<Schema>,
  { id, email, createdAt, passwordHash, identity }: Exclude<Invitee, { email?: undefined }>,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await transaction
    .insertInto('person')
    .values({ id, email, email_key: emailKey(email), created_at: createdAt })
    .onConflict((conflict) => conflict.column('email_key').doNothing())
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows !== 1n) return false;
  if (passwordHash !== undefined) {
    const row = { person_id: id, hash: passwordHash };
    await transaction.insertInto('password').values(row).execute();
  }
  if (identity) {
    const row = { ...identity, person_id: id };
    await transaction.insertInto('identity').values(row).execute();
  }
  return true;
}

function readInvitation(
  row: Selectable<Schema['invitation']> & { organization: string },
): Invitation {
  if (!isRole(row.role)) throw new TypeError(`the role ${row.role} is unknown`);
  return {
    id: row.id,
    organizationId: row.organization_id,
    organization: row.organization,
    role: row.role,
    groupIds: readStrings(row.group_ids),
    note: row.note,
    createdBy: row.created_by,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}
