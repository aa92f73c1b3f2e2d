import {
  type Expression,
  type ExpressionBuilder,
  type Selectable,
  type SqlBool,
  type Updateable,
} from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Page, PageQuery } from '#model/page';
import { limitNames, type ServerLimits } from '#model/server-limits';
import { fixedHeadersSchema, type FixedHeader } from '#model/fixed-headers';
import {
  isSameLocation,
  readUpstream,
  upstreamColumns,
  type UpstreamKind,
} from '#model/upstream-kinds';
import { preparedQuery } from './prepared-query.ts';
import { containsText, readStrings } from './columns.ts';
import type { Schema } from './schema.ts';
import { lockTools, renewClosedTools } from './tool-definitions.ts';
import type { ServerRecord, Target } from '#model/endpoints';
import { isPostgres, transaction, type Db } from './transaction.ts';

export interface NewServer {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly upstream: UpstreamKind;
  readonly title?: string;
  readonly description?: string;
  readonly instructions?: string;
  readonly createdAt: EpochSeconds;
}

export interface ServerQuery extends PageQuery<'name' | 'createdAt'> {
  readonly organizationId: string;
  readonly status?: 'enabled' | 'disabled' | undefined;
  /** Selects only the servers that this agent serves. */
  readonly agentId?: string | undefined;
}

/** A change to a server. Omitted members keep their value. */
export interface ServerChange extends Partial<
  Pick<ServerRecord, 'title' | 'description' | 'instructions'> &
    Pick<Target, 'hiddenTools' | 'changedTools' | 'upstream'>
> {
  /** `null` removes all limits. */
  readonly limits?: ServerLimits | null;
  /** When it was disabled; `null` enables it. */
  readonly disabledAt?: EpochSeconds | null;
}

/** The active credentials that stop working when a server is deleted. */
export interface ServerDependents {
  readonly activeKeys: number;
  readonly activeClients: number;
  /** Active grants of people to applications. */
  readonly activeGrants: number;
}

