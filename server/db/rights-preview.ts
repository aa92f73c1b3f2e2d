// Previews which callers would gain or lose something by a change of a server's rules.

import type { EpochSeconds } from '#model/clock';
import type { ServerRecord } from '#model/endpoints';
import { isRole } from '#model/roles';
import { roleScopes, type Scope } from '#model/scopes';
import {
  type AccessRules,
  allows,
  groupsOfRules,
  type RightsSource,
  ToolRights,
  type ToolSelection,
} from '#model/tool-rights';
import { readScopes, readSelection } from './columns.ts';
import { verdictOf } from './explained-rights.ts';
import {
  audienceOf,
  changedToolRules,
  inOrder,
  isSameAudience,
  listKnown,
  listNamed,
  noToolRules,
  type Primitive,
  type ToolRulesChange,
} from './tool-rules.ts';
import { noGroupKeepsOut } from './server-access.ts';
import { inParts, type Db } from './transaction.ts';

/** The primitives that one caller gains or loses. A resource without a name stands for all resources that have no rule of their own. */
export interface AffectedCaller {
  /** The id of the person, key, client or grant. */
  readonly id: string;
  /** The e-mail address of a person, the name of a key or client, the name of a grant's client. */
  readonly name: string;
  /** Of a grant: the e-mail address of its person. */
  readonly email: string | undefined;
  /** How many tools, prompts, resources and templates. */
  readonly count: number;
  /** The first of them, by kind and name. */
  readonly items: readonly Primitive[];
}

/** Some callers, and how many there are in all. */
export interface AffectedCallers {
  readonly count: number;
  /** The first of them: people and grants by e-mail address, the others by name. */
  readonly callers: readonly AffectedCaller[];
}

export const callerKinds = ['people', 'keys', 'clients', 'grants'] as const;
export type CallerKind = (typeof callerKinds)[number];

/** The callers who gain something by a change, and those who lose something. A caller may be in both. */
export interface RightsPreview {
  readonly gains: Readonly<Record<CallerKind, AffectedCallers>>;
  readonly loses: Readonly<Record<CallerKind, AffectedCallers>>;
}

/** How many callers of each kind, and how many names for each of them, a preview contains at most. */
export interface PreviewLimits {
  readonly callers: number;
  readonly items: number;
}

/**
 * Compares the rights of a server's callers now with their rights after a change. Callers that are refused anyway, such as revoked
 * keys and people outside the server's groups, are left out. Callers with the same groups, scopes and selections are compared only
 * once.
 */
export async function previewToolRules(
  db: Db,
  { id: endpointId, target }: ServerRecord,
  change: ToolRulesChange,
  now: EpochSeconds,
  limits: PreviewLimits,
): Promise<RightsPreview> {
  const before = target.rules ?? noToolRules;
  const after = changedToolRules(before, change, await listKnown(db, target.id));
  const named = await listNamed(db, target, before, after);
  const differing = [...named, ...unnamed].filter((one) => mayDiffer(one, before, after));
  const compare = comparison(target, { before, after }, differing);
  const groups = [...groupsOfRules(before), ...groupsOfRules(after)];
  const people = await listPeople(db, endpointId, new Set(groups));
  const callers = {
    people,
    keys: await listKeyCallers(db, endpointId, now),
    clients: await listClientCallers(db, endpointId),
    grants: await listGrantCallers(db, endpointId, people, now),
  };
  const affected = (of: 'gains' | 'loses') => {
    const found = (kind: CallerKind) => affectedBy(callers[kind], of, compare, limits);
    return {
      people: found('people'),
      keys: found('keys'),
      clients: found('clients'),
      grants: found('grants'),
    };
  };
  return { gains: affected('gains'), loses: affected('loses') };
}

/** Stands for all resources that have no rule of their own: only the default decides who may read them. */
const unnamed: readonly Primitive[] = [{ kind: 'resource', name: '' }];

