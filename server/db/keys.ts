import type { ExpressionBuilder, InferResult } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { ToolSelection } from '#model/tool-rights';
import type { Page, PageQuery } from '#model/page';
import { preparedQuery } from './prepared-query.ts';
import {
  containsText,
  nullsSmallest,
  ownerOf,
  readScopes,
  readSelection,
  selectionText,
  countRows,
} from './columns.ts';
import type { Schema } from './schema.ts';
import { isServerOf } from './servers.ts';
import type { Db } from './transaction.ts';

/** The owner of a key, which the key gives access to: an MCP endpoint (`mcp_…`), or the tunnel for an on-premise agent (`pk_live_…`). */
export type ApiKeyOwner =
  | { readonly type: 'server'; readonly serverId: string }
  | { readonly type: 'agent'; readonly agentId: string };

/**
 * A key with the names of its organization and owner, without its value, which was displayed once, at creation. Either `server` or `agent`
 * is set.
 */
export type NamedApiKey = ReturnType<typeof readNamedKey>;

function readNamedKey(row: InferResult<ReturnType<typeof namedKeys>>[number]) {
  return {
    /** `key_` and 16 base62 characters. */
    id: row.id,
    name: row.name,
    owner: readOwner(row),
    /** Prefix and last four characters. */
    hint: row.hint,
    scopes: readScopes(row.scopes),
    /** The tools, prompts and resources of its server that it may use, as far as the scopes allow. */
    tools: readSelection(row.tool_selection),
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    /** Whether it is refused because its owner left the organization. */
    isSuspended: row.suspended_at !== null,
    organization: row.organization,
    server: row.server ?? undefined,
    agent: row.agent ?? undefined,
  } as const;
}

export type NewApiKey = Pick<
  NamedApiKey,
  'id' | 'name' | 'owner' | 'hint' | 'scopes' | 'createdAt' | 'expiresAt'
> & {
  /** Default: all. */
  readonly tools?: ToolSelection | undefined;
  /** The actor, as the audit log names it. */
  readonly createdBy?: string | undefined;
  /** The id of the key that a rotation replaces with this one. */
  readonly replacesId?: string | undefined;
  /** SHA-256 of the key, in hex. */
  readonly hash: string;
};

export type KeyStatus = 'active' | 'expired' | 'revoked';

export interface KeyQuery extends PageQuery<'name' | 'createdAt' | 'lastUsedAt' | 'expiresAt'> {
  readonly organizationId: string;
  /** Selects the keys of one server. Without `serverId` and `agentId`: the keys of all servers. */
  readonly serverId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly status?: KeyStatus | undefined;
  /** The time to compare expiry with. */
  readonly now: EpochSeconds;
}

export async function insertKey(db: Db, { owner, ...key }: NewApiKey): Promise<void> {
  await db
    .insertInto('api_key')
    .values({
      id: key.id,
      hash: key.hash,
      hint: key.hint,
      name: key.name,
      endpoint_id: owner.type === 'server' ? owner.serverId : null,
      agent_id: owner.type === 'agent' ? owner.agentId : null,
      organization_id: (select) =>
        owner.type === 'server'
          ? select.selectFrom('endpoint').select('organization_id').where('id', '=', owner.serverId)
          : select.selectFrom('agent').select('organization_id').where('id', '=', owner.agentId),
      scopes: JSON.stringify(key.scopes),
      tool_selection: selectionText(key.tools),
      created_by: key.createdBy ?? null,
      owner_id: ownerOf(key.createdBy),
      replaces_id: key.replacesId ?? null,
      created_at: key.createdAt,
      expires_at: key.expiresAt ?? null,
      last_used_at: null,
      revoked_at: null,
    })
    .execute();
}

export async function findKey(db: Db, id: string): Promise<NamedApiKey | undefined> {
  const row = await namedKeys(db).where('api_key.id', '=', id).executeTakeFirst();
  return row && readNamedKey(row);
}

/** Who created a key, and the hints of the active keys that it replaces or that replace it while a rotation is under way. */
export interface KeyOrigin {
  readonly createdBy: string | undefined;
  readonly replaces: string | undefined;
  readonly replacedBy: string | undefined;
}

export async function findKeyOrigins(
  db: Db,
  ids: readonly string[],
  now: EpochSeconds,
): Promise<ReadonlyMap<string, KeyOrigin>> {
  if (ids.length === 0) return new Map();
  const creators = await creatorsOf(db, ids);
  const rotations = await rotationsOf(db, ids, now);
  return new Map(
    creators.map(({ id, created_by: createdBy }) => [
      id,
      {
        createdBy: createdBy ?? undefined,
        replaces: rotations.find((one) => one.new_id === id)?.old_hint,
        replacedBy: rotations.find((one) => one.old_id === id)?.new_hint,
      },
    ]),
  );
}

const creatorsOf = preparedQuery((db, ids: readonly string[]) =>
  db.selectFrom('api_key').select(['id', 'created_by']).where('id', 'in', ids),
);

