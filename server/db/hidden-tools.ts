import { readStrings } from './columns.ts';
import type { Db } from './transaction.ts';

/** The hidden tools that a credential of the server's endpoint hid, and may show again. */
export async function listHiddenByCredential(db: Db, targetId: string): Promise<readonly string[]> {
  const { hidden_by_credential: names } = await db
    .selectFrom('target')
    .select('hidden_by_credential')
    .where('id', '=', targetId)
    .executeTakeFirstOrThrow();
  return readStrings(names);
}

export interface HiddenBy {
  /** The hidden tools that a credential of the endpoint hid. Default: the stored ones, as far as they stay hidden. */
  readonly hiddenByCredential: readonly string[];
}

/** The columns that say which tools of a target are hidden. */
export async function hiddenColumns(
  db: Db,
  targetId: string,
  hiddenTools: readonly string[],
  { hiddenByCredential }: Partial<HiddenBy>,
) {
  const all = hiddenByCredential ?? (await listHiddenByCredential(db, targetId));
  const kept = all.filter((name) => hiddenTools.includes(name));
  return { hidden_tools: JSON.stringify(hiddenTools), hidden_by_credential: JSON.stringify(kept) };
}
