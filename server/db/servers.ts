import { type Expression, type ExpressionBuilder, type QueryCreator, type SqlBool } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Page, PageQuery } from '#model/page';
import type { ServerLimits } from '#model/server-limits';
import type { FixedHeader } from '#model/fixed-headers';
import { keyPlace } from '#model/person-keys';
import { isSameLocation, upstreamColumns, type UpstreamKind } from '#model/upstream-kinds';
import { lockTools, renewClosedTools } from './offered.ts';
import { preparedQuery } from './prepared-query.ts';
import { containsText, countRows } from './columns.ts';
import { type HiddenBy, hiddenColumns } from './hidden-tools.ts';
import type { Schema } from './schema.ts';
import { readServer, targetColumns, upstreamOf } from './server-rows.ts';
import type { ServerRecord, Target } from '#model/endpoints';
import { isPostgres, transaction, type Db } from './transaction.ts';

export interface NewServer {
  readonly id: string;
  readonly targetId: string;
  readonly organizationId: string;
  readonly name: string;
  readonly upstream: UpstreamKind;
  readonly title?: string;
  readonly description?: string;
  readonly instructions?: string;
  /** Default: `offer`. */
  readonly newTools?: Target['newTools'];
  /** Default: `flag`. */
  readonly changedTools?: Target['changedTools'];
  readonly createdAt: EpochSeconds;
}

export interface ServerQuery extends PageQuery<'name' | 'createdAt'> {
  readonly organizationId: string;
  readonly status?: 'enabled' | 'disabled' | undefined;
  /** Selects only the servers whose upstream is of this kind. */
  readonly kind?: UpstreamKind['kind'] | undefined;
  /** Selects only the servers that this agent serves. */
  readonly agentId?: string | undefined;
}

/** A change to a server. Omitted members keep their value. */
export interface ServerChange extends Partial<
  Pick<ServerRecord, 'title' | 'description' | 'instructions'> &
    Pick<Target, 'hiddenTools' | 'changedTools' | 'newTools' | 'upstream'> &
    HiddenBy
> {
  /** `null` removes all limits. */
  readonly limits?: ServerLimits | null;
  /** When it was disabled; `null` enables it. */
  readonly disabledAt?: EpochSeconds | null;
}

/** @returns `false` when the organization has a server of that name */
export async function insertServer(
  db: Db,
  { id, targetId, organizationId, name, upstream, createdAt, ...words }: NewServer,
): Promise<boolean> {
  const { newTools = 'offer', changedTools = 'flag' } = words;
  return transaction(db, async (tx) => {
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('endpoint')
      .values({
        id,
        organization_id: organizationId,
        name,
        title: words.title ?? '',
        description: words.description ?? '',
        instructions: words.instructions ?? '',
        limits: null,
        created_at: createdAt,
        disabled_at: null,
      })
      .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows !== 1n) return false;
    await tx
      .insertInto('target')
      .values({
        id: targetId,
        endpoint_id: id,
        ...columnsOf(upstream),
        new_tools: newTools,
        changed_tools: changedTools,
      })
      .execute();
    if (newTools === 'review') await renewClosedTools(tx, targetId);
    return true;
  });
}

const ofTarget = targetColumns.map((column) => `target.${column}` as const);

/** Endpoints with their targets. */
function selectServers(db: QueryCreator<Schema>) {
  return db
    .selectFrom('endpoint')
    .innerJoin('target', 'target.endpoint_id', 'endpoint.id')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .selectAll('endpoint')
    .select(['target.id as target_id', ...ofTarget, 'target.upstream_headers_refused_at'])
    .select('organization.name as organization');
}

