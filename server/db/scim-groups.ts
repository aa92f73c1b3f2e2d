import type { InferResult } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { isInToolRules, lockGroups } from './groups.ts';
import { lockMembers } from './people.ts';
import { countRows } from './columns.ts';
import { inParts, transaction, type Db } from './transaction.ts';

/*
 * Groups that a directory manages by SCIM. The name of a group is unique, whether or not the directory manages it. Members that the
 * directory places are stored separately from those that people added by hand and those that sign-ins report, so that no source removes
 * the members of another.
 */

/** A group as the directory of an organization describes it. */
export type ScimGroup = ReturnType<typeof readGroup>;

function readGroup(
  row: InferResult<ReturnType<typeof selectGroups>>[number],
  organizationId: string,
) {
  return {
    /** The id of the group of the organization. */
    id: row.id,
    organizationId,
    displayName: row.name,
    externalId: row.external_id ?? undefined,
    createdAt: row.created_at,
    changedAt: row.changed_at,
  } as const;
}

/** One step of a change of the members that the directory placed. The ids are those of its entries. */
export type MemberStep =
  | { readonly type: 'add' | 'remove' | 'replace'; readonly ids: readonly string[] }
  | { readonly type: 'clear' };

/** A change by a directory. Omitted fields keep their value; null clears `externalId`. */
export interface ScimGroupChange {
  readonly displayName?: string | undefined;
  readonly externalId?: string | null | undefined;
  readonly members: readonly MemberStep[];
}

/** The most groups of one directory, and the most members in all of them together. They bound how much a list or a count reads. */
export const scimGroupLimits = { groups: 10_000, placed: 1_000_000 } as const;

type Limits = { readonly [Limit in keyof typeof scimGroupLimits]: number };

/**
 * `taken`: another group has the name. `stranger`: a member is not an entry of the organization. `full` and `crowded`: the organization
 * would have more groups, or more members in them, than it can have.
 */
export type ScimGroupResult =
  | {
      readonly outcome: 'done';
      readonly group: ScimGroup;
      readonly added: number;
      readonly removed: number;
      readonly isChanged: boolean;
    }
  | { readonly outcome: 'taken' | 'stranger' | 'unknown' | 'full' | 'crowded' };

/**
 * Adds a group, or takes over the one that has the name and that the directory does not manage yet. Changes nothing unless the outcome is
 * `done`.
 */
export async function insertScimGroup(
  db: Db,
  {
    id,
    organizationId,
    displayName,
    externalId,
    members,
  }: Pick<ScimGroup, 'id' | 'organizationId' | 'displayName' | 'externalId'> & {
    readonly members: readonly string[];
  },
  now: EpochSeconds,
  limits: Limits = scimGroupLimits,
): Promise<ScimGroupResult> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    await lockGroups(tx, organizationId);
    const known = await tx
      .selectFrom('person_group')
      .leftJoin('scim_group', 'scim_group.group_id', 'person_group.id')
      .select(['person_group.id', 'scim_group.group_id'])
      .where('person_group.organization_id', '=', organizationId)
      .where('person_group.name', '=', displayName)
      .executeTakeFirst();
    if (known && known.group_id !== null) return { outcome: 'taken' };
    if ((await countScimGroups(tx, organizationId)) >= limits.groups) return { outcome: 'full' };
    const placed = await countPlaced(tx, organizationId);
    if (placed + new Set(members).size > limits.placed) return { outcome: 'crowded' };
    if (!(await areAllEntries(tx, organizationId, members))) return { outcome: 'stranger' };
    const groupId = known?.id ?? id;
    if (!known) {
      await tx
        .insertInto('person_group')
        .values({ id, organization_id: organizationId, name: displayName, created_at: now })
        .execute();
    }
    await tx
      .insertInto('scim_group')
      .values({
        group_id: groupId,
        organization_id: organizationId,
        external_id: externalId ?? null,
        was_adopted: known ? 1 : 0,
        created_at: now,
        changed_at: now,
      })
      .execute();
    const added = await addMembers(tx, { id: groupId, organizationId }, members);
    return finish(tx, { id: groupId, organizationId }, { added, removed: 0, isChanged: true });
  });
}

