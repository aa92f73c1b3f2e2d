import type { Kysely, Transaction } from 'kysely';

import type { Schema } from './schema.ts';

/** Writes beside a server which of its tools are closed for having changed: what every call reads. */
export async function renewWithheldTools(
  db: Kysely<Schema> | Transaction<Schema>,
  serverId: string,
): Promise<void> {
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
