import type { Kysely } from 'kysely';

import type { OrganizationDirectory } from '#organizations/organization-directory';
import { readOrganization } from './organization-store.ts';
import type { Schema } from './schema.ts';
import { holdsText } from './search-text.ts';

/** Organizations, as their administrators see them, in SQL. */
export function organizationDirectory(db: Kysely<Schema>): OrganizationDirectory {
  return {
    async page({ names, text, descending, limit, offset }) {
      if (names?.length === 0) return { items: [], total: 0 };
      const all = db
        .selectFrom('organization')
        .where('disabled_at', 'is', null)
        .$if(names !== undefined, (query) => query.where('name', 'in', names ?? []))
        .$if(text !== undefined, (query) =>
          query.where((where) =>
            where.or([
              holdsText(where.ref('name'), text ?? ''),
              holdsText(where.ref('title'), text ?? ''),
            ]),
          ),
        );
      const rows = await all
        .select(['id', 'name', 'title', 'created_at'])
        .orderBy('name', descending ? 'desc' : 'asc')
        .limit(limit)
        .offset(offset)
        .execute();
      const { total } = await all
        .select(({ fn }) => fn.countAll<number | string>().as('total'))
        .executeTakeFirstOrThrow();
      return { items: rows.map(readOrganization), total: Number(total) };
    },

    async entitle(id, title) {
      await db.updateTable('organization').set({ title }).where('id', '=', id).execute();
    },
  };
}