/** Changes a group of the directory. Changes nothing unless the outcome is `done`. */
export async function updateScimGroup(
  db: Db,
  { id, organizationId }: Pick<ScimGroup, 'id' | 'organizationId'>,
  { displayName, externalId, members }: ScimGroupChange,
  now: EpochSeconds,
  limits: Limits = scimGroupLimits,
): Promise<ScimGroupResult> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    await lockGroups(tx, organizationId);
    const group = await findScimGroup(tx, organizationId, id);
    if (!group) return { outcome: 'unknown' };
    const isRenamed = displayName !== undefined && displayName !== group.displayName;
    if (isRenamed && (await isTaken(tx, group, displayName))) return { outcome: 'taken' };
    const named = members.flatMap((step) =>
      step.type === 'add' || step.type === 'replace' ? step.ids : [],
    );
    if (!(await areAllEntries(tx, organizationId, named))) return { outcome: 'stranger' };
    if (named.length > 0 && (await isCrowded(tx, group, members, limits.placed))) {
      return { outcome: 'crowded' };
    }
    if (isRenamed) {
      await tx
        .updateTable('person_group')
        .set({ name: displayName })
        .where('id', '=', id)
        .execute();
    }
    const counts = { added: 0, removed: 0 };
    for (const step of members) {
      const kept = step.type === 'replace' ? step.ids : [];
      if (step.type === 'remove') counts.removed += await removeMembers(tx, id, step.ids);
      else if (step.type !== 'add') counts.removed += await removeOthers(tx, id, kept);
      if (step.type === 'add' || step.type === 'replace') {
        counts.added += await addMembers(tx, group, step.ids);
      }
    }
    const isOtherId = externalId !== undefined && (externalId ?? undefined) !== group.externalId;
    const isChanged = isRenamed || isOtherId || counts.added + counts.removed > 0;
    if (isChanged) {
      await tx
        .updateTable('scim_group')
        .set({ changed_at: now, ...(isOtherId && { external_id: externalId }) })
        .where('group_id', '=', id)
        .execute();
    }
    return finish(tx, group, { ...counts, isChanged });
  });
}

/**
 * Detaches a group from the directory. Deletes the group if the directory created it, it has no other members or mappings, and no server or
 * tool is restricted to it. Otherwise it stays, with what people set up.
 */
export async function deleteScimGroup(
  db: Db,
  { id, organizationId }: Pick<ScimGroup, 'id' | 'organizationId'>,
): Promise<ScimGroupResult> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    await lockGroups(tx, organizationId);
    const group = await findScimGroup(tx, organizationId, id);
    if (!group) return { outcome: 'unknown' };
    const removed = await removeOthers(tx, id, []);
    const adopted = await tx
      .deleteFrom('scim_group')
      .where('group_id', '=', id)
      .returning('was_adopted')
      .executeTakeFirst();
    const used = [];
    for (const table of ['endpoint_group', 'group_member', 'group_mapping'] as const) {
      used.push(
        await tx.selectFrom(table).select('group_id').where('group_id', '=', id).executeTakeFirst(),
      );
    }
    const isUsed =
      used.some((row) => row !== undefined) || (await isInToolRules(tx, organizationId, id));
    const isOwn = adopted?.was_adopted === 0 && !isUsed;
    if (isOwn) await tx.deleteFrom('person_group').where('id', '=', id).execute();
    return { outcome: 'done', group, added: 0, removed, isChanged: true };
  });
}

