import type { InferResult } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Page, PageQuery } from '#model/page';
import { containsText, countRows, nullsSmallest, ownerOf, readStrings } from './columns.ts';
import { inParts, transaction, type Db } from './transaction.ts';

/** An on-premise agent: a program in a private network that serves the MCP servers bound to it. */
export type Agent = ReturnType<typeof readAgent>;

function readAgent(row: InferResult<ReturnType<typeof agentsWithKeys>>[number]) {
  return {
    id: row.id,
    organizationId: row.organization_id,
    /** A slug, unique in the organization. */
    name: row.name,
    /** Prefix and last four characters of its newest key. */
    keyHint: row.key_hint ?? undefined,
    createdAt: row.created_at,
    /** When one of its keys was last used. */
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    /** Whether it is refused because its owner left the organization. */
    isSuspended: row.suspended_at !== null,
    /** The agent is online until this time, unless a process changes it. */
    onlineUntil: row.online_until ?? undefined,
  } as const;
}

export interface AgentQuery extends PageQuery<'name' | 'createdAt' | 'lastUsedAt'> {
  readonly organizationId: string;
  readonly status?: 'active' | 'revoked' | undefined;
}

/** @returns `false` when the organization has an agent of that name */
export async function insertAgent(
  db: Db,
  {
    id,
    organizationId,
    name,
    createdAt,
    createdBy,
  }: Pick<Agent, 'id' | 'organizationId' | 'name' | 'createdAt'> & {
    /** The actor, as the audit log names it. If it is a person, they become the owner of the agent. */
    readonly createdBy?: string | undefined;
  },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('agent')
    .values({
      id,
      organization_id: organizationId,
      name,
      created_at: createdAt,
      revoked_at: null,
      online_until: null,
      owner_id: ownerOf(createdBy),
    })
    .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

export async function findAgent(
  db: Db,
  id: string,
): Promise<(Agent & { readonly organization: string }) | undefined> {
  const row = await agentsWithKeys(db)
    .select('organization.name as organization')
    .where('agent.id', '=', id)
    .executeTakeFirst();
  return row && { ...readAgent(row), organization: row.organization };
}

export async function findAgentByName(
  db: Db,
  organization: string,
  name: string,
): Promise<Agent | undefined> {
  const row = await agentsWithKeys(db)
    .where('organization.name', '=', organization)
    .where('agent.name', '=', name)
    .executeTakeFirst();
  return row && readAgent(row);
}

/** Revokes the agent and all its keys. @returns `false` when there is no such agent, or it is already revoked */
export async function revokeAgent(db: Db, id: string, now: EpochSeconds): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('agent')
      .set({ revoked_at: now })
      .where('id', '=', id)
      .where('revoked_at', 'is', null)
      .executeTakeFirst();
    await tx
      .updateTable('api_key')
      .set({ revoked_at: now })
      .where('agent_id', '=', id)
      .where('revoked_at', 'is', null)
      .execute();
    return numUpdatedRows === 1n;
  });
}

const sortColumns = {
  name: 'agent.name',
  createdAt: 'agent.created_at',
  lastUsedAt: 'last_used_at',
} as const;

export async function listAgents(
  db: Db,
  { organizationId, status, text, sort, descending, limit, offset }: AgentQuery,
): Promise<Page<Agent>> {
  const all = agentsWithKeys(db)
    .where('agent.organization_id', '=', organizationId)
    .$if(status === 'active', (query) => query.where('agent.revoked_at', 'is', null))
    .$if(status === 'revoked', (query) => query.where('agent.revoked_at', 'is not', null))
    .$if(text !== undefined, (query) =>
      query.where((where) => containsText(where.ref('agent.name'), text ?? '')),
    );
  const rows = await all
    .orderBy(sortColumns[sort], nullsSmallest(descending))
    .orderBy('agent.id', descending ? 'desc' : 'asc')
    .limit(limit)
    .offset(offset)
    .execute();
  const total = await countRows(all);
  return { items: rows.map(readAgent), total };
}

/** Records that these agents are connected to a process, which is valid until `until`. */
export async function setOnline(
  db: Db,
  ids: readonly string[],
  until: EpochSeconds,
): Promise<void> {
  for (const some of sortedParts(ids)) {
    await db.updateTable('agent').set({ online_until: until }).where('id', 'in', some).execute();
  }
}

/** Notes which of its servers an agent runs as commands, so that other processes know it, too. */
export async function noteCommands(db: Db, id: string, names: readonly string[]): Promise<void> {
  await db
    .updateTable('agent')
    .set({ commands: JSON.stringify(names) })
    .where('id', '=', id)
    .execute();
}

/** The servers that an agent ran as commands when it was connected last. */
export async function findCommands(db: Db, id: string): Promise<readonly string[]> {
  const row = await db
    .selectFrom('agent')
    .select('commands')
    .where('id', '=', id)
    .executeTakeFirst();
  return readStrings(row?.commands ?? '[]');
}

/** Marks these agents as not connected, unless another process has written another time than `until` since. */
export async function clearOnline(
  db: Db,
  ids: readonly string[],
  until: EpochSeconds,
): Promise<void> {
  for (const some of sortedParts(ids)) {
    await db
      .updateTable('agent')
      .set({ online_until: null })
      .where('id', 'in', some)
      .where('online_until', '=', until)
      .execute();
  }
}

/** Sorts and divides the ids. All writers share this order, so that two of them cannot deadlock. */
function sortedParts(ids: readonly string[]): string[][] {
  return inParts([...ids].sort());
}

export async function listAgentNames(
  db: Db,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db.selectFrom('agent').select(['id', 'name']).where('id', 'in', ids).execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Agents, each with the hint of its newest key and the time at which any of its keys was last used. */
function agentsWithKeys(db: Db) {
  return db
    .selectFrom('agent')
    .innerJoin('organization', 'organization.id', 'agent.organization_id')
    .selectAll('agent')
    .select((select) =>
      select
        .selectFrom('api_key')
        .select(({ fn }) => fn.max('api_key.last_used_at').as('at'))
        .whereRef('api_key.agent_id', '=', 'agent.id')
        .as('last_used_at'),
    )
    .select((select) =>
      select
        .selectFrom('api_key')
        .select('api_key.hint')
        .whereRef('api_key.agent_id', '=', 'agent.id')
        .orderBy('api_key.created_at', 'desc')
        .limit(1)
        .as('key_hint'),
    );
}
