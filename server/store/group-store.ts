import { sql, type Kysely } from 'kysely';

import type { GroupStore } from '#people/group-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Whom somebody put there, which an index counts, and whom the provider alone did. */
const memberCount = sql<number | string>`(
  (select count(*) from group_member m where m.group_id = person_group.id)
  + (select count(distinct i.person_id)
      from group_mapping g
      join provider_group p on p.external_name = g.external_name
      join identity i on i.issuer = p.issuer and i.subject = p.subject
      join membership b on b.person_id = i.person_id and b.organization_id = g.organization_id
      where g.group_id = person_group.id and not exists (select 1 from group_member m
        where m.group_id = g.group_id and m.person_id = i.person_id)))`;

/** Groups in SQL. */
export function groupStore(db: Kysely<Schema>): GroupStore {
  return {
    async add({ id, organizationId, name, createdAt }) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('person_group')
        .values({ id, organization_id: organizationId, name, created_at: createdAt })
        .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },

    async rename(organizationId, groupId, name) {
      return inTransaction(db, async (transaction) => {
        const taken = await transaction
          .selectFrom('person_group')
          .select('id')
          .where('organization_id', '=', organizationId)
          .where('name', '=', name)
          .where('id', '<>', groupId)
          .executeTakeFirst();
        if (taken) return false;
        const { numUpdatedRows } = await transaction
          .updateTable('person_group')
          .set({ name })
          .where('organization_id', '=', organizationId)
          .where('id', '=', groupId)
          .executeTakeFirst();
        return numUpdatedRows === 1n;
      });
    },

    async remove(organizationId, groupId) {
      return inTransaction(db, async (transaction) => {
        const opened = await transaction
          .selectFrom('server_group')
          .innerJoin('person_group', 'person_group.id', 'server_group.group_id')
          .select('server_id')
          .where('group_id', '=', groupId)
          .where('person_group.organization_id', '=', organizationId)
          .executeTakeFirst();
        if (opened) return 'in-use';
        const { numDeletedRows } = await transaction
          .deleteFrom('person_group')
          .where('organization_id', '=', organizationId)
          .where('id', '=', groupId)
          .executeTakeFirst();
        return numDeletedRows === 1n ? 'done' : 'unknown';
      });
    },

    async list(organizationId) {
      const groups = await db
        .selectFrom('person_group')
        .selectAll()
        .select(memberCount.as('member_count'))
        .where('organization_id', '=', organizationId)
        .orderBy('name')
        .execute();
      const opened = await db
        .selectFrom('server_group')
        .innerJoin('mcp_server', 'mcp_server.id', 'server_group.server_id')
        .select(['server_group.group_id', 'mcp_server.name'])
        .where('mcp_server.organization_id', '=', organizationId)
        .orderBy('mcp_server.name')
        .execute();
      return groups.map((row) => ({
        id: row.id,
        organizationId,
        name: row.name,
        createdAt: row.created_at,
        memberCount: Number(row.member_count),
        servers: opened.filter(({ group_id: id }) => id === row.id).map(({ name }) => name),
      }));
    },
  };
}
