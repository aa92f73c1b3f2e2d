import { type Expression, type ExpressionBuilder, sql, type SqlBool } from 'kysely';

import { readContentSettings } from './call-contents.ts';
import { lockGroups } from './groups.ts';
import type { Schema } from './schema.ts';
import { countRows } from './columns.ts';
import { transaction, type Db } from './transaction.ts';
import { partsOf } from '#model/slug';

/** Who may use a server: everyone in the organization, or only the members of some groups. */
export type ServerAccess = NonNullable<Awaited<ReturnType<typeof findServerAccess>>>;

/** A change of who may use a server. `groupIds` is empty for `everyone`. */
export interface AccessChoice {
  readonly access: ServerAccess['access'];
  readonly groupIds: readonly string[];
  /** Keeps its value if omitted. */
  readonly isRequestable?: boolean | undefined;
}

/** Who may use a server, with the groups ordered by name. `undefined` when there is no such server. */
export async function findServerAccess(db: Db, serverId: string) {
  const server = await db
    .selectFrom('endpoint')
    .select(['access', 'is_requestable'])
    .where('id', '=', serverId)
    .executeTakeFirst();
  if (!server) return undefined;
  const groups = await db
    .selectFrom('endpoint_group')
    .innerJoin('person_group', 'person_group.id', 'endpoint_group.group_id')
    .select(['person_group.id', 'person_group.name'])
    .where('endpoint_group.endpoint_id', '=', serverId)
    .orderBy('person_group.name')
    .execute();
  return {
    access: server.access,
    groups,
    /** Whether people without access see its title and description, and may ask for access. */
    isRequestable: server.is_requestable === 1,
  } as const;
}

/**
 * Sets who may use a server. With `groups` and no group, no person may use it.
 *
 * @returns `false` when there is no such server, or one of the groups belongs to another organization
 */
export async function setServerAccess(
  db: Db,
  serverId: string,
  { access, groupIds, isRequestable }: AccessChoice,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const server = await tx
      .selectFrom('endpoint')
      .select('organization_id')
      .where('id', '=', serverId)
      .executeTakeFirst();
    if (!server) return false;
    await lockGroups(tx, server.organization_id);
    if (!(await areGroupsOf(tx, server.organization_id, groupIds))) return false;
    await tx.deleteFrom('endpoint_group').where('endpoint_id', '=', serverId).execute();
    const change = {
      access,
      ...(isRequestable !== undefined && { is_requestable: isRequestable ? 1 : 0 }),
    };
    await tx.updateTable('endpoint').set(change).where('id', '=', serverId).execute();
    const wanted = access === 'everyone' ? [] : [...new Set(groupIds)];
    if (wanted.length === 0) return true;
    const rows = wanted.map((id) => ({ endpoint_id: serverId, group_id: id }));
    await tx.insertInto('endpoint_group').values(rows).execute();
    return true;
  });
}

export async function areGroupsOf(
  db: Db,
  organizationId: string,
  groupIds: readonly string[],
): Promise<boolean> {
  const known = await db
    .selectFrom('person_group')
    .select('id')
    .where('organization_id', '=', organizationId)
    .execute();
  return groupIds.every((wanted) => known.some(({ id }) => id === wanted));
}

/** Some people, and how many there are in all. */
export interface CountedPeople {
  readonly count: number;
  /** The first of them, by e-mail address. */
  readonly people: readonly { readonly id: string; readonly email: string }[];
}

/** The members who would gain access to a server by a change, and those who would lose it. At most `limit` of each are named. */
export async function previewServerAccess(
  db: Db,
  serverId: string,
  choice: AccessChoice,
  limit: number,
): Promise<{ readonly gains: CountedPeople; readonly loses: CountedPeople }> {
  const members = membersByAccess(db, serverId, choice);
  const those = async (may: 'gains' | 'loses'): Promise<CountedPeople> => {
    const rows = await members
      .where('may_now', '=', may === 'loses' ? 1 : 0)
      .where('may_then', '=', may === 'loses' ? 0 : 1)
      .select(['id', 'email', sql<number | string>`count(*) over ()`.as('total')])
      .orderBy('email_key')
      .limit(limit)
      .execute();
    const people = rows.map(({ id, email }) => ({ id, email }));
    return { count: Number(rows[0]?.total ?? 0), people };
  };
  return { gains: await those('gains'), loses: await those('loses') };
}

/** How many members of its organization may use a server after a change. */
export async function countAllowedMembers(
  db: Db,
  serverId: string,
  choice: AccessChoice,
): Promise<number> {
  return countRows(membersByAccess(db, serverId, choice).where('may_then', '=', 1));
}