export async function findScimGroup(
  db: Db,
  organizationId: string,
  id: string,
): Promise<ScimGroup | undefined> {
  const row = await selectGroups(db, organizationId).where('id', '=', id).executeTakeFirst();
  return row && readGroup(row, organizationId);
}

/** Restricts a list to groups that can match. */
export interface ScimGroupHint {
  readonly id?: string;
  readonly externalId?: string;
  /** The id of an entry that is a member. */
  readonly member?: string;
}

/** Groups ordered by id. */
export async function listScimGroups(
  db: Db,
  organizationId: string,
  {
    hint = {},
    offset = 0,
    after = '',
    limit,
  }: { hint?: ScimGroupHint; offset?: number; after?: string; limit: number },
): Promise<ScimGroup[]> {
  const { id, externalId, member } = hint;
  const rows = await selectGroups(db, organizationId)
    .$if(id !== undefined, (query) => query.where('id', '=', id ?? ''))
    .$if(externalId !== undefined, (query) => query.where('external_id', '=', externalId ?? ''))
    .$if(member !== undefined, (query) =>
      query.where('id', 'in', (select) =>
        select
          .selectFrom('scim_group_member')
          .select('scim_group_member.group_id')
          .where('scim_user_id', '=', member ?? ''),
      ),
    )
    .where('id', '>', after)
    .orderBy('id')
    .offset(offset)
    .limit(limit)
    .execute();
  return rows.map((row) => readGroup(row, organizationId));
}

/** How many groups the directory manages. */
export async function countScimGroups(db: Db, organizationId: string): Promise<number> {
  return countRows(db.selectFrom('scim_group').where('organization_id', '=', organizationId));
}

/** How many members the directory placed, by group; without groups that have none. */
export async function countScimMembers(
  db: Db,
  groupIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const some of inParts(groupIds)) {
    const rows = await db
      .selectFrom('scim_group_member')
      .select('group_id')
      .select(({ fn }) => fn.countAll<number | string>().as('count'))
      .where('group_id', 'in', some)
      .groupBy('group_id')
      .execute();
    for (const { group_id: id, count } of rows) counts.set(id, Number(count));
  }
  return counts;
}

/** The members that the directory placed, by group, with the user name of each: all, or those with an id in `among` (at most 500 ids). */
export async function listScimMembers(
  db: Db,
  groupIds: readonly string[],
  among?: readonly string[],
): Promise<ReadonlyMap<string, readonly { readonly id: string; readonly userName: string }[]>> {
  const rows = [];
  for (const some of inParts(groupIds)) {
    rows.push(
      ...(await db
        .selectFrom('scim_group_member')
        .innerJoin('scim_user', 'scim_user.id', 'scim_group_member.scim_user_id')
        .select(['scim_group_member.group_id', 'scim_user.id', 'scim_user.user_name'])
        .where('scim_group_member.group_id', 'in', some)
        .$if(among !== undefined, (query) => query.where('scim_user.id', 'in', among ?? []))
        .orderBy('scim_user.id')
        .execute()),
    );
  }
  const ofGroup = Map.groupBy(rows, ({ group_id: id }) => id);
  return new Map(
    [...ofGroup].map(([id, members]) => [
      id,
      members.map((member) => ({ id: member.id, userName: member.user_name })),
    ]),
  );
}

function selectGroups(db: Db, organizationId: string) {
  return db
    .selectFrom('scim_group')
    .innerJoin('person_group', 'person_group.id', 'scim_group.group_id')
    .select(['person_group.id', 'person_group.name', 'scim_group.external_id'])
    .select(['scim_group.created_at', 'scim_group.changed_at'])
    .where('scim_group.organization_id', '=', organizationId);
}

async function finish(
  tx: Db,
  { id, organizationId }: Pick<ScimGroup, 'id' | 'organizationId'>,
  counts: { readonly added: number; readonly removed: number; readonly isChanged: boolean },
): Promise<ScimGroupResult> {
  const group = await findScimGroup(tx, organizationId, id);
  return group ? { outcome: 'done', group, ...counts } : { outcome: 'unknown' };
}

