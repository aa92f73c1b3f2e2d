import type { Kysely, Selectable } from 'kysely';

import type { Organization, OrganizationStore } from '#organizations/organization-store';
import { limitNames, type ServerLimits } from '#organizations/server-limits';
import type { FixedHeader, ServerRecord, UpstreamKind } from '#organizations/server-record';
import { fixedHeadersSchema } from '#upstream-access/fixed-headers';
import { compiledQuery } from './compiled-query.ts';
import { readStrings } from './json-column.ts';
import type { Schema } from './schema.ts';

/** Organizations and their servers in SQL. */
export function organizationStore(db: Kysely<Schema>): OrganizationStore {
  const byName = compiledQuery(db, (name: string) =>
    db.selectFrom('organization').selectAll().where('name', '=', name),
  );
  const serverByName = compiledQuery(db, (organization: string, server: string) =>
    db
      .selectFrom('mcp_server')
      .innerJoin('organization', 'organization.id', 'mcp_server.organization_id')
      .selectAll('mcp_server')
      .select('organization.name as organization')
      .where('organization.name', '=', organization)
      .where('mcp_server.name', '=', server),
  );

  return {
    async add({ id, name, title, createdAt }) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('organization')
        .values({ id, name, title: title ?? '', created_at: createdAt, disabled_at: null })
        .onConflict((conflict) => conflict.column('name').doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },

    async byName(name) {
      const [row] = await byName(name);
      return row && readOrganization(row);
    },

    async addServer({ id, organizationId, name, upstream, createdAt, ...words }) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('mcp_server')
        .values({
          id,
          organization_id: organizationId,
          name,
          title: words.title ?? '',
          description: words.description ?? '',
          instructions: words.instructions ?? '',
          ...upstreamColumns(upstream),
          hidden_tools: '[]',
          changed_tools: 'flag',
          withheld_tools: '[]',
          limits: null,
          created_at: createdAt,
          disabled_at: null,
        })
        .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },

    async serverByName(organization, server) {
      const [row] = await serverByName(organization, server);
      return row && readServer(row);
    },

    async hideTools(serverId, tools) {
      await db
        .updateTable('mcp_server')
        .set((column) => ({
          hidden_tools: JSON.stringify(tools),
          revision: column('revision', '+', 1),
        }))
        .where('id', '=', serverId)
        .execute();
    },
  };
}

export function readOrganization(
  row: Pick<Selectable<Schema['organization']>, 'id' | 'name' | 'title' | 'created_at'>,
): Organization {
  const { id, name, title } = row;
  return { id, name, ...(title !== '' && { title }), createdAt: row.created_at };
}

/** Stands in the column of URLs, where no URL that anybody may choose has this scheme. */
const stdioUrl = 'stdio:';

/** The columns that say where the calls of a server go. */
export function upstreamColumns(upstream: UpstreamKind) {
  return {
    upstream_kind: upstream.kind === 'stdio' ? 'http' : upstream.kind,
    upstream_url:
      upstream.kind === 'http' ? upstream.url : upstream.kind === 'stdio' ? stdioUrl : null,
    upstream_public_only: upstream.kind === 'http' && upstream.publicOnly ? 1 : 0,
    agent_id: upstream.kind === 'agent' ? upstream.agentId : null,
    upstream_headers: upstream.kind === 'http' ? headersText(upstream.headers) : null,
    upstream_headers_refused_at: null,
  };
}

/** Headers as they are kept: the same text for the same headers. */
export function headersText(headers: readonly FixedHeader[] = []): string | null {
  if (headers.length === 0) return null;
  const all = headers.map(({ name, sealed, hint, setAt, previous }) => ({
    name,
    sealed,
    hint,
    setAt,
    previous: previous && {
      sealed: previous.sealed,
      hint: previous.hint,
      setAt: previous.setAt,
      until: previous.until,
    },
  }));
  return JSON.stringify(all);
}

export type ServerRow = Pick<
  Selectable<Schema['mcp_server']>,
  | 'id'
  | 'name'
  | 'upstream_kind'
  | 'upstream_url'
  | 'upstream_public_only'
  | 'upstream_access_id'
  | 'upstream_tells_callers'
  | 'upstream_headers'
  | 'agent_id'
  | 'hidden_tools'
  | 'changed_tools'
  | 'withheld_tools'
  | 'created_at'
> & { organization: string } & Partial<
    Pick<
      Selectable<Schema['mcp_server']>,
      | 'title'
      | 'description'
      | 'instructions'
      | 'limits'
      | 'revision'
      | 'disabled_at'
      | 'upstream_headers_refused_at'
    >
  >;

export function readServer(row: ServerRow): ServerRecord {
  return {
    id: row.id,
    organization: row.organization,
    name: row.name,
    upstream: readUpstream(row),
    ...(row.title && { title: row.title }),
    ...(row.description && { description: row.description }),
    ...(row.instructions && { instructions: row.instructions }),
    hiddenTools: readStrings(row.hidden_tools),
    changedTools: row.changed_tools === 'withhold' ? 'withhold' : 'flag',
    withheldTools: readStrings(row.withheld_tools),
    ...(row.limits && { limits: readLimits(row.limits) }),
    ...(row.revision !== undefined && { revision: row.revision }),
    createdAt: row.created_at,
    ...(typeof row.disabled_at === 'number' && { disabledAt: row.disabled_at }),
  };
}

function readLimits(text: string): ServerLimits {
  const kept: unknown = JSON.parse(text);
  const pairs = limitNames.flatMap((name) => {
    const value: unknown = Reflect.get(Object(kept), name);
    return typeof value === 'number' ? [[name, value] as const] : [];
  });
  return Object.fromEntries(pairs);
}

function readHeaders(text: string): FixedHeader[] {
  return fixedHeadersSchema.parse(JSON.parse(text));
}

function readUpstream(row: ServerRow): UpstreamKind {
  if (row.upstream_kind === 'demo') return { kind: 'demo' };
  if (row.upstream_kind === 'http' && row.upstream_url !== null) {
    const { upstream_url: url } = row;
    if (url === stdioUrl) return { kind: 'stdio' };
    return {
      kind: 'http',
      url,
      ...(row.upstream_public_only === 1 && { publicOnly: true }),
      ...(row.upstream_access_id !== null && { accessId: row.upstream_access_id }),
      ...(row.upstream_tells_callers === 1 && { tellsCallers: true }),
      ...(row.upstream_headers !== null && { headers: readHeaders(row.upstream_headers) }),
      ...(typeof row.upstream_headers_refused_at === 'number' && {
        headersRefusedAt: row.upstream_headers_refused_at,
      }),
    };
  }
  if (row.upstream_kind === 'agent' && row.agent_id !== null) {
    return { kind: 'agent', agentId: row.agent_id };
  }
  throw new TypeError(`server ${row.id} has no upstream that this program knows`);
}