function mayDiffer(one: Primitive, before: AccessRules, after: AccessRules): boolean {
  const hadRule = before.named[one.kind].has(one.name);
  // Rules of templates may decide about a resource that has no rule of its own.
  if (one.kind === 'resource' && hadRule !== after.named.resource.has(one.name)) return true;
  return !isSameAudience(audienceOf(before, one), audienceOf(after, one));
}

interface Caller {
  readonly id: string;
  readonly name: string;
  readonly email?: string | undefined;
  /** Absent for a caller that acts for no person. */
  readonly groups?: ReadonlySet<string> | undefined;
  readonly scopes: readonly Scope[];
  readonly selections: readonly ToolSelection[];
  /** Equal for callers with equal rights. */
  readonly sameAs: string;
}

interface Difference {
  readonly gains: readonly Primitive[];
  readonly loses: readonly Primitive[];
}

function comparison(
  target: Omit<RightsSource, 'rules'>,
  rules: { readonly before: AccessRules; readonly after: AccessRules },
  differing: readonly Primitive[],
): (caller: Caller) => Difference {
  const compared = new Map<string, Difference>();
  const { hiddenTools, offered } = target;
  return (caller) => {
    const known = compared.get(caller.sameAs);
    if (known) return known;
    const under = (these: AccessRules) => {
      const rights = new ToolRights({ hiddenTools, offered, rules: these }, caller);
      return (one: Primitive) => {
        const verdict = verdictOf(rights, caller.scopes, one);
        return verdict !== 'no_scope' && allows(verdict);
      };
    };
    const [mayNow, mayThen] = [under(rules.before), under(rules.after)];
    const asked = withChosen(differing, caller.selections);
    const difference = {
      gains: asked.filter((one) => !mayNow(one) && mayThen(one)),
      loses: asked.filter((one) => mayNow(one) && !mayThen(one)),
    };
    compared.set(caller.sameAs, difference);
    return difference;
  };
}

/** Adds the resources that were chosen by their URIs, which a rule for a template may open or close. */
function withChosen(
  differing: readonly Primitive[],
  selections: readonly ToolSelection[],
): readonly Primitive[] {
  const chosen = selections.flatMap((one) => (one.type === 'chosen' ? one.resources : []));
  const uris = new Set(chosen.filter((text) => !text.includes('{')));
  for (const { kind, name } of differing) if (kind === 'resource') uris.delete(name);
  if (uris.size === 0) return differing;
  const added = [...uris].map((name) => ({ kind: 'resource', name }) as const);
  return [...differing, ...added].toSorted(inOrder);
}

function affectedBy(
  callers: readonly Caller[],
  of: keyof Difference,
  compare: (caller: Caller) => Difference,
  limits: PreviewLimits,
): AffectedCallers {
  const all = callers.filter((caller) => compare(caller)[of].length > 0);
  const first = all.slice(0, limits.callers).map((caller) => {
    const items = compare(caller)[of];
    const { id, name, email } = caller;
    return { id, name, email, count: items.length, items: items.slice(0, limits.items) };
  });
  return { count: all.length, callers: first };
}

/** The members who may use the server. `relevant` are the groups that rules name. */
async function listPeople(
  db: Db,
  endpointId: string,
  relevant: ReadonlySet<string>,
): Promise<Caller[]> {
  const members = await db
    .selectFrom('endpoint')
    .innerJoin('membership', 'membership.organization_id', 'endpoint.organization_id')
    .innerJoin('person', 'person.id', 'membership.person_id')
    .select(['person.id', 'person.email', 'membership.role'])
    .where('endpoint.id', '=', endpointId)
    .where(noGroupKeepsOut)
    .orderBy('person.email_key')
    .execute();
  const groupsOf = await listGroupsOfPeople(db, relevant);
  return members.map(({ id, email, role }) => {
    const groups = groupsOf.get(id) ?? new Set();
    const scopes = isRole(role) ? roleScopes(role) : [];
    return { id, name: email, groups, scopes, selections: [], sameAs: signature(groups, scopes) };
  });
}

