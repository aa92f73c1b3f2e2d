import type { Kysely, Selectable } from 'kysely';

import {
  mostKnownTools,
  type KnownTool,
  type ToolDefinitionStore,
} from '#tools/tool-definition-store';
import type { ToolDefinition } from '#tools/tool-definition';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';
import { renewWithheldTools } from './withheld-tools.ts';

/** What is known of the tools of servers, in SQL. */
export function toolDefinitionStore(db: Kysely<Schema>): ToolDefinitionStore {
  return {
    async of(serverId) {
      const rows = await rowsOf(db, serverId);
      return rows.map(readTool);
    },

    async note(serverId, listed, now) {
      return inTransaction(db, async (transaction) => {
        const rows = await rowsOf(transaction, serverId);
        const known = new Map(rows.map((row) => [row.name, row]));
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
          const next = { ...accepted, accepted_at: row?.accepted_at ?? now, ...seen };
          await transaction
            .insertInto('tool_definition')
            .values({ server_id: serverId, name, ...next })
            .onConflict((conflict) => conflict.columns(['server_id', 'name']).doUpdateSet(seen))
            .execute();
          known.set(name, { server_id: serverId, name, ...next });
          isMoved ||= row !== undefined;
          if (isChanged) changed.push(tool);
        }
        if (isMoved) await renewWithheldTools(transaction, serverId);
        return { changed, open };
      });
    },

    async accept(serverId, seen, now) {
      return inTransaction(db, async (transaction) => {
        const accepted = [];
        for (const { name, digest } of seen) {
          const { numUpdatedRows } = await transaction
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
        if (accepted.length > 0) await renewWithheldTools(transaction, serverId);
        return accepted;
      });
    },
  };
}

function rowsOf(db: Kysely<Schema>, serverId: string) {
  return db
    .selectFrom('tool_definition')
    .selectAll()
    .where('server_id', '=', serverId)
    .orderBy('name')
    .execute();
}

function readTool(row: Selectable<Schema['tool_definition']>): KnownTool {
  const { name, seen_digest: digest, seen_text: text, changed_at: changedAt } = row;
  const isChanged = digest !== null && text !== null && changedAt !== null;
  return {
    name,
    accepted: { digest: row.accepted_digest, text: row.accepted_text },
    acceptedAt: row.accepted_at,
    ...(isChanged && { seen: { digest, text }, changedAt }),
  };
}