/** How many members the directory placed in all groups of an organization together. */
async function countPlaced(tx: Db, organizationId: string): Promise<number> {
  return countRows(
    tx
      .selectFrom('scim_group')
      .innerJoin('scim_group_member', 'scim_group_member.group_id', 'scim_group.group_id')
      .where('scim_group.organization_id', '=', organizationId),
  );
}

/** Whether steps would place more than `most` members in all groups of the organization together. */
async function isCrowded(
  tx: Db,
  { id, organizationId }: Pick<ScimGroup, 'id' | 'organizationId'>,
  steps: readonly MemberStep[],
  most: number,
): Promise<boolean> {
  const placed = await countPlaced(tx, organizationId);
  const named = steps.reduce((sum, step) => sum + ('ids' in step ? step.ids.length : 0), 0);
  if (placed + named <= most) return false;
  const present = await memberIdsOf(tx, id);
  const next = new Set(present);
  for (const step of steps) {
    if (step.type === 'clear' || step.type === 'replace') next.clear();
    if (!('ids' in step)) continue;
    for (const user of step.ids) {
      if (step.type === 'remove') next.delete(user);
      else next.add(user);
    }
  }
  // A group may become smaller, or stay as it is, whatever the limit.
  return next.size > present.length && placed - present.length + next.size > most;
}

async function memberIdsOf(tx: Db, id: string): Promise<string[]> {
  const rows = await tx
    .selectFrom('scim_group_member')
    .select('scim_user_id')
    .where('group_id', '=', id)
    .execute();
  return rows.map((row) => row.scim_user_id);
}

async function isTaken(
  tx: Db,
  { id, organizationId }: Pick<ScimGroup, 'id' | 'organizationId'>,
  name: string,
): Promise<boolean> {
  const other = await tx
    .selectFrom('person_group')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('name', '=', name)
    .where('id', '<>', id)
    .executeTakeFirst();
  return other !== undefined;
}

/** Whether all ids are those of entries of the organization. */
async function areAllEntries(
  tx: Db,
  organizationId: string,
  ids: readonly string[],
): Promise<boolean> {
  const wanted = [...new Set(ids)];
  let found = 0;
  for (const some of inParts(wanted)) {
    const count = await countRows(
      tx
        .selectFrom('scim_user')
        .where('organization_id', '=', organizationId)
        .where('id', 'in', some),
    );
    found += count;
  }
  return found === wanted.length;
}

async function addMembers(
  tx: Db,
  { id, organizationId }: Pick<ScimGroup, 'id' | 'organizationId'>,
  ids: readonly string[],
): Promise<number> {
  let added = 0;
  for (const some of inParts([...new Set(ids)])) {
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('scim_group_member')
      .values(
        some.map((user) => ({ group_id: id, organization_id: organizationId, scim_user_id: user })),
      )
      .onConflict((conflict) => conflict.columns(['group_id', 'scim_user_id']).doNothing())
      .executeTakeFirst();
    added += Number(numInsertedOrUpdatedRows ?? 0);
  }
  return added;
}

async function removeMembers(tx: Db, id: string, ids: readonly string[]): Promise<number> {
  let removed = 0;
  for (const some of inParts([...new Set(ids)])) {
    const { numDeletedRows } = await tx
      .deleteFrom('scim_group_member')
      .where('group_id', '=', id)
      .where('scim_user_id', 'in', some)
      .executeTakeFirst();
    removed += Number(numDeletedRows);
  }
  return removed;
}

/** Removes all members but these. */
async function removeOthers(tx: Db, id: string, kept: readonly string[]): Promise<number> {
  const keptIds = new Set(kept);
  const others = (await memberIdsOf(tx, id)).filter((user) => !keptIds.has(user));
  return removeMembers(tx, id, others);
}
