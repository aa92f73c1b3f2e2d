import { countRows } from './columns.ts';
import { advisoryLock, type Db } from './transaction.ts';

/** A host or an address range in a private network to which this server may send requests. */
export type OutboundHost = Awaited<ReturnType<typeof listOutboundHosts>>[number];

export async function listOutboundHosts(db: Db) {
  const rows = await db.selectFrom('outbound_host').selectAll().orderBy('host').execute();
  return rows.map((row) => {
    return {
      /** `mcp.internal`, `mcp.internal:8443` or `10.20.0.0/16`. */
      host: row.host,
      note: row.note,
      /** The actor, as the audit log names it. */
      createdBy: row.created_by,
      createdAt: row.created_at,
    } as const;
  });
}

/** @returns `full` if there are already `most` hosts, `known` if this one is in the list; then nothing changes */
export async function insertOutboundHost(
  tx: Db,
  { host, note, createdBy, createdAt }: OutboundHost,
  most: number,
): Promise<'done' | 'known' | 'full'> {
  await advisoryLock(tx, 'outbound hosts');
  const count = await countRows(tx.selectFrom('outbound_host'));
  if (count >= most) return 'full';
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('outbound_host')
    .values({ host, note, created_by: createdBy, created_at: createdAt })
    .onConflict((conflict) => conflict.column('host').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n ? 'done' : 'known';
}

/** @returns `false` when it is not in the list */
export async function deleteOutboundHost(tx: Db, host: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('outbound_host')
    .where('host', '=', host)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}
