import type { ContentKind, ContentSettings } from '#model/call-contents';
import { contentKinds, contentSettingsSchema } from '#model/call-contents';
import { callRetentionDays } from '#model/calls';
import { callIdAt } from './calls.ts';
import { isPostgres, quickTransaction, type Db } from './transaction.ts';

// Stored arguments and results of calls. They are sealed, and can be found only through the row of their call.

/** The call that stored arguments or results belong to. */
export interface ContentPlace {
  readonly organizationId: string;
  readonly targetId: string;
  /** The id of the call's row. */
  readonly id: string;
}

export interface StoredContent {
  readonly kind: ContentKind;
  readonly sealed: string;
  /** Whether it was longer than the limit. */
  readonly isCut: boolean;
}

export async function insertContents(
  db: Db,
  contents: readonly (ContentPlace & StoredContent)[],
): Promise<void> {
  await quickTransaction(db, async (tx) => {
    const values = contents.map(({ organizationId, targetId, id, kind, sealed, isCut }) => ({
      organization_id: organizationId,
      target_id: targetId,
      id,
      kind,
      sealed,
      is_cut: isCut ? 1 : 0,
    }));
    await tx
      .insertInto('call_content')
      .values(values)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  });
}

/** The stored contents of a call, except those that an owner deleted. */
export async function findContents(
  db: Db,
  { organizationId, targetId, id }: ContentPlace,
): Promise<readonly StoredContent[]> {
  const { deletedBeforeMs = 0 } = (await findContentSettings(db, [targetId])).get(targetId) ?? {};
  const rows = await db
    .selectFrom('call_content')
    .select(['kind', 'sealed', 'is_cut'])
    .where('organization_id', '=', organizationId)
    .where('target_id', '=', targetId)
    .where('id', '=', id)
    .where('id', '>=', callIdAt(deletedBeforeMs))
    .orderBy('kind')
    .execute();
  return rows.flatMap(({ kind, sealed, is_cut: isCut }) => {
    const known = contentKinds.find((one) => one === kind);
    return known ? [{ kind: known, sealed, isCut: isCut === 1 }] : [];
  });
}

/** The content settings by target id. Targets without settings are absent. */
export async function findContentSettings(
  db: Db,
  targetIds: readonly string[],
): Promise<ReadonlyMap<string, ContentSettings>> {
  const rows = await db
    .selectFrom('target')
    .select(['id', 'call_contents'])
    .where('id', 'in', [...targetIds, ''])
    .where('call_contents', 'is not', null)
    .execute();
  return new Map(rows.map(({ id, call_contents: text }) => [id, readContentSettings(text ?? '')]));
}

export function readContentSettings(text: string): ContentSettings {
  return contentSettingsSchema.parse(JSON.parse(text));
}

/** Takes effect on the next call. */
export async function setContentSettings(
  db: Db,
  targetId: string,
  settings: ContentSettings,
): Promise<void> {
  await db
    .updateTable('target')
    .set({ call_contents: JSON.stringify(settings) })
    .where('id', '=', targetId)
    .execute();
}

/** A target with stored contents, and how long they are kept. */
export interface StoringTarget extends Omit<ContentPlace, 'id'> {
  /** 0 if the target has no settings, or the target or its organization was deleted. */
  readonly days: number;
  readonly deletedBeforeMs: number;
}

/** The first target after `after`, by organization and id, that has stored contents. Reads one entry of an index. */
export async function nextStoringTarget(
  db: Db,
  after: Omit<ContentPlace, 'id'> | undefined,
): Promise<StoringTarget | undefined> {
  const { organizationId: organization = '', targetId: target = '' } = after ?? {};
  const row = await db
    .selectFrom('call_content')
    .select(['organization_id', 'target_id'])
    .where((where) =>
      where(where.refTuple('organization_id', 'target_id'), '>', where.tuple(organization, target)),
    )
    .orderBy('organization_id')
    .orderBy('target_id')
    .limit(1)
    .executeTakeFirst();
  if (!row) return undefined;
  const { organization_id: organizationId, target_id: targetId } = row;
  const settings = (await findContentSettings(db, [targetId])).get(targetId);
  const owner = await db
    .selectFrom('organization')
    .select('call_retention_days')
    .where('id', '=', organizationId)
    .executeTakeFirst();
  const most = owner ? (owner.call_retention_days ?? callRetentionDays.default) : 0;
  // Contents are not kept longer than the row of their call, because nothing could find them without it.
  const days = Math.min(settings?.days ?? 0, most);
  return { organizationId, targetId, days, deletedBeforeMs: settings?.deletedBeforeMs ?? 0 };
}

/** Deletes the contents of calls from before a time, for at most `limit` calls. Returns the number of calls. */
export async function deleteOldContents(
  db: Db,
  {
    organizationId,
    targetId,
    beforeMs,
    limit,
  }: Omit<ContentPlace, 'id'> & { readonly beforeMs: number; readonly limit: number },
): Promise<number> {
  const old = await db
    .selectFrom('call_content')
    .select('id')
    .distinct()
    .where('organization_id', '=', organizationId)
    .where('target_id', '=', targetId)
    .where('id', '<', callIdAt(beforeMs))
    .orderBy('id')
    .limit(limit)
    .execute();
  const last = old.at(-1);
  if (!last) return 0;
  await quickTransaction(db, (tx) =>
    tx
      .deleteFrom('call_content')
      .where('organization_id', '=', organizationId)
      .where('target_id', '=', targetId)
      .where('id', '<=', last.id)
      .execute(),
  );
  return old.length;
}

/** Whether a member may read stored arguments and results. Within a transaction, they keep the right until the transaction ends. */
export async function isAuditor(db: Db, organizationId: string, userId: string): Promise<boolean> {
  const row = await db
    .selectFrom('membership')
    .select('is_auditor')
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', userId)
    .$if(db.isTransaction && isPostgres(db), (query) => query.forShare())
    .executeTakeFirst();
  return row?.is_auditor === 1;
}

/** @returns `false` when the person is not a member, or the right is already as wanted */
export async function setAuditor(
  db: Db,
  organizationId: string,
  userId: string,
  isOne: boolean,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('membership')
    .set({ is_auditor: isOne ? 1 : 0 })
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', userId)
    .where('is_auditor', '=', isOne ? 0 : 1)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}