/** The members of a server's organization, each with whether they may use the server now and after a change. */
function membersByAccess(db: Db, serverId: string, { access, groupIds }: AccessChoice) {
  const inGroups = (groups: ReturnType<typeof sql>) => sql`exists (select 1 from group_person g
    where g.person_id = membership.person_id and g.group_id in (${groups}))`;
  const now = sql`endpoint.access = 'everyone' or ${inGroups(
    sql`select r.group_id from endpoint_group r where r.endpoint_id = endpoint.id`,
  )}`;
  const then =
    access === 'everyone'
      ? sql`1 = 1`
      : groupIds.length === 0
        ? sql`1 = 0`
        : inGroups(sql.join(groupIds));
  const flag = (condition: ReturnType<typeof sql>) =>
    sql<number>`case when ${condition} then 1 else 0 end`;
  return db.selectFrom(
    db
      .selectFrom('endpoint')
      .innerJoin('membership', 'membership.organization_id', 'endpoint.organization_id')
      .innerJoin('person', 'person.id', 'membership.person_id')
      .where('endpoint.id', '=', serverId)
      .select(['person.id', 'person.email', 'person.email_key'])
      .select([flag(now).as('may_now'), flag(then).as('may_then')])
      .as('member'),
  );
}

/** Whether a person is a member of the organization of `{organization}/{server}` and, if groups restrict the server, in one of these. */
export async function mayUseServer(db: Db, userId: string, serverPath: string): Promise<boolean> {
  const { organization, server } = partsOf(serverPath);
  const row = await selectUsable(db, userId)
    .select('endpoint.id')
    .where('organization.name', '=', organization)
    .where('endpoint.name', '=', server)
    .executeTakeFirst();
  return row !== undefined;
}

/** The ids of the given servers that a person may use. */
export async function findUsableServers(
  db: Db,
  userId: string,
  serverIds: readonly string[],
): Promise<ReadonlySet<string>> {
  if (serverIds.length === 0) return new Set();
  const rows = await selectUsable(db, userId)
    .select('endpoint.id')
    .where('endpoint.id', 'in', serverIds)
    .execute();
  return new Set(rows.map(({ id }) => id));
}

/** A server as the people who use it see it. */
export type UsableServer = Awaited<ReturnType<typeof listUsableServers>>[number];

/** At most `limit` enabled servers of an organization that a person may use, by name. */
export async function listUsableServers(
  db: Db,
  userId: string,
  organization: string,
  limit: number,
) {
  const rows = await selectUsable(db, userId)
    .innerJoin('target', 'target.endpoint_id', 'endpoint.id')
    .select(['endpoint.id', 'endpoint.name', 'endpoint.title', 'endpoint.description'])
    .select('target.call_contents')
    .where('organization.name', '=', organization)
    .where('endpoint.disabled_at', 'is', null)
    .orderBy('endpoint.name')
    .limit(limit)
    .execute();
  return rows.map(({ id, name, title, description, call_contents: contents }) => {
    return {
      id,
      name,
      title: title || name,
      description,
      /** The settings for storing the arguments and results of its calls. */
      contents: contents === null ? undefined : readContentSettings(contents),
    } as const;
  });
}

/**
 * At most `limit` servers of an organization that a member may use, by name, each with the groups that give them access; without
 * groups if everyone has access.
 */
export async function listAccessOfPerson(
  db: Db,
  userId: string,
  organization: string,
  limit: number,
) {
  const servers = await selectUsable(db, userId)
    .select(['endpoint.id', 'endpoint.name', 'endpoint.title', 'endpoint.access'])
    .select('endpoint.disabled_at')
    .where('organization.name', '=', organization)
    .orderBy('endpoint.name')
    .limit(limit)
    .execute();
  const restricted = servers.filter(({ access }) => access === 'groups').map(({ id }) => id);
  const reasons =
    restricted.length === 0
      ? []
      : await db
          .selectFrom('endpoint_group')
          .innerJoin('person_group', 'person_group.id', 'endpoint_group.group_id')
          .innerJoin('group_person', 'group_person.group_id', 'endpoint_group.group_id')
          .select(['endpoint_group.endpoint_id', 'person_group.name'])
          .distinct()
          .where('endpoint_group.endpoint_id', 'in', restricted)
          .where('group_person.person_id', '=', userId)
          .orderBy('person_group.name')
          .execute();
  return servers.map(({ id, name, title, disabled_at: disabledAt }) => ({
    name,
    title,
    isDisabled: disabledAt !== null,
    groups: reasons.filter((one) => one.endpoint_id === id).map((one) => one.name),
  }));
}

/** The servers that a person may use in all their organizations. */
function selectUsable(db: Db, userId: string) {
  return db
    .selectFrom('endpoint')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .innerJoin('membership', 'membership.organization_id', 'organization.id')
    .where('membership.person_id', '=', userId)
    .where(noGroupKeepsOut);
}

/** The condition that a membership's person is in a group that may use the server, if the server is restricted to groups. */
export function noGroupKeepsOut(
  where: ExpressionBuilder<Schema, 'endpoint' | 'membership'>,
): Expression<SqlBool> {
  return where.or([
    where('endpoint.access', '=', 'everyone'),
    where.exists(
      where
        .selectFrom('endpoint_group')
        .innerJoin('group_person', 'group_person.group_id', 'endpoint_group.group_id')
        .select('group_person.group_id')
        .whereRef('endpoint_group.endpoint_id', '=', 'endpoint.id')
        .whereRef('group_person.person_id', '=', 'membership.person_id'),
    ),
  ]);
}
