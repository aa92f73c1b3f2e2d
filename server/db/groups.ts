import { sql } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import {
  type AccessRules,
  type Audience,
  type PrimitiveKind,
  primitiveKinds,
  readAccessRules,
} from '#model/tool-rights';
import { lockMembers } from './people.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

/** People of one organization who may use certain servers of it. */
export interface Group {
  /** `group_` and 16 base62 characters. */
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly createdAt: EpochSeconds;
}

/** How a person became a member of a group: added by hand, mapped from the OpenID provider, or placed by SCIM. */
export type MembershipSource = 'hand' | 'provider' | 'scim';

/**
 * Adds a group that a person creates. A directory adds its groups elsewhere: their names may differ only in capitals.
 *
 * @returns `false` when the organization has a group of that name, in any capitals
 */
export async function insertGroup(
  db: Db,
  { id, organizationId, name, createdAt }: Group,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockGroups(tx, organizationId);
    const groups = await namesOfGroups(tx, organizationId);
    if (groups.some((one) => isSameName(one.name, name))) return false;
    await tx
      .insertInto('person_group')
      .values({ id, organization_id: organizationId, name, created_at: createdAt })
      .execute();
    return true;
  });
}

/** @returns `false` when there is no such group, or another one has the name, in any capitals */
export async function renameGroup(
  db: Db,
  organizationId: string,
  groupId: string,
  name: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockGroups(tx, organizationId);
    const groups = await namesOfGroups(tx, organizationId);
    const now = groups.find(({ id }) => id === groupId)?.name;
    if (now === undefined) return false;
    // A directory may have given another group the same name in other capitals.
    if (now === name) return true;
    if (groups.some((one) => one.id !== groupId && isSameName(one.name, name))) return false;
    await tx.updateTable('person_group').set({ name }).where('id', '=', groupId).execute();
    return true;
  });
}

function namesOfGroups(db: Db, organizationId: string): Promise<{ id: string; name: string }[]> {
  return db
    .selectFrom('person_group')
    .select(['id', 'name'])
    .where('organization_id', '=', organizationId)
    .execute();
}

/** Whether people would mistake two names of groups for each other. Databases compare letters outside ASCII differently. */
export function isSameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** @returns `in-use` while a server, or a tool of one, is restricted to this group: without the group, its members would lose access */
export async function deleteGroup(
  db: Db,
  organizationId: string,
  groupId: string,
): Promise<'done' | 'unknown' | 'in-use'> {
  return transaction(db, async (tx) => {
    await lockGroups(tx, organizationId);
    const server = await tx
      .selectFrom('endpoint_group')
      .innerJoin('person_group', 'person_group.id', 'endpoint_group.group_id')
      .select('endpoint_id')
      .where('group_id', '=', groupId)
      .where('person_group.organization_id', '=', organizationId)
      .executeTakeFirst();
    if (server || (await isInToolRules(tx, organizationId, groupId))) return 'in-use';
    const { numDeletedRows } = await tx
      .deleteFrom('person_group')
      .where('organization_id', '=', organizationId)
      .where('id', '=', groupId)
      .executeTakeFirst();
    return numDeletedRows === 1n ? 'done' : 'unknown';
  });
}

/** Whether the tool rules of any server of the organization name a group. */
export async function isInToolRules(
  db: Db,
  organizationId: string,
  groupId: string,
): Promise<boolean> {
  return (await listRuledByGroup(db, organizationId)).has(groupId);
}

/** The restrictions to groups in the rules of a server, each with the id of the group. No name: everything without a rule of its own. */
function ruledIn({ others, named }: AccessRules) {
  return primitiveKinds.flatMap((kind) => {
    const ofKind: [string | undefined, Audience | undefined][] = [...named[kind]];
    if (kind !== 'template') ofKind.push([undefined, others[kind]]);
    return ofKind.flatMap(([name, who = 'everyone']) =>
      who === 'everyone' ? [] : [...who].map((groupId) => ({ groupId, kind, name })),
    );
  });
}

/** A restriction to a group in the rules of a server. */
export interface Ruled {
  /** The name of the server. */
  readonly server: string;
  readonly kind: PrimitiveKind;
  /** `undefined` for everything of the kind that has no rule of its own. */
  readonly name: string | undefined;
}

/** The restrictions to each group of an organization in the rules of servers, by the id of the group, ordered by server. */
export async function listRuledByGroup(
  db: Db,
  organizationId: string,
): Promise<ReadonlyMap<string, readonly Ruled[]>> {
  const rows = await db
    .selectFrom('target')
    .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
    .select(['endpoint.name as server', 'target.tool_rules'])
    .where('endpoint.organization_id', '=', organizationId)
    .where('target.tool_rules', 'is not', null)
    .orderBy('endpoint.name')
    .execute();
  const found = new Map<string, Ruled[]>();
  for (const { server, tool_rules: rules } of rows) {
    for (const { groupId, ...ruled } of rules === null ? [] : ruledIn(readAccessRules(rules))) {
      found.set(groupId, [...(found.get(groupId) ?? []), { server, ...ruled }]);
    }
  }
  return found;
}

/** The number of members: those added by hand, which an index counts, plus those who are members only in another way. */
const memberCount = sql<number | string>`(
  (select count(*) from group_member m where m.group_id = person_group.id)
  + (select count(distinct p.person_id) from group_person p
      where p.group_id = person_group.id and p.source <> 'hand'
        and not exists (select 1 from group_member m
          where m.group_id = p.group_id and m.person_id = p.person_id)))`;

