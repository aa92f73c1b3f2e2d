import type { AuditAction } from '#audit/sentences';
import {
  countScimGroups,
  countScimMembers,
  deleteScimGroup,
  findScimGroup,
  insertScimGroup,
  listScimGroups,
  listScimMembers,
  type MemberStep,
  type ScimGroup,
  type ScimGroupHint,
  scimGroupLimits,
  type ScimGroupResult,
  updateScimGroup,
} from '#db/scim-groups';
import type { Db } from '#db/transaction';
import { randomBase62 } from '#secrets/secrets';
import { isObject } from 'latchkey-mcp/json-value';
import {
  changing,
  dateTime,
  type Endpoints,
  type Members,
  noteChange,
  type ScimPorts,
  type ScimRequest,
} from './context.ts';
import { requiredTexts, type Filter } from './filter.ts';
import {
  isSent,
  listResponse,
  type Projection,
  projected,
  type Resource,
  scan,
} from './listing.ts';
import { memberOf, type PatchOperation, readOperations } from './patch.ts';
import { groupKind, schemaIds } from './schemas.ts';
import { badRequest, conflict, ScimError } from './scim-error.ts';
import { textOf } from './users.ts';

/* `/Groups`: the groups that the directory manages in its organization. */

const mostMembers = 10_000;
const usualMembersRead = 20_000;
const all: Projection = { only: undefined, without: new Set() };

/** Groups as the directory receives them. Members are read only if they are sent or compared: all, or those whose id is in `among`. */
async function groupResources(
  groups: readonly ScimGroup[],
  { location }: ScimRequest,
  db: Db,
  { withMembers, among }: { withMembers: boolean; among?: readonly string[] | undefined },
): Promise<readonly Resource[]> {
  const members = withMembers
    ? await listScimMembers(
        db,
        groups.map(({ id }) => id),
        among,
      )
    : new Map<string, readonly { id: string; userName: string }[]>();
  return groups.map((group) => ({
    schemas: [schemaIds.group],
    id: group.id,
    ...(group.externalId !== undefined && { externalId: group.externalId }),
    displayName: group.displayName,
    ...(withMembers && {
      members: (members.get(group.id) ?? []).map(({ id, userName }) => ({
        value: id,
        $ref: location(`/Users/${id}`),
        display: userName,
        type: 'User',
      })),
    }),
    meta: {
      resourceType: 'Group',
      created: dateTime(group.createdAt),
      lastModified: dateTime(group.changedAt),
      location: location(`/Groups/${group.id}`),
    },
  }));
}

async function shown(
  group: ScimGroup,
  projection: Projection,
  request: ScimRequest,
  db: Db,
): Promise<Resource> {
  const withMembers = isSent(projection, 'members');
  const [resource] = await groupResources([group], request, db, { withMembers });
  if (!resource) throw new Error('a group is not shown');
  return projected(resource, projection);
}

/** Finds a group of the organization. @throws {ScimError} 404 */
async function ownGroup(id: string, { tenant }: ScimRequest, db: Db): Promise<ScimGroup> {
  const group = await findScimGroup(db, tenant.organizationId, id);
  if (group) return group;
  throw new ScimError(404, 'there is no such group');
}

export const getGroup: Endpoints['get'] = async (id, projection, request, { db }) => {
  return shown(await ownGroup(id, request, db), projection, request, db);
};

/** `GET /Groups`. A page has fewer groups than requested if the groups have too many members in total. RFC 7644 §3.4.2.4 */
export const listGroups: Endpoints['list'] = async (
  query,
  request,
  { db, mostMembersRead = usualMembersRead },
) => {
  const { organizationId } = request.tenant;
  const { filter, startIndex, count, projection } = query;
  const show = async (groups: readonly ScimGroup[]) => {
    const withMembers = isSent(projection, 'members');
    const page = withMembers ? await readable(groups, mostMembersRead, db) : groups;
    const resources = await groupResources(page, request, db, { withMembers });
    return resources.map((resource) => projected(resource, projection));
  };
  if (!filter) {
    const total = await countScimGroups(db, organizationId);
    const page = { offset: startIndex - 1, limit: count };
    const groups = count === 0 ? [] : await listScimGroups(db, organizationId, page);
    return listResponse(await show(groups), { total, startIndex });
  }
  const hint = hintOf(filter);
  const compared = comparedMembers(filter);
  const among = compared === 'all' ? undefined : compared;
  let membersRead = 0;
  const { items, total } = await scan({ ...query, filter }, groupKind, {
    read: (page) => listScimGroups(db, organizationId, { ...page, hint }),
    async show(groups) {
      if (compared === 'all') {
        for (const more of await memberCounts(groups, db)) membersRead += more;
        if (membersRead > mostMembersRead) {
          const why = `a filter is compared with at most ${mostMembersRead} members: compare members.value with eq`;
          throw badRequest('tooMany', why);
        }
      }
      const withMembers = compared === 'all' || compared.length > 0;
      return groupResources(groups, request, db, { withMembers, among });
    },
  });
  return listResponse(await show(items), { total, startIndex });
};

