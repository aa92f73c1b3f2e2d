import type { Kysely } from 'kysely';

import type { ServerGroupStore } from '#people/group-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Which groups may use a server, in SQL. */
export function serverGroupStore(db: Kysely<Schema>): ServerGroupStore {
  return {
    of: (serverId) =>
      db
        .selectFrom('server_group')
        .innerJoin('person_group', 'person_group.id', 'server_group.group_id')
        .select(['person_group.id', 'person_group.name'])
        .where('server_group.server_id', '=', serverId)
        .orderBy('person_group.name')
        .execute(),

    async set(serverId, groupIds) {
      return inTransaction(db, async (transaction) => {
        const wanted = [...new Set(groupIds)];
        const known = await transaction
          .selectFrom('person_group')
          .innerJoin('mcp_server', 'mcp_server.organization_id', 'person_group.organization_id')
          .select('person_group.id')
          .where('mcp_server.id', '=', serverId)
          .execute();
        if (!wanted.every((wantedId) => known.some(({ id }) => id === wantedId))) return false;
        await transaction.deleteFrom('server_group').where('server_id', '=', serverId).execute();
        if (wanted.length === 0) return true;
        const rows = wanted.map((id) => ({ server_id: serverId, group_id: id }));
        await transaction.insertInto('server_group').values(rows).execute();
        return true;
      });
    },

    async mayUse(userId, serverPath) {
      const [organization = '', server = ''] = serverPath.split('/');
      const row = await db
        .selectFrom('mcp_server')
        .innerJoin('organization', 'organization.id', 'mcp_server.organization_id')
        .innerJoin('membership', 'membership.organization_id', 'organization.id')
        .select('mcp_server.id')
        .where('organization.name', '=', organization)
        .where('mcp_server.name', '=', server)
        .where('membership.person_id', '=', userId)
        .where((where) =>
          where.or([
            where.not(
              where.exists(
                where
                  .selectFrom('server_group')
                  .select('server_group.group_id')
                  .whereRef('server_group.server_id', '=', 'mcp_server.id'),
              ),
            ),
            where.exists(
              where
                .selectFrom('server_group')
                .innerJoin('group_person', 'group_person.group_id', 'server_group.group_id')
                .select('group_person.group_id')
                .whereRef('server_group.server_id', '=', 'mcp_server.id')
                .where('group_person.person_id', '=', userId),
            ),
          ]),
        )
        .executeTakeFirst();
      return row !== undefined;
    },
  };
}