const byName = preparedQuery((db, organization: string, server: string) =>
  selectServers(db)
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

/** The titles of the given servers that have one, by server name. */
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

/** The facts that the heading of a server's pages shows; `undefined` if there is no such server. */
export async function findServerHeading(
  db: Db,
  organization: string,
  name: string,
): Promise<{ title: string | undefined; isCollection: boolean } | undefined> {
  const row = await db
    .selectFrom('endpoint')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .innerJoin('target', 'target.endpoint_id', 'endpoint.id')
    .select(['endpoint.title', 'target.upstream_kind'])
    .where('organization.name', '=', organization)
    .where('endpoint.name', '=', name)
    .executeTakeFirst();
  return row && { title: row.title || undefined, isCollection: row.upstream_kind === 'collection' };
}

const byId = preparedQuery((db, id: string) => selectServers(db).where('endpoint.id', '=', id));

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
  const rows = await selectServers(db)
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
  { organizationId, status, kind, agentId, text, sort, descending, limit, offset }: ServerQuery,
): Promise<Page<ServerRecord>> {
  const all = selectServers(db)
    .where('endpoint.organization_id', '=', organizationId)
    .$if(status === 'enabled', (query) => query.where('endpoint.disabled_at', 'is', null))
    .$if(status === 'disabled', (query) => query.where('endpoint.disabled_at', 'is not', null))
    .$if(kind !== undefined, (query) => query.where('target.upstream_kind', '=', kind ?? ''))
    .$if(agentId !== undefined, (query) => query.where('target.agent_id', '=', agentId ?? ''))
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
    .orderBy(sortColumns[sort], direction)
    .orderBy('endpoint.id', direction)
    .limit(limit)
    .offset(offset)
    .execute();
  const total = await countRows(all);
  return { items: rows.map(readServer), total };
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
  const { hiddenTools, changedTools, newTools, upstream } = change;
  const isPolicy = changedTools !== undefined || newTools !== undefined;
  if (!hiddenTools && !isPolicy && !upstream) {
    return updateEndpoint(db, serverId, change, revision);
  }
  return transaction(db, async (tx) => {
    // Locks tools, endpoint and target in this order, like all code that locks several of them.
    const targetId = await findTargetId(tx, serverId);
    if (targetId === undefined) return false;
    if (isPolicy) await lockTools(tx, targetId);
    if (!(await updateEndpoint(tx, serverId, change, revision))) return false;
    const before = upstream && (await lockUpstream(tx, targetId));
    // Tokens were issued for one location. They, and the identity of callers, must not be sent to another one.
    const isElsewhere = before && !isSameLocation(before, upstream);
    if (before && keyPlace(before) !== keyPlace(upstream)) {
      await tx.deleteFrom('person_key').where('target_id', '=', targetId).execute();
    }
    await tx
      .updateTable('target')
      .set({
        ...(hiddenTools && (await hiddenColumns(tx, targetId, hiddenTools, change))),
        ...(changedTools && { changed_tools: changedTools }),
        ...(newTools && { new_tools: newTools }),
        ...(upstream && columnsOf(upstream)),
        ...(before && before.kind !== upstream.kind && { upstream_key: null }),
        ...(isElsewhere && { upstream_access_id: null, upstream_forwards_caller: 0 }),
      })
      .where('id', '=', targetId)
      .execute();
    if (isPolicy) await renewClosedTools(tx, targetId);
    return true;
  });
}

/** Changes the columns of an endpoint, and increases its revision, which counts changes of its target too. */
async function updateEndpoint(
  db: Db,
  endpointId: string,
  { title, description, instructions, limits, disabledAt }: ServerChange,
  revision: number | undefined,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('endpoint')
    .set((column) => ({
      ...(title !== undefined && { title }),
      ...(description !== undefined && { description }),
      ...(instructions !== undefined && { instructions }),
      ...(limits !== undefined && { limits: limits && JSON.stringify(limits) }),
      ...(disabledAt !== undefined && { disabled_at: disabledAt }),
      revision: column('revision', '+', 1),
    }))
    .where('id', '=', endpointId)
    .$if(revision !== undefined, (query) => query.where('revision', '=', revision ?? 0))
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** The id of an endpoint's target, which never changes. */
async function findTargetId(db: Db, endpointId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('target')
    .select('id')
    .where('endpoint_id', '=', endpointId)
    .executeTakeFirst();
  return row?.id;
}

/** Within a transaction: reads the target's upstream and locks it until the transaction ends. */
export async function lockUpstream(tx: Db, targetId: string): Promise<UpstreamKind | undefined> {
  const row = await tx
    .selectFrom('target')
    .select(['id as target_id', 'upstream_kind', 'upstream_settings', 'agent_id'])
    .where('id', '=', targetId)
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
  targetId: string,
  headers: readonly FixedHeader[],
  now: EpochSeconds,
): Promise<void> {
  await db
    .updateTable('target')
    .set({ upstream_headers_refused_at: now })
    .where('id', '=', targetId)
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
  return transaction(db, async (tx) => {
    const targetId = await findTargetId(tx, serverId);
    if (targetId !== undefined) await lockTools(tx, targetId);
    const { numDeletedRows } = await tx
      .deleteFrom('endpoint')
      .where('id', '=', serverId)
      .executeTakeFirst();
    return numDeletedRows === 1n;
  });
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

/** The columns that describe the upstream of a target. */
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
