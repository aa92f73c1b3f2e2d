import type { Kysely } from 'kysely';

import type { GroupMemberStore } from '#people/group-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Who is in which group, in SQL. */
export function groupMemberStore(db: Kysely<Schema>): GroupMemberStore {
  return {
    async list(groupId) {
      const rows = await db
        .selectFrom('group_person')
        .innerJoin('person', 'person.id', 'group_person.person_id')
        .select(['person.id', 'person.email'])
        // 'hand' sorts before 'provider'.
        .select(({ fn }) => fn.min('group_person.source').as('source'))
        .where('group_person.group_id', '=', groupId)
        .groupBy(['person.id', 'person.email', 'person.email_key'])
        .orderBy('person.email_key')
        .execute();
      return rows.map(({ id, email, source }) => ({
        userId: id,
        email,
        source: source === 'hand' ? 'hand' : 'provider',
      }));
    },

    async add(organizationId, groupId, userId) {
      return inTransaction(db, async (transaction) => {
        const both = await transaction
          .selectFrom('person_group')
          .innerJoin('membership', 'membership.organization_id', 'person_group.organization_id')
          .select('person_group.id')
          .where('person_group.id', '=', groupId)
          .where('person_group.organization_id', '=', organizationId)
          .where('membership.person_id', '=', userId)
          .executeTakeFirst();
        if (!both) return false;
        await transaction
          .insertInto('group_member')
          .values({ group_id: groupId, organization_id: organizationId, person_id: userId })
          .onConflict((conflict) => conflict.columns(['group_id', 'person_id']).doNothing())
          .execute();
        return true;
      });
    },

    async remove(organizationId, groupId, userId) {
      const { numDeletedRows } = await db
        .deleteFrom('group_member')
        .where('organization_id', '=', organizationId)
        .where('group_id', '=', groupId)
        .where('person_id', '=', userId)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },

    async setProvided(issuer, subject, externalNames) {
      await inTransaction(db, async (transaction) => {
        await transaction
          .deleteFrom('provider_group')
          .where('issuer', '=', issuer)
          .where('subject', '=', subject)
          .execute();
        const names = [...new Set(externalNames)];
        if (names.length === 0) return;
        await transaction
          .insertInto('provider_group')
          .values(names.map((name) => ({ issuer, subject, external_name: name })))
          .execute();
      });
    },
  };
}
