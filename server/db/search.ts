import { sql, type RawBuilder } from 'kysely';

import { containsText } from './columns.ts';
import type { Db } from './transaction.ts';

// The queries of a search over an organization, one for each kind: at most `limit` rows, first those whose name begins with the text.

export interface SearchTerms {
  readonly organizationId: string;
  readonly text: string;
  readonly limit: number;
}

function contains(columns: readonly string[], text: string): RawBuilder<boolean> {
  const each = columns.map((column) => containsText(sql.ref(column), text));
  return sql<boolean>`(${sql.join(each, sql` or `)})`;
}

/** Sorts rows whose name begins with the text before the others. */
function beginning(column: string, text: string): RawBuilder<number> {
  const pattern = `${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  return sql<number>`case when lower(${sql.ref(column)}) like lower(${pattern}) escape '\\' then 0 else 1 end`;
}

/** Servers and collections. `onlyIds` are those that the person may use. */
export async function findServers(
  db: Db,
  { organizationId, text, limit }: SearchTerms,
  onlyIds: readonly string[] | undefined,
) {
  if (onlyIds?.length === 0) return [];
  return db
    .selectFrom('endpoint as e')
    .innerJoin('target as t', 't.endpoint_id', 'e.id')
    .select(['e.name', 'e.title', 'e.disabled_at', 't.upstream_kind as kind'])
    .where('e.organization_id', '=', organizationId)
    .where(contains(['e.name', 'e.title'], text))
    .$if(onlyIds !== undefined, (query) => query.where('e.id', 'in', [...(onlyIds ?? [])]))
    .orderBy(beginning('e.name', text))
    .orderBy('e.name')
    .limit(limit)
    .execute();
}

export function findPeople(db: Db, { organizationId, text, limit }: SearchTerms) {
  return db
    .selectFrom('membership as m')
    .innerJoin('person as p', 'p.id', 'm.person_id')
    .select(['p.id', 'p.email', 'm.role'])
    .where('m.organization_id', '=', organizationId)
    .where(contains(['p.email_key'], text))
    .orderBy(beginning('p.email_key', text))
    .orderBy('p.email_key')
    .limit(limit)
    .execute();
}

export function findGroups(db: Db, { organizationId, text, limit }: SearchTerms) {
  return db
    .selectFrom('person_group as g')
    .select(['g.id', 'g.name'])
    .where('g.organization_id', '=', organizationId)
    .where(contains(['g.name'], text))
    .orderBy(beginning('g.name', text))
    .orderBy('g.name')
    .limit(limit)
    .execute();
}

/** Unrevoked keys of servers, by name, id or hint. */
export function findKeys(db: Db, { organizationId, text, limit }: SearchTerms) {
  return db
    .selectFrom('api_key as k')
    .innerJoin('endpoint as e', 'e.id', 'k.endpoint_id')
    .select(['k.id', 'k.name', 'k.hint', 'e.name as server'])
    .where('k.organization_id', '=', organizationId)
    .where('k.revoked_at', 'is', null)
    .where(contains(['k.name', 'k.id', 'k.hint'], text))
    .orderBy(beginning('k.name', text))
    .orderBy('k.name')
    .orderBy('k.id')
    .limit(limit)
    .execute();
}

/** Unrevoked clients of servers and of the whole organization, by name or id. */
export function findClients(db: Db, { organizationId, text, limit }: SearchTerms) {
  return db
    .selectFrom('oauth_client as c')
    .leftJoin('endpoint as e', 'e.id', 'c.endpoint_id')
    .select(['c.id', 'c.name', 'e.name as server'])
    .where('c.organization_id', '=', organizationId)
    .where('c.revoked_at', 'is', null)
    .where(contains(['c.name', 'c.id'], text))
    .orderBy(beginning('c.name', text))
    .orderBy('c.name')
    .orderBy('c.id')
    .limit(limit)
    .execute();
}

export function findAgents(db: Db, { organizationId, text, limit }: SearchTerms) {
  return db
    .selectFrom('agent as a')
    .select(['a.id', 'a.name'])
    .where('a.organization_id', '=', organizationId)
    .where('a.revoked_at', 'is', null)
    .where(contains(['a.name'], text))
    .orderBy(beginning('a.name', text))
    .orderBy('a.name')
    .limit(limit)
    .execute();
}

/** Tools that servers list, by name. */
export function findTools(db: Db, { organizationId, text, limit }: SearchTerms) {
  return db
    .selectFrom('primitive_definition as d')
    .innerJoin('target as t', 't.id', 'd.target_id')
    .innerJoin('endpoint as e', 'e.id', 't.endpoint_id')
    .select(['d.name', 'e.name as server'])
    .where('e.organization_id', '=', organizationId)
    .where('d.kind', '=', 'tool')
    .where(contains(['d.name'], text))
    .orderBy(beginning('d.name', text))
    .orderBy('d.name')
    .orderBy('e.name')
    .limit(limit)
    .execute();
}

/** How many of the newest entries of the audit log a search reads. */
const searchedEvents = 5000;

/** Entries of the audit log whose action, target or actor contains the text, or whose request id is the text; newest first. */
export async function findEvents(
  db: Db,
  {
    organization,
    text,
    limit,
  }: Omit<SearchTerms, 'organizationId'> & { readonly organization: string },
) {
  return db
    .selectFrom(
      db
        .selectFrom('audit_event')
        .select(['id', 'at', 'action', 'target', 'actor', 'outcome', 'request_id', 'sequence'])
        .where('organization', '=', organization)
        .orderBy('sequence', 'desc')
        .limit(searchedEvents)
        .as('newest'),
    )
    .selectAll()
    .where(
      sql<boolean>`(${containsText(sql.ref('action'), text)}
        or ${containsText(sql<string>`coalesce(target, '')`, text)}
        or ${containsText(sql.ref('actor'), text)} or coalesce(request_id, '') = ${text})`,
    )
    .orderBy('sequence', 'desc')
    .limit(limit)
    .execute();
}
