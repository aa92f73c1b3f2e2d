import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Page, PageQuery } from '#model/page';
import { preparedQuery } from './prepared-query.ts';
import type { Schema } from './schema.ts';
import { containsText, countRows } from './columns.ts';
import type { Db } from './transaction.ts';

export interface Organization {
  readonly id: string;
  /** A unique slug. It never changes, because the URLs of endpoints and the audit log contain it. */
  readonly name: string;
  /** The display name. Default: `name`. */
  readonly title?: string;
  readonly createdAt: EpochSeconds;
}

export interface OrganizationQuery extends PageQuery<'name'> {
  /** Selects only these. Default: all. */
  readonly names?: readonly string[] | undefined;
}

/** @returns `false` when the name is taken */
export async function insertOrganization(
  db: Db,
  { id, name, title, createdAt }: Organization,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('organization')
    .values({ id, name, title: title ?? '', created_at: createdAt, disabled_at: null })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

const byName = preparedQuery((db, name: string) =>
  db
    .selectFrom('organization')
    .select(['id', 'name', 'title', 'created_at'])
    .where('name', '=', name),
);

export async function findOrganization(db: Db, name: string): Promise<Organization | undefined> {
  const [row] = await byName(db, name);
  return row && readOrganization(row);
}

export async function findOrganizationName(db: Db, id: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('organization')
    .select('name')
    .where('id', '=', id)
    .executeTakeFirst();
  return row?.name;
}

/** Whether the person owns all organizations, including disabled ones, and thus administers the installation. */
export async function ownsEveryOrganization(db: Db, personId: string): Promise<boolean> {
  const rows = await db
    .selectFrom('organization')
    .leftJoin('membership', (join) =>
      join
        .onRef('membership.organization_id', '=', 'organization.id')
        .on('membership.person_id', '=', personId)
        .on('membership.role', '=', 'owner'),
    )
    .select('membership.person_id')
    .orderBy('membership.person_id', (order) => order.asc().nullsFirst())
    .limit(1)
    .execute();
  return rows.length > 0 && rows[0]?.person_id === personId;
}

/** Lists organizations that are not disabled. */
export async function listOrganizations(
  db: Db,
  { names, text, descending, limit, offset }: OrganizationQuery,
): Promise<Page<Organization>> {
  if (names?.length === 0) return { items: [], total: 0 };
  const all = db
    .selectFrom('organization')
    .where('disabled_at', 'is', null)
    .$if(names !== undefined, (query) => query.where('name', 'in', names ?? []))
    .$if(text !== undefined, (query) =>
      query.where((where) =>
        where.or([
          containsText(where.ref('name'), text ?? ''),
          containsText(where.ref('title'), text ?? ''),
        ]),
      ),
    );
  const rows = await all
    .select(['id', 'name', 'title', 'created_at'])
    .orderBy('name', descending ? 'desc' : 'asc')
    .limit(limit)
    .offset(offset)
    .execute();
  const total = await countRows(all);
  return { items: rows.map(readOrganization), total };
}

export async function setOrganizationTitle(db: Db, id: string, title: string): Promise<void> {
  await db.updateTable('organization').set({ title }).where('id', '=', id).execute();
}

function readOrganization(
  row: Pick<Selectable<Schema['organization']>, 'id' | 'name' | 'title' | 'created_at'>,
): Organization {
  const { id, name, title } = row;
  return { id, name, ...(title !== '' && { title }), createdAt: row.created_at };
}
