import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#clock/clock';
import type { ToolDefinition } from '#tools/tool-definition';
import type { Schema } from './schema.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

// The tool definitions of servers, as accepted and as last seen. They contain no secrets.

/** A tool's accepted definition and, if its server last listed a different one, that as `seen`. */
export interface KnownTool {
  readonly name: string;
  readonly accepted: Omit<ToolDefinition, 'name'>;
  readonly acceptedAt: EpochSeconds;
  readonly seen?: Omit<ToolDefinition, 'name'>;
  readonly changedAt?: EpochSeconds;
}

/** How many tools of one server are stored. Of more, the first. */
export const mostKnownTools = 1_000;

type Row = Selectable<Schema['tool_definition']>;

/** The tools of a server, ordered by name. */
export async function listToolDefinitions(db: Db, serverId: string): Promise<KnownTool[]> {
  return (await rowsOf(db, serverId)).map(readTool);
}

/**
 * Stores the tools that a server has just listed. A new tool is accepted as listed. A tool that is listed with its accepted
 * definition again is no longer marked as changed. Processes that see the same list at the same time get the same result.
 *
 * @returns `changed`: the tools that differ from their accepted definition, and differ from it in a new way; `open`: the names of
 *   the tools that were listed with their accepted definition
 */
export async function noteToolDefinitions(
  db: Db,
  serverId: string,
  listed: readonly ToolDefinition[],
  now: EpochSeconds,
): Promise<{ changed: ToolDefinition[]; open: string[] }> {
  return transaction(db, async (tx) => {
    await lockTools(tx, serverId);
    const rows = await rowsOf(tx, serverId);
    const known = new Map(rows.map((row) => [row.name, row]));
    const moved = new Map<string, Row>();
    const changed: ToolDefinition[] = [];
    const open: string[] = [];
    let isMoved = false;
    for (const tool of listed) {
      const { name, digest, text } = tool;
      const row = known.get(name);
      if (!row || row.accepted_digest === digest) open.push(name);
      if (!row && known.size >= mostKnownTools) continue;
      if (row && (row.seen_digest ?? row.accepted_digest) === digest) continue;
      const accepted = row
        ? { accepted_digest: row.accepted_digest, accepted_text: row.accepted_text }
        : { accepted_digest: digest, accepted_text: text };
      const isChanged = row !== undefined && row.accepted_digest !== digest;
      const seen = isChanged
        ? { seen_digest: digest, seen_text: text, changed_at: now }
        : { seen_digest: null, seen_text: null, changed_at: null };
      const at = { accepted_at: row?.accepted_at ?? now };
      const next = { server_id: serverId, name, ...accepted, ...at, ...seen };
      known.set(name, next);
      moved.set(name, next);
      isMoved ||= row !== undefined;
      if (isChanged) changed.push(tool);
    }
    await putSeen(tx, [...moved.values()]);
    if (isMoved) await renewWithheldTools(tx, serverId);
    return { changed, open };
  });
}

/**
 * Accepts the definitions that were last seen. A tool whose last seen digest is another one is skipped: people accept only what
 * they have read.
 *
 * @returns the names of those that were accepted
 */
export async function acceptToolDefinitions(
  db: Db,
  serverId: string,
  seen: readonly Pick<ToolDefinition, 'name' | 'digest'>[],
  now: EpochSeconds,
): Promise<string[]> {
  return transaction(db, async (tx) => {
    await lockTools(tx, serverId);
    const accepted = [];
    for (const { name, digest } of seen) {
      const { numUpdatedRows } = await tx
        .updateTable('tool_definition')
        .set((row) => ({
          accepted_digest: digest,
          accepted_text: row.ref('seen_text').$notNull(),
          accepted_at: now,
          seen_digest: null,
          seen_text: null,
          changed_at: null,
        }))
        .where('server_id', '=', serverId)
        .where('name', '=', name)
        .where('seen_digest', '=', digest)
        .executeTakeFirst();
      if (numUpdatedRows === 1n) accepted.push(name);
    }
    if (accepted.length > 0) await renewWithheldTools(tx, serverId);
    return accepted;
  });
}

/** Stores in the server's row, which every call reads, which of its tools are closed because they changed. */
export async function renewWithheldTools(db: Db, serverId: string): Promise<void> {
  const server = await db
    .selectFrom('mcp_server')
    .select(['changed_tools', 'withheld_tools'])
    .where('id', '=', serverId)
    .executeTakeFirst();
  if (!server) return;
  const changed = await db
    .selectFrom('tool_definition')
    .select('name')
    .where('server_id', '=', serverId)
    .where('seen_digest', 'is not', null)
    .orderBy('name')
    .execute();
  const names = server.changed_tools === 'withhold' ? changed.map(({ name }) => name) : [];
  const withheld = JSON.stringify(names);
  if (withheld === server.withheld_tools) return;
  await db
    .updateTable('mcp_server')
    .set({ withheld_tools: withheld })
    .where('id', '=', serverId)
    .execute();
}

/** Within a transaction: locks the server's tools, and the setting whether changed ones are withheld, until it ends. */
export function lockTools(tx: Db, serverId: string): Promise<void> {
  return advisoryLock(tx, `tools ${serverId}`);
}

const rowsAtOnce = 500;

/** Inserts the rows; of existing ones, updates only the definition that was last seen. */
async function putSeen(tx: Db, rows: readonly Row[]): Promise<void> {
  for (let start = 0; start < rows.length; start += rowsAtOnce) {
    await tx
      .insertInto('tool_definition')
      .values(rows.slice(start, start + rowsAtOnce))
      .onConflict((conflict) =>
        conflict.columns(['server_id', 'name']).doUpdateSet((row) => ({
          seen_digest: row.ref('excluded.seen_digest'),
          seen_text: row.ref('excluded.seen_text'),
          changed_at: row.ref('excluded.changed_at'),
        })),
      )
      .execute();
  }
}

function rowsOf(db: Db, serverId: string) {
  return db
    .selectFrom('tool_definition')
    .selectAll()
    .where('server_id', '=', serverId)
    .orderBy('name')
    .execute();
}

function readTool(row: Row): KnownTool {
  const { name, seen_digest: digest, seen_text: text, changed_at: changedAt } = row;
  const isChanged = digest !== null && text !== null && changedAt !== null;
  return {
    name,
    accepted: { digest: row.accepted_digest, text: row.accepted_text },
    acceptedAt: row.accepted_at,
    ...(isChanged && { seen: { digest, text }, changedAt }),
  };
}