/** The groups of an organization, ordered by name, each with the number of its members and the names of the servers limited to it. */
export async function listGroups(db: Db, organizationId: string) {
  const groups = await db
    .selectFrom('person_group')
    .selectAll()
    .select(memberCount.as('member_count'))
    .where('organization_id', '=', organizationId)
    .orderBy('name')
    .execute();
  const limited = await db
    .selectFrom('endpoint_group')
    .innerJoin('endpoint', 'endpoint.id', 'endpoint_group.endpoint_id')
    .select(['endpoint_group.group_id', 'endpoint.name'])
    .where('endpoint.organization_id', '=', organizationId)
    .orderBy('endpoint.name')
    .execute();
  return groups.map((row) => ({
    id: row.id,
    organizationId,
    name: row.name,
    createdAt: row.created_at,
    memberCount: Number(row.member_count),
    servers: limited.filter(({ group_id: id }) => id === row.id).map(({ name }) => name),
  }));
}

/**
 * The members of a group, ordered by e-mail address: those added by hand, those mapped from their groups at the OpenID
 * provider as of their latest sign-in with it, and those placed by SCIM. A person who is a member several ways is listed once: as
 * `hand`, otherwise as `provider`.
 */
export async function listGroupMembers(
  db: Db,
  groupId: string,
): Promise<{ userId: string; email: string; source: MembershipSource }[]> {
  const rows = await db
    .selectFrom('group_person')
    .innerJoin('person', 'person.id', 'group_person.person_id')
    .select(['person.id', 'person.email'])
    // 'hand' sorts before 'provider', and that before 'scim'.
    .select(({ fn }) => fn.min('group_person.source').as('source'))
    .where('group_person.group_id', '=', groupId)
    .groupBy(['person.id', 'person.email', 'person.email_key'])
    .orderBy('person.email_key')
    .execute();
  return rows.map(({ id, email, source }) => ({
    userId: id,
    email,
    source: source === 'hand' || source === 'scim' ? source : 'provider',
  }));
}

/** Adds a member by hand. Idempotent. @returns `false` unless group and person belong to the organization */
export async function insertGroupMember(
  db: Db,
  organizationId: string,
  groupId: string,
  userId: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    await lockGroups(tx, organizationId);
    const both = await tx
      .selectFrom('person_group')
      .innerJoin('membership', 'membership.organization_id', 'person_group.organization_id')
      .select('person_group.id')
      .where('person_group.id', '=', groupId)
      .where('person_group.organization_id', '=', organizationId)
      .where('membership.person_id', '=', userId)
      .executeTakeFirst();
    if (!both) return false;
    await tx
      .insertInto('group_member')
      .values({ group_id: groupId, organization_id: organizationId, person_id: userId })
      .onConflict((conflict) => conflict.columns(['group_id', 'person_id']).doNothing())
      .execute();
    return true;
  });
}

/** @returns `false` when the person was not added to the group by hand */
export async function removeGroupMember(
  db: Db,
  organizationId: string,
  groupId: string,
  userId: string,
): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('group_member')
    .where('organization_id', '=', organizationId)
    .where('group_id', '=', groupId)
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** Replaces the groups that the OpenID provider reported for this account. */
export async function setProviderGroups(
  db: Db,
  { issuer, subject }: { issuer: string; subject: string },
  externalNames: readonly string[],
): Promise<void> {
  await transaction(db, async (tx) => {
    await advisoryLock(tx, `provider groups ${issuer} ${subject}`);
    await tx
      .deleteFrom('provider_group')
      .where('issuer', '=', issuer)
      .where('subject', '=', subject)
      .execute();
    const names = [...new Set(externalNames)];
    if (names.length === 0) return;
    await tx
      .insertInto('provider_group')
      .values(names.map((name) => ({ issuer, subject, external_name: name })))
      .execute();
  });
}

/**
 * The mappings of an organization, each from a group of its OpenID provider to a group of its own, ordered by the provider's group name,
 * then by the organization's group name.
 */
export function listGroupMappings(db: Db, organizationId: string) {
  return db
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
    .execute();
}

/** Idempotent. @returns `false` when the group belongs to another organization */
export async function insertGroupMapping(
  db: Db,
  organizationId: string,
  externalName: string,
  groupId: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockGroups(tx, organizationId);
    const known = await tx
      .selectFrom('person_group')
      .select('id')
      .where('id', '=', groupId)
      .where('organization_id', '=', organizationId)
      .executeTakeFirst();
    if (!known) return false;
    const row = { organization_id: organizationId, external_name: externalName };
    await tx
      .insertInto('group_mapping')
      .values({ ...row, group_id: groupId })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    return true;
  });
}

/** People who are members only through this mapping lose their membership. @returns `false` when there is no such mapping */
export async function removeGroupMapping(
  db: Db,
  organizationId: string,
  externalName: string,
  groupId: string,
): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('group_mapping')
    .where('organization_id', '=', organizationId)
    .where('external_name', '=', externalName)
    .where('group_id', '=', groupId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/**
 * Within a transaction: locks the organization's groups and what refers to them. Call `lockMembers` first if both locks
 * are needed, so that two transactions cannot deadlock.
 */
export function lockGroups(tx: Db, organizationId: string): Promise<void> {
  return advisoryLock(tx, `groups ${organizationId}`);
}
