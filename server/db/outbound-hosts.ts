import type { EpochSeconds } from '#model/clock';
import { countRows } from './columns.ts';
import { advisoryLock, type Db } from './transaction.ts';

/** A host or an address range in a private network to which this server may send requests. */
export interface OutboundHost {
  /** `mcp.internal`, `mcp.internal:8443` or `10.20.0.0/16`. */
  readonly host: string;
  readonly note: string;
  /** The actor, as the audit log names it. */
  readonly createdBy: string;
  readonly createdAt: EpochSeconds;
}

export async function listOutboundHosts(db: Db): Promise<OutboundHost[]> {
  const rows = await db.selectFrom('outbound_host').selectAll().orderBy('host').execute();
  return rows.map(({ host, note, created_by: createdBy, created_at: createdAt }) => {
    return { host, note, createdBy, createdAt };
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