async function memberCounts(groups: readonly ScimGroup[], db: Db): Promise<readonly number[]> {
  const counts = await countScimMembers(
    db,
    groups.map(({ id }) => id),
  );
  return groups.map(({ id }) => counts.get(id) ?? 0);
}

/** The first groups with at most `most` members in total, but always at least one group. */
async function readable(
  groups: readonly ScimGroup[],
  most: number,
  db: Db,
): Promise<readonly ScimGroup[]> {
  let members = 0;
  for (const [place, count] of (await memberCounts(groups, db)).entries()) {
    members += count;
    if (place > 0 && members > most) return groups.slice(0, place);
  }
  return groups;
}

/** The ids of the members that decide whether a group matches; `all` if any member can decide it. */
function comparedMembers(filter: Filter): readonly string[] | 'all' {
  switch (filter.type) {
    case 'and':
    case 'or':
      return together(filter.parts.map(comparedMembers));
    case 'not':
      return comparedMembers(filter.of);
    case 'present':
      return isOfMembers(filter) ? 'all' : [];
    case 'some':
      return isOfMembers(filter) ? selected(filter.of) : [];
    case 'compare': {
      if (!isOfMembers(filter)) return [];
      const { operator, value, path } = filter;
      const isId = (path.sub ?? 'value').toLowerCase() === 'value' && typeof value === 'string';
      return isId && (operator === 'eq' || operator === 'ne') ? [value] : 'all';
    }
  }
}

/** The ids of the members that a filter in brackets can select; `all` if the filter does more than compare ids with `eq`. */
function selected(filter: Filter): readonly string[] | 'all' {
  if (filter.type === 'and' || filter.type === 'or') return together(filter.parts.map(selected));
  if (filter.type !== 'compare' || filter.operator !== 'eq') return 'all';
  const { path, value } = filter;
  return path.attribute.toLowerCase() === 'value' && typeof value === 'string' ? [value] : 'all';
}

function together(parts: readonly (readonly string[] | 'all')[]): readonly string[] | 'all' {
  const ids: string[] = [];
  for (const part of parts) {
    if (part === 'all') return 'all';
    ids.push(...part);
  }
  return ids;
}

function isOfMembers({ path }: Extract<Filter, { readonly path: unknown }>): boolean {
  return path.attribute.toLowerCase() === 'members';
}

function hintOf(filter: Filter): ScimGroupHint {
  const required = new Map(requiredTexts(filter).map(({ path, value }) => [path, value]));
  const id = required.get('id');
  const externalId = required.get('externalid');
  const member = required.get('members.value') ?? required.get('members');
  return {
    ...(id !== undefined && { id }),
    ...(externalId !== undefined && { externalId }),
    ...(member !== undefined && { member }),
  };
}

export const createGroup: Endpoints['create'] = async (body, request, ports) => {
  const displayName = nameOf(body);
  const members = memberIds(memberOf(body, 'members'));
  checkCount(members.length);
  const { organizationId } = request.tenant;
  const id = `group_${randomBase62(16)}`;
  const externalId = textOf(body, 'externalId');
  return changing(request, ports, async (tx) => {
    const now = ports.clock.now();
    const made = await insertScimGroup(
      tx,
      { id, organizationId, displayName, externalId, members },
      now,
    );
    const group = await noteGroup(tx, made, 'scim.create-group', request, now);
    return shown(group, all, request, tx);
  });
};

export const replaceGroup: Endpoints['replace'] = async (id, body, request, ports) => {
  const displayName = nameOf(body);
  const ids = memberIds(memberOf(body, 'members'));
  checkCount(ids.length);
  const change = {
    displayName,
    externalId: textOf(body, 'externalId') ?? null,
    members: [{ type: 'replace', ids }],
  } as const;
  return changeGroup(id, change, request, ports, (group, tx) => shown(group, all, request, tx));
};

