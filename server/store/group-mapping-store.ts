import type { Kysely } from 'kysely';

import type { GroupMappingStore } from '#people/group-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** What organizations call the groups of their provider, in SQL. */
export function groupMappingStore(db: Kysely<Schema>): GroupMappingStore {
  return {
    list: (organizationId) =>
      db
        .selectFrom('group_mapping')
        .innerJoin('person_group', 'person_group.id', 'group_mapping.group_id')
        .select([
          'group_mapping.external_name as externalName',
          'person_group.id as groupId',
          'person_group.name as groupName',
        ])
        .where('group_mapping.organization_id', '=', organizationId)
        .orderBy('group_mapping.external_name')
        .orderBy('person_group.name')
        .execute(),

    async add(organizationId, externalName, groupId) {
      return inTransaction(db, async (transaction) => {
        const known = await transaction
          .selectFrom('person_group')
          .select('id')
          .where('id', '=', groupId)
          .where('organization_id', '=', organizationId)
          .executeTakeFirst();
        if (!known) return false;
        const row = { organization_id: organizationId, external_name: externalName };
        await transaction
          .insertInto('group_mapping')
          .values({ ...row, group_id: groupId })
          .onConflict((conflict) => conflict.doNothing())
          .execute();
        return true;
      });
    },

    async remove(organizationId, externalName, groupId) {
      const { numDeletedRows } = await db
        .deleteFrom('group_mapping')
        .where('organization_id', '=', organizationId)
        .where('external_name', '=', externalName)
        .where('group_id', '=', groupId)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },
  };
}