async function listGroupsOfPeople(
  db: Db,
  relevant: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const groupsOf = new Map<string, Set<string>>();
  for (const ids of inParts([...relevant])) {
    const rows = await db
      .selectFrom('group_person')
      .select(['person_id', 'group_id'])
      .where('group_id', 'in', ids)
      .execute();
    for (const { person_id: person, group_id: group } of rows) {
      groupsOf.set(person, (groupsOf.get(person) ?? new Set()).add(group));
    }
  }
  return groupsOf;
}

async function listKeyCallers(db: Db, endpointId: string, now: EpochSeconds): Promise<Caller[]> {
  const rows = await db
    .selectFrom('api_key')
    .select(['id', 'name', 'scopes', 'tool_selection'])
    .where('endpoint_id', '=', endpointId)
    .where('revoked_at', 'is', null)
    .where('suspended_at', 'is', null)
    .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]))
    .orderBy('name')
    .orderBy('id')
    .execute();
  return rows.map(ownCaller);
}

/** The clients that act for themselves: those of the server, and workloads of the organization. */
async function listClientCallers(db: Db, endpointId: string): Promise<Caller[]> {
  const rows = await db
    .selectFrom('oauth_client')
    .select(['id', 'name', 'scopes', 'tool_selection'])
    .where('revoked_at', 'is', null)
    .where('suspended_at', 'is', null)
    .where((where) =>
      where.or([
        where('endpoint_id', '=', endpointId),
        where.and([
          where('endpoint_id', 'is', null),
          where('organization_id', '=', (select) =>
            select.selectFrom('endpoint').select('organization_id').where('id', '=', endpointId),
          ),
          where('id', 'in', (select) => select.selectFrom('trust_rule').select('client_id')),
        ]),
      ]),
    )
    .orderBy('name')
    .orderBy('id')
    .execute();
  return rows.map(ownCaller);
}

/** A caller that acts for no person. */
function ownCaller(row: {
  readonly id: string;
  readonly name: string;
  readonly scopes: string;
  readonly tool_selection: string | null;
}): Caller {
  const { id, name, scopes, tool_selection: selection } = row;
  return {
    id,
    name,
    scopes: readScopes(scopes),
    selections: [readSelection(selection)],
    sameAs: JSON.stringify([scopes, selection]),
  };
}

/** The active grants of these people, as callers. */
async function listGrantCallers(
  db: Db,
  endpointId: string,
  people: readonly Caller[],
  now: EpochSeconds,
): Promise<Caller[]> {
  const rows = await db
    .selectFrom('oauth_grant')
    .innerJoin('oauth_client', 'oauth_client.id', 'oauth_grant.client_id')
    .select(['oauth_grant.id', 'oauth_grant.person_id', 'oauth_grant.scopes', 'oauth_client.name'])
    .select(['oauth_client.scopes as client_scopes', 'oauth_grant.tool_selection'])
    .select('oauth_client.tool_selection as client_selection')
    .where('oauth_grant.endpoint_id', '=', endpointId)
    .where('oauth_grant.revoked_at', 'is', null)
    .where('oauth_grant.expires_at', '>', now)
    .where('oauth_client.revoked_at', 'is', null)
    .where('oauth_client.suspended_at', 'is', null)
    .orderBy('oauth_client.name')
    .orderBy('oauth_grant.id')
    .execute();
  const ofPeople = Map.groupBy(rows, ({ person_id: id }) => id);
  return people.flatMap((person) =>
    (ofPeople.get(person.id) ?? []).map((row) => {
      const ofClient = readScopes(row.client_scopes);
      const scopes = readScopes(row.scopes).filter((scope) => ofClient.includes(scope));
      const { tool_selection: own, client_selection: clients } = row;
      return {
        id: row.id,
        name: row.name,
        email: person.name,
        groups: person.groups,
        scopes: scopes.filter((scope) => person.scopes.includes(scope)),
        selections: [readSelection(clients), readSelection(own)],
        sameAs: JSON.stringify([person.sameAs, scopes, clients, own]),
      };
    }),
  );
}

function signature(groups: ReadonlySet<string>, scopes: readonly Scope[]): string {
  return JSON.stringify([[...groups].toSorted(), scopes]);
}