/** `PATCH /Groups/{id}`. The answer has no content, as Microsoft Entra expects. */
export const patchGroup: Endpoints['patch'] = async (id, body, request, ports) => {
  let displayName: string | undefined;
  let externalId: string | null | undefined;
  const members: MemberStep[] = [];
  let named = 0;
  for (const operation of readOperations(body, groupKind)) {
    const { attribute, op, value } = operation;
    if (attribute.name === 'members') {
      const step = memberStep(operation);
      if ('ids' in step) named += step.ids.length;
      checkCount(named);
      members.push(step);
    } else if (attribute.name === 'displayName') {
      displayName = nameOf(op === 'remove' ? {} : { displayName: value });
    } else if (attribute.name === 'externalId') {
      externalId = op === 'remove' ? null : (textOf({ externalId: value }, 'externalId') ?? null);
    }
  }
  const change = { displayName, externalId, members };
  return changeGroup(id, change, request, ports, async () => undefined);
};

async function changeGroup<Answer>(
  id: string,
  change: Parameters<typeof updateScimGroup>[2],
  request: ScimRequest,
  ports: ScimPorts,
  answer: (group: ScimGroup, tx: Db) => Promise<Answer>,
): Promise<Answer> {
  const { organizationId } = request.tenant;
  return changing(request, ports, async (tx) => {
    const now = ports.clock.now();
    const changed = await updateScimGroup(tx, { id, organizationId }, change, now);
    const group = await noteGroup(tx, changed, 'scim.update-group', request, now);
    return answer(group, tx);
  });
}

export const removeGroup: Endpoints['remove'] = async (id, request, ports) => {
  const { organizationId } = request.tenant;
  await changing(request, ports, async (tx) => {
    const deleted = await deleteScimGroup(tx, { id, organizationId });
    await noteGroup(tx, deleted, 'scim.delete-group', request, ports.clock.now());
  });
};

function nameOf(body: Members): string {
  const name = textOf(body, 'displayName');
  if (name === undefined) throw badRequest('invalidValue', 'displayName is missing');
  return name;
}

function memberStep({ op, path, value }: PatchOperation): MemberStep {
  if (path.filter) {
    if (op !== 'remove') throw badRequest('invalidPath', 'only remove can select members');
    return { type: 'remove', ids: selectedIds(path.filter) };
  }
  if (op === 'add') return { type: 'add', ids: memberIds(value) };
  if (op === 'replace') return { type: 'replace', ids: memberIds(value) };
  // Microsoft Entra lists the members to remove. Other directories send only the path, to remove all members.
  return value === undefined || value === null
    ? { type: 'clear' }
    : { type: 'remove', ids: memberIds(value) };
}

/** The ids in `members[value eq "…"]`, also several with `or`. @throws {ScimError} 400 `invalidPath` */
function selectedIds(filter: Filter): readonly string[] {
  if (filter.type === 'or') return filter.parts.flatMap(selectedIds);
  if (
    filter.type === 'compare' &&
    filter.operator === 'eq' &&
    filter.path.attribute.toLowerCase() === 'value' &&
    typeof filter.value === 'string'
  ) {
    return [filter.value];
  }
  throw badRequest('invalidPath', 'members can only be selected by value eq "id"');
}

/** @throws {ScimError} 400 `invalidValue` */
function memberIds(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  return given.map((member) => {
    const id = isObject(member) ? memberOf(member, 'value') : member;
    if (typeof id === 'string' && id !== '' && id.length <= 100) return id;
    throw badRequest('invalidValue', 'a member must be an object with the id of a user as value');
  });
}

function checkCount(count: number): void {
  if (count <= mostMembers) return;
  throw new ScimError(413, `at most ${mostMembers} members are accepted in one request`);
}

/** Records a successful change, or throws the error for its result. @throws {ScimError} 400, 404, 409 */
async function noteGroup(
  tx: Db,
  result: ScimGroupResult,
  action: AuditAction,
  request: ScimRequest,
  at: number,
): Promise<ScimGroup> {
  switch (result.outcome) {
    case 'unknown':
      throw new ScimError(404, 'there is no such group');
    case 'taken':
      throw conflict('uniqueness', 'another group has this displayName');
    case 'full':
      throw conflict(
        'tooMany',
        `at most ${scimGroupLimits.groups} groups are accepted in one organization`,
      );
    case 'crowded':
      throw conflict(
        'tooMany',
        `at most ${scimGroupLimits.placed} members are accepted in all groups of one organization together`,
      );
    case 'stranger':
      throw badRequest('invalidValue', 'a member is no user that this directory provisioned');
    case 'done': {
      const { group, added, removed, isChanged } = result;
      const counts = `${added > 0 ? ` +${added}` : ''}${removed > 0 ? ` -${removed}` : ''}`;
      if (isChanged) {
        await noteChange(tx, request, { action, target: `group:${group.id}${counts}`, at });
      }
      return group;
    }
  }
}