// The newest replacement of a key first.
const rotationsOf = preparedQuery((db, ids: readonly string[], now: number) =>
  db
    .selectFrom('api_key as new_key')
    .innerJoin('api_key as old_key', 'old_key.id', 'new_key.replaces_id')
    .select([
      'old_key.id as old_id',
      'old_key.hint as old_hint',
      'new_key.id as new_id',
      'new_key.hint as new_hint',
    ])
    .where((where) =>
      where.or([where('new_key.replaces_id', 'in', ids), where('new_key.id', 'in', ids)]),
    )
    .where('old_key.revoked_at', 'is', null)
    .where('new_key.revoked_at', 'is', null)
    .where((where) =>
      where.or([where('old_key.expires_at', 'is', null), where('old_key.expires_at', '>', now)]),
    )
    .where((where) =>
      where.or([where('new_key.expires_at', 'is', null), where('new_key.expires_at', '>', now)]),
    )
    .orderBy('new_key.created_at', 'desc')
    .orderBy('new_key.id'),
);

/** Changes what a key may use. Takes effect on the next call. @returns `false` when there is no such key, or it is revoked */
export async function setKeyTools(db: Db, id: string, tools: ToolSelection): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('api_key')
    .set({ tool_selection: selectionText(tools) })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** @returns `false` when there is no such key, or it is already revoked */
export async function revokeKey(db: Db, id: string, now: EpochSeconds): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('api_key')
    .set({ revoked_at: now })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

const sortColumns = {
  name: 'api_key.name',
  createdAt: 'api_key.created_at',
  lastUsedAt: 'api_key.last_used_at',
  expiresAt: 'api_key.expires_at',
} as const;

const ofIds = preparedQuery((db, ids: readonly string[]) =>
  namedKeys(db).where('api_key.id', 'in', ids),
);

export async function listKeys(db: Db, query: KeyQuery): Promise<Page<NamedApiKey>> {
  const { organizationId, serverId, agentId, status, text, now } = query;
  const all = db
    .selectFrom('api_key')
    // Checks only once that the owner belongs to the organization: with a check for each key, the index would not be used.
    .$if(serverId !== undefined, (of) =>
      of
        .where('api_key.endpoint_id', '=', serverId ?? '')
        .where((where) => isServerOf(where, serverId ?? '', organizationId)),
    )
    .$if(agentId !== undefined, (of) =>
      of
        .where('api_key.agent_id', '=', agentId ?? '')
        .where((where) => isAgentOf(where, agentId ?? '', organizationId)),
    )
    .$if(serverId === undefined && agentId === undefined, (of) =>
      of
        .where('api_key.organization_id', '=', organizationId)
        .where('api_key.endpoint_id', 'is not', null),
    )
    .$if(status === 'revoked', (of) => of.where('api_key.revoked_at', 'is not', null))
    .$if(status === 'active' || status === 'expired', (of) =>
      of.where('api_key.revoked_at', 'is', null),
    )
    .$if(status === 'expired', (of) => of.where('api_key.expires_at', '<=', now))
    .$if(status === 'active', (of) =>
      of.where((where) =>
        where.or([where('api_key.expires_at', 'is', null), where('api_key.expires_at', '>', now)]),
      ),
    )
    .$if(text !== undefined, (of) =>
      of.where((where) => containsText(where.ref('api_key.name'), text ?? '')),
    );
  const page = await all
    .select('api_key.id')
    .orderBy(sortColumns[query.sort], nullsSmallest(query.descending))
    .orderBy('api_key.id', query.descending ? 'desc' : 'asc')
    .limit(query.limit)
    .offset(query.offset)
    .execute();
  const total = await countRows(all);
  if (page.length === 0) return { items: [], total };
  const ids = page.map(({ id }) => id);
  const found = new Map((await ofIds(db, ids)).map((row) => [row.id, readNamedKey(row)]));
  return { items: ids.flatMap((id) => found.get(id) ?? []), total };
}

function isAgentOf(
  where: Pick<ExpressionBuilder<Schema, never>, 'exists' | 'selectFrom'>,
  agentId: string,
  organizationId: string,
) {
  return where.exists(
    where
      .selectFrom('agent')
      .select('agent.id')
      .where('agent.id', '=', agentId)
      .where('agent.organization_id', '=', organizationId),
  );
}

function namedKeys(db: Db) {
  return db
    .selectFrom('api_key')
    .innerJoin('organization', 'organization.id', 'api_key.organization_id')
    .leftJoin('endpoint', 'endpoint.id', 'api_key.endpoint_id')
    .leftJoin('agent', 'agent.id', 'api_key.agent_id')
    .selectAll('api_key')
    .select([
      'organization.name as organization',
      'endpoint.name as server',
      'agent.name as agent',
    ]);
}

function readOwner(row: { endpoint_id: string | null; agent_id: string | null }): ApiKeyOwner {
  if (row.endpoint_id !== null) return { type: 'server', serverId: row.endpoint_id };
  if (row.agent_id !== null) return { type: 'agent', agentId: row.agent_id };
  throw new TypeError('a key has no owner');
}
