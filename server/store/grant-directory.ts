import type { Kysely } from 'kysely';

import type { GrantDirectory } from '#oauth/grant-directory';
import { namedGrants, readGrant } from './grant-store.ts';
import type { Schema } from './schema.ts';
import { holdsText } from './search-text.ts';

/** What an organization's people granted, in SQL. */
export function grantDirectory(db: Kysely<Schema>): GrantDirectory {
  return {
    async page({ organizationId, userId, grantId, text, now, limit, offset }) {
      const all = namedGrants(db)
        .innerJoin('person', 'person.id', 'oauth_grant.person_id')
        .where('mcp_server.organization_id', '=', organizationId)
        .where('oauth_grant.revoked_at', 'is', null)
        .where('oauth_grant.expires_at', '>', now)
        .where('oauth_client.revoked_at', 'is', null)
        .$if(grantId !== undefined, (query) => query.where('oauth_grant.id', '=', grantId ?? ''))
        .$if(userId !== undefined, (query) => query.where('person.id', '=', userId ?? ''))
        .$if(text !== undefined, (query) =>
          query.where((where) =>
            where.or([
              holdsText(where.ref('oauth_client.name'), text ?? ''),
              holdsText(where.ref('person.email'), text ?? ''),
            ]),
          ),
        );
      const rows = await all
        .select(['person.email', 'oauth_client.server_id as own_server'])
        .orderBy('oauth_grant.created_at', 'desc')
        .orderBy('oauth_grant.id')
        .limit(limit)
        .offset(offset)
        .execute();
      const { total } = await all
        .clearSelect()
        .select(({ fn }) => fn.countAll<number | string>().as('total'))
        .executeTakeFirstOrThrow();
      const items = rows.map((row) =>
        Object.assign(readGrant(row), {
          email: row.email,
          isOpenClient: row.own_server === null,
        }),
      );
      return { items, total: Number(total) };
    },
  };
}