/** @returns `false` when the organization has a server of that name */
export async function insertServer(
  db: Db,
  { id, organizationId, name, upstream, createdAt, ...words }: NewServer,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('endpoint')
    .values({
      id,
      organization_id: organizationId,
      name,
      title: words.title ?? '',
      description: words.description ?? '',
      instructions: words.instructions ?? '',
      ...columnsOf(upstream),
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
}

const byName = preparedQuery((db, organization: string, server: string) =>
  db
    .selectFrom('endpoint')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .selectAll('endpoint')
    .select('organization.name as organization')
    .where('organization.name', '=', organization)
    .where('endpoint.name', '=', server),
);

/** Finds disabled servers, and those of disabled organizations, too. */
export async function findServer(
  db: Db,
  organization: string,
  server: string,
): Promise<ServerRecord | undefined> {
  const [row] = await byName(db, organization, server);
  return row && readServer(row);
}

/** The titles of those of these servers that have one, by name. */
export async function findServerTitles(
  db: Db,
  organization: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await db
    .selectFrom('endpoint')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .select(['endpoint.name', 'endpoint.title'])
    .where('organization.name', '=', organization)
    .where('endpoint.name', 'in', [...names, ''])
    .where('endpoint.title', '<>', '')
    .execute();
  return new Map(rows.map(({ name, title }) => [name, title]));
}

const byId = preparedQuery((db, id: string) =>
  db
    .selectFrom('endpoint')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .selectAll('endpoint')
    .select('organization.name as organization')
    .where('endpoint.id', '=', id),
);

/** Finds disabled servers, too. */
export async function findServerById(db: Db, id: string): Promise<ServerRecord | undefined> {
  const [row] = await byId(db, id);
  return row && readServer(row);
}

/** The enabled servers of all organizations whose ids follow `after`, by id. */
export async function listEnabledServers(
  db: Db,
  after: string,
  limit: number,
): Promise<readonly ServerRecord[]> {
  const rows = await db
    .selectFrom('endpoint')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .selectAll('endpoint')
    .select('organization.name as organization')
    .where('endpoint.id', '>', after)
    .where('endpoint.disabled_at', 'is', null)
    .where('organization.disabled_at', 'is', null)
    .orderBy('endpoint.id')
    .limit(limit)
    .execute();
  return rows.map(readServer);
}

const sortColumns = { name: 'endpoint.name', createdAt: 'endpoint.created_at' } as const;

export async function listServers(
  db: Db,
  { organizationId, status, agentId, text, sort, descending, limit, offset }: ServerQuery,
): Promise<Page<ServerRecord>> {
  const all = db
    .selectFrom('endpoint')
    .where('endpoint.organization_id', '=', organizationId)
    .$if(status === 'enabled', (query) => query.where('endpoint.disabled_at', 'is', null))
    .$if(status === 'disabled', (query) => query.where('endpoint.disabled_at', 'is not', null))
    .$if(agentId !== undefined, (query) => query.where('endpoint.agent_id', '=', agentId ?? ''))
    .$if(text !== undefined, (query) =>
      query.where((where) =>
        where.or([
          containsText(where.ref('endpoint.name'), text ?? ''),
          containsText(where.ref('endpoint.title'), text ?? ''),
        ]),
      ),
    );
  const direction = descending ? 'desc' : 'asc';
  const rows = await all
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .selectAll('endpoint')
    .select('organization.name as organization')
    .orderBy(sortColumns[sort], direction)
    .orderBy('endpoint.id', direction)
    .limit(limit)
    .offset(offset)
    .execute();
  const { total } = await all
    .select(({ fn }) => fn.countAll<number | string>().as('total'))
    .executeTakeFirstOrThrow();
  return { items: rows.map(readServer), total: Number(total) };
}

/**
 * Changes a server. Takes effect on the next call.
 *
 * @param revision changes the server only if it still has this revision: of two callers that read the same one, the second gets
 *   `false`
 * @returns `false` when there is no such server
 */
export async function updateServer(
  db: Db,
  serverId: string,
  change: ServerChange,
  revision?: number,
): Promise<boolean> {
  const { changedTools, upstream } = change;
  if (!changedTools && !upstream) return updateColumns(db, serverId, change, revision);
  return transaction(db, async (tx) => {
    if (changedTools) await lockTools(tx, serverId);
    const before = upstream && (await lockUpstream(tx, serverId));
    // Tokens were issued for one location. They, and the identity of callers, must not be sent to another one.
    const isElsewhere = before && !isSameLocation(before, upstream);
    const ended = isElsewhere && { upstream_access_id: null, upstream_forwards_caller: 0 };
    const isUpdated = await updateColumns(tx, serverId, change, revision, ended || {});
    if (isUpdated && changedTools) await renewClosedTools(tx, serverId);
    return isUpdated;
  });
}

async function updateColumns(
  db: Db,
  serverId: string,
  change: ServerChange,
  revision: number | undefined,
  ended: Updateable<Schema['endpoint']> = {},
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('endpoint')
    .set((column) => ({
      ...changedColumns(change),
      ...ended,
      revision: column('revision', '+', 1),
    }))
    .where('id', '=', serverId)
    .$if(revision !== undefined, (query) => query.where('revision', '=', revision ?? 0))
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Within a transaction: reads the server's upstream and locks it until the transaction ends. */
export async function lockUpstream(tx: Db, serverId: string): Promise<UpstreamKind | undefined> {
  const row = await tx
    .selectFrom('endpoint')
    .select(['id', 'upstream_kind', 'upstream_settings', 'agent_id'])
    .where('id', '=', serverId)
    .$if(isPostgres(tx), (query) => query.forUpdate())
    .executeTakeFirst();
  return row && upstreamOf(row);
}

const notedEverySeconds = 60;

/**
 * Records that the upstream refused the current values of these headers and accepted the previous ones. Writes at most once a
 * minute, and only if the headers have not changed since.
 */
export async function noteHeadersRefused(
  db: Db,
  serverId: string,
  headers: readonly FixedHeader[],
  now: EpochSeconds,
): Promise<void> {
  await db
    .updateTable('endpoint')
    .set({ upstream_headers_refused_at: now })
    .where('id', '=', serverId)
    .where('upstream_headers', '=', headersText(headers))
    .where((where) =>
      where.or([
        where('upstream_headers_refused_at', 'is', null),
        where('upstream_headers_refused_at', '<=', now - notedEverySeconds),
      ]),
    )
    .execute();
}

/** Deletes the server with its clients, keys and grants. @returns `false` when there is no such server */
export async function deleteServer(db: Db, serverId: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('endpoint')
    .where('id', '=', serverId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

export async function countServerDependents(
  db: Db,
  serverId: string,
  now: EpochSeconds,
): Promise<ServerDependents> {
  const row = await db
    .selectNoFrom((select) => [
      select
        .selectFrom('api_key')
        .select(({ fn }) => fn.countAll<number | string>().as('n'))
        .where('endpoint_id', '=', serverId)
        .where('revoked_at', 'is', null)
        .where((where) =>
          where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]),
        )
        .as('keys'),
      select
        .selectFrom('oauth_client')
        .select(({ fn }) => fn.countAll<number | string>().as('n'))
        .where('endpoint_id', '=', serverId)
        .where('revoked_at', 'is', null)
        .as('clients'),
      select
        .selectFrom('oauth_grant')
        .select(({ fn }) => fn.countAll<number | string>().as('n'))
        .where('endpoint_id', '=', serverId)
        .where('revoked_at', 'is', null)
        .where('expires_at', '>', now)
        .as('grants'),
    ])
    .executeTakeFirstOrThrow();
  return {
    activeKeys: Number(row.keys),
    activeClients: Number(row.clients),
    activeGrants: Number(row.grants),
  };
}

/** A condition that a server belongs to an organization. The database evaluates it once per query, not for each row. */
export function isServerOf(
  where: Pick<ExpressionBuilder<Schema, never>, 'exists' | 'selectFrom'>,
  serverId: string,
  organizationId: string,
): Expression<SqlBool> {
  return where.exists(
    where
      .selectFrom('endpoint')
      .select('endpoint.id')
      .where('endpoint.id', '=', serverId)
      .where('endpoint.organization_id', '=', organizationId),
  );
}

function changedColumns(change: ServerChange): Updateable<Schema['endpoint']> {
  const { title, description, instructions, hiddenTools, changedTools } = change;
  const { limits, upstream, disabledAt } = change;
  return {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(instructions !== undefined && { instructions }),
    ...(hiddenTools && { hidden_tools: JSON.stringify(hiddenTools) }),
    ...(changedTools && { changed_tools: changedTools }),
    ...(limits !== undefined && { limits: limits && JSON.stringify(limits) }),
    ...(upstream && columnsOf(upstream)),
    ...(disabledAt !== undefined && { disabled_at: disabledAt }),
  };
}

/** The columns that describe the upstream of a server. */
function columnsOf(upstream: UpstreamKind) {
  const { kind, settings, agentId } = upstreamColumns(upstream);
  return {
    upstream_kind: kind,
    upstream_settings: settings,
    agent_id: agentId,
    upstream_headers: headersText('headers' in upstream ? upstream.headers : undefined),
    upstream_headers_refused_at: null,
  };
}

/** Headers as JSON text: equal headers have equal texts, so that texts can be compared. */
function headersText(headers: readonly FixedHeader[] = []): string | null {
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
  Selectable<Schema['endpoint']>,
  | 'id'
  | 'name'
  | 'upstream_kind'
  | 'upstream_settings'
  | 'upstream_access_id'
  | 'upstream_forwards_caller'
  | 'upstream_headers'
  | 'agent_id'
  | 'hidden_tools'
  | 'changed_tools'
  | 'withheld_tools'
  | 'created_at'
> & { organization: string } & Partial<
    Pick<
      Selectable<Schema['endpoint']>,
      | 'title'
      | 'description'
      | 'instructions'
      | 'limits'
      | 'open_tools'
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
    ...(row.title && { title: row.title }),
    ...(row.description && { description: row.description }),
    ...(row.instructions && { instructions: row.instructions }),
    ...(row.limits && { limits: readLimits(row.limits) }),
    ...(row.revision !== undefined && { revision: row.revision }),
    createdAt: row.created_at,
    ...(typeof row.disabled_at === 'number' && { disabledAt: row.disabled_at }),
    target: readTarget(row),
  };
}

function readTarget(row: ServerRow): Target {
  return {
    id: row.id,
    organization: row.organization,
    name: row.name,
    upstream: upstreamOf(row),
    hiddenTools: readStrings(row.hidden_tools),
    changedTools: row.changed_tools === 'withhold' ? 'withhold' : 'flag',
    withheldTools: readStrings(row.withheld_tools),
    ...(row.open_tools && { openTools: readStrings(row.open_tools) }),
  };
}

function readLimits(text: string): ServerLimits {
  const stored: unknown = JSON.parse(text);
  const pairs = limitNames.flatMap((name) => {
    const value: unknown = Reflect.get(Object(stored), name);
    return typeof value === 'number' ? [[name, value] as const] : [];
  });
  return Object.fromEntries(pairs);
}

function readHeaders(text: string): FixedHeader[] {
  return fixedHeadersSchema.parse(JSON.parse(text));
}

type UpstreamRow = Pick<ServerRow, 'id' | 'upstream_kind' | 'upstream_settings' | 'agent_id'> &
  Partial<ServerRow>;

function upstreamOf(row: UpstreamRow): UpstreamKind {
  const upstream = readUpstream({
    kind: row.upstream_kind,
    settings: row.upstream_settings,
    agentId: row.agent_id,
    credentials: {
      ...(row.upstream_access_id && { accessId: row.upstream_access_id }),
      ...(row.upstream_forwards_caller === 1 && { forwardsCaller: true }),
      ...(row.upstream_headers && { headers: readHeaders(row.upstream_headers) }),
      ...(row.upstream_headers_refused_at && { headersRefusedAt: row.upstream_headers_refused_at }),
    },
  });
  if (upstream) return upstream;
  throw new TypeError(`server ${row.id} has no upstream that this program knows`);
}
