import type { Insertable, Selectable, Updateable } from 'kysely';

import type { EpochSeconds } from '#model/clock';

import type { TargetSubject } from '#model/call-counts';
import type { Schema } from './schema.ts';
import { advisoryLock, inParts, transaction, type Db } from './transaction.ts';

/**
 * A tool's definition: all of its members except the name, because any of them may influence an assistant or its host.
 * `_meta`, for example, can name the page that a host shows for the tool.
 */
export interface ToolDefinition {
  readonly name: string;
  /** SHA-256 of the definition, base64url. It does not depend on the order of an object's members. */
  readonly digest: string;
  /** The definition as JSON for people to read, indented by two spaces and truncated if it is very long. */
  readonly text: string;
}

// The tool definitions of servers, as accepted and as last seen. They contain no secrets.

/** A tool's accepted definition and, if its server last listed a different one, that as `seen`. */
export interface KnownTool {
  readonly name: string;
  readonly accepted: Omit<ToolDefinition, 'name'>;
  readonly acceptedAt: EpochSeconds;
  readonly seen?: Omit<ToolDefinition, 'name'>;
  readonly changedAt?: EpochSeconds;
}

/** How many tools of one server are remembered. While a server has as many, any other that it lists is withheld. */
export const mostKnownTools = 1_000;

const daySeconds = 86_400;
/** An unlisted tool is forgotten after this time, unless it is marked as changed. */
const rememberedSeconds = 30 * daySeconds;

type Row = Selectable<Schema['primitive_definition']>;
type KnownRow = Pick<Row, 'name' | 'accepted_digest' | 'seen_digest' | 'listed_at'>;

/** The tools of a server, ordered by name. */
export async function listToolDefinitions(db: Db, targetId: string): Promise<KnownTool[]> {
  return (await rowsOf(db, targetId)).map(readTool);
}

/** How a list of tools compares with the accepted definitions. */
export interface ComparedTools {
  /** What happens to tools that differ, as configured now; `undefined` if the server was deleted. */
  readonly rule: 'flag' | 'withhold' | undefined;
  /** The tools that differ from their accepted definition in a new way. */
  readonly changed: readonly ToolDefinition[];
  /** The names of all that differ from it. */
  readonly differing: readonly string[];
  /** The names of those that are not remembered, because the server has too many. They have no accepted definition. */
  readonly beyond: readonly string[];
}

/** Records the result of a comparison, in the transaction that stores it. It runs again with the transaction after a conflict. */
export type RecordTools = (tx: Db, result: ComparedTools) => Promise<void>;

/**
 * Compares the tools that a server has just listed with the accepted definitions, as they are in the database now, and stores what
 * is new. A new tool is accepted as listed. A tool that is listed with its accepted definition again is no longer marked as changed.
 * A tool that has not been listed for 30 days, while others were, is forgotten.
 *
 * Only accepted definitions decide, so no order of lists, at any process, lets a tool with another definition through.
 */
export async function noteToolDefinitions(
  db: Db,
  targetId: string,
  listed: readonly ToolDefinition[],
  now: EpochSeconds,
  record: RecordTools = () => Promise.resolve(),
): Promise<ComparedTools> {
  const known = await knownOf(db, targetId);
  const isFull = known.size >= mostKnownTools && forgettable(known, listed, now).length === 0;
  const isNoted = ({ name, digest }: ToolDefinition) => {
    const row = known.get(name);
    return row ? latestDigest(row) === digest && !isStale(row, now) : isFull;
  };
  if (listed.every(isNoted)) {
    const same = compared(await ruleOf(db, targetId), listed, known);
    await record(db, same);
    return same;
  }
  return transaction(db, async (tx) => {
    await lockTools(tx, targetId);
    const stored = await storeListed(tx, targetId, listed, now);
    await record(tx, stored);
    return stored;
  });
}

/** The digest that a tool was last listed with. */
function latestDigest({ seen_digest: seen, accepted_digest: accepted }: KnownRow): string {
  return seen ?? accepted ?? '';
}

/** Whether it was last written more than a day ago that a tool was listed. */
function isStale({ listed_at: at }: KnownRow, now: EpochSeconds): boolean {
  return at <= now - daySeconds;
}

function compared(
  rule: ComparedTools['rule'],
  listed: readonly ToolDefinition[],
  known: ReadonlyMap<string, KnownRow>,
): Omit<ComparedTools, 'changed'> & { readonly changed: ToolDefinition[] } {
  const differing: string[] = [];
  const beyond: string[] = [];
  for (const { name, digest } of listed) {
    const row = known.get(name);
    if (!row) beyond.push(name);
    else if (row.accepted_digest !== digest) differing.push(name);
  }
  return { rule, changed: [], differing, beyond };
}

async function storeListed(
  tx: Db,
  targetId: string,
  listed: readonly ToolDefinition[],
  now: EpochSeconds,
): Promise<ComparedTools> {
  const known = await knownOf(tx, targetId);
  const sizeBefore = known.size;
  const gone = forgettable(known, listed, now);
  for (const name of gone) known.delete(name);
  const rule = await ruleOf(tx, targetId);
  if (rule === undefined) return compared(rule, listed, known);
  const added: Insertable<Schema['primitive_definition']>[] = [];
  const changed: ToolDefinition[] = [];
  const restored: string[] = [];
  for (const tool of listed) {
    const { name, digest, text } = tool;
    const row = known.get(name);
    if (!row) {
      if (known.size >= mostKnownTools) continue;
      const next = { name, accepted_digest: digest, seen_digest: null, listed_at: now };
      known.set(name, next);
      added.push({
        ...next,
        target_id: targetId,
        kind: 'tool',
        accepted_text: text,
        accepted_at: now,
      });
    } else if (latestDigest(row) !== digest) {
      const isChanged = row.accepted_digest !== digest;
      if (isChanged) changed.push(tool);
      else restored.push(name);
      known.set(name, { ...row, seen_digest: isChanged ? digest : null });
    }
  }
  await removeTools(tx, targetId, gone);
  await insertTools(tx, added);
  await putSeen(tx, targetId, changed, now);
  await updateTools(tx, targetId, restored, {
    seen_digest: null,
    seen_text: null,
    changed_at: null,
  });
  const listedNow = listed.flatMap(({ name }) => known.get(name) ?? []);
  const stale = listedNow.filter((row) => isStale(row, now)).map(({ name }) => name);
  await updateTools(tx, targetId, stale, { listed_at: now });
  const wasFull = sizeBefore >= mostKnownTools;
  const isMoved = changed.length + restored.length > 0;
  if (isMoved || wasFull || known.size >= mostKnownTools) await renewClosedTools(tx, targetId);
  return { ...compared(rule, listed, known), changed };
}

/**
 * The names of tools that were not listed within the 30 days before the last day on which their server listed others. Today does
 * not count, because other pages of the same list may follow. A tool that is marked as changed is never forgotten, or its server
 * could get its new definition accepted by not listing it.
 */
function forgettable(
  known: ReadonlyMap<string, KnownRow>,
  listed: readonly ToolDefinition[],
  now: EpochSeconds,
): string[] {
  const rows = [...known.values()];
  const before = rows.map(({ listed_at: at }) => at).filter((at) => at <= now - daySeconds);
  const lastDay = before.reduce((latest, at) => Math.max(latest, at), 0);
  const names = new Set(listed.map(({ name }) => name));
  return rows
    .filter(({ seen_digest: seen, listed_at: at, name }) => {
      const isOld = at < lastDay - rememberedSeconds;
      return isOld && seen === null && !names.has(name);
    })
    .map(({ name }) => name);
}

/**
 * Accepts the definitions that were last seen. A tool whose last seen digest is another one is skipped: people accept only what
 * they have read.
 *
 * @returns the names of those that were accepted
 */
export async function acceptToolDefinitions(
  db: Db,
  targetId: string,
  seen: readonly Pick<ToolDefinition, 'name' | 'digest'>[],
  now: EpochSeconds,
): Promise<string[]> {
  return transaction(db, async (tx) => {
    await lockTools(tx, targetId);
    const accepted = [];
    for (const { name, digest } of seen) {
      const { numUpdatedRows } = await tx
        .updateTable('primitive_definition')
        .set((row) => ({
          accepted_digest: digest,
          accepted_text: row.ref('seen_text').$notNull(),
          accepted_at: now,
          seen_digest: null,
          seen_text: null,
          changed_at: null,
        }))
        .where('target_id', '=', targetId)
        .where('kind', '=', 'tool')
        .where('name', '=', name)
        .where('seen_digest', '=', digest)
        .executeTakeFirst();
      if (numUpdatedRows === 1n) accepted.push(name);
    }
    if (accepted.length > 0) await renewClosedTools(tx, targetId);
    return accepted;
  });
}

/** Stores in the target's row, which every call reads, which of its tools are closed because they changed, or are too many. */
export async function renewClosedTools(db: Db, targetId: string): Promise<void> {
  const target = await db
    .selectFrom('target')
    .select(['changed_tools', 'offered'])
    .where('id', '=', targetId)
    .executeTakeFirst();
  if (!target) return;
  const known = await db
    .selectFrom('primitive_definition')
    .select(['name', 'seen_digest'])
    .where('target_id', '=', targetId)
    .where('kind', '=', 'tool')
    .orderBy('name')
    .execute();
  const changed = known.filter(({ seen_digest: seen }) => seen !== null);
  const names = (rows: typeof known) => rows.map(({ name }) => name);
  const offered = JSON.stringify({
    withheld:
      target.changed_tools === 'withhold' && changed.length > 0 ? { tool: names(changed) } : {},
    open: known.length >= mostKnownTools ? { tool: names(known) } : {},
  });
  if (offered === target.offered) return;
  await db.updateTable('target').set({ offered }).where('id', '=', targetId).execute();
}

/** Which of these tools their targets have listed, as far as they are remembered. */
export async function findListedTools(
  db: Db,
  tools: readonly TargetSubject[],
): Promise<readonly TargetSubject[]> {
  const found: TargetSubject[] = [];
  const ofTargets = Map.groupBy(tools, ({ targetId }) => targetId);
  for (const [targetId, ofTarget] of ofTargets) {
    const names = [...new Set(ofTarget.map(({ subject }) => subject))];
    for (const part of inParts(names)) {
      const rows = await db
        .selectFrom('primitive_definition')
        .select('name as subject')
        .where('target_id', '=', targetId)
        .where('kind', '=', 'tool')
        .where('name', 'in', part)
        .execute();
      found.push(...rows.map(({ subject }) => ({ targetId, subject })));
    }
  }
  return found;
}

/** Within a transaction: locks the server's tools, and the setting whether changed ones are withheld, until it ends. */
export function lockTools(tx: Db, targetId: string): Promise<void> {
  return advisoryLock(tx, `tools ${targetId}`);
}

async function insertTools(
  tx: Db,
  rows: readonly Insertable<Schema['primitive_definition']>[],
): Promise<void> {
  for (const part of inParts(rows)) {
    await tx.insertInto('primitive_definition').values(part).execute();
  }
}

/** Stores what known tools were listed with. A list may name a tool twice: the last definition counts. */
async function putSeen(
  tx: Db,
  targetId: string,
  tools: readonly ToolDefinition[],
  now: EpochSeconds,
): Promise<void> {
  const last = [...new Map(tools.map((tool) => [tool.name, tool])).values()];
  for (const part of inParts(last)) {
    const rows = part.map(({ name, digest, text }) => ({
      target_id: targetId,
      kind: 'tool',
      name,
      seen_digest: digest,
      seen_text: text,
      changed_at: now,
      // All of them are there already, so nothing of this is stored.
      accepted_digest: '',
      accepted_text: '',
      accepted_at: now,
      listed_at: now,
    }));
    await tx
      .insertInto('primitive_definition')
      .values(rows)
      .onConflict((conflict) =>
        conflict.columns(['target_id', 'kind', 'name']).doUpdateSet((row) => ({
          seen_digest: row.ref('excluded.seen_digest'),
          seen_text: row.ref('excluded.seen_text'),
          changed_at: row.ref('excluded.changed_at'),
        })),
      )
      .execute();
  }
}

async function updateTools(
  tx: Db,
  targetId: string,
  names: readonly string[],
  change: Updateable<Schema['primitive_definition']>,
): Promise<void> {
  for (const part of inParts(names)) {
    await tx
      .updateTable('primitive_definition')
      .set(change)
      .where('target_id', '=', targetId)
      .where('kind', '=', 'tool')
      .where('name', 'in', part)
      .execute();
  }
}

async function removeTools(tx: Db, targetId: string, names: readonly string[]): Promise<void> {
  for (const part of inParts(names)) {
    await tx
      .deleteFrom('primitive_definition')
      .where('target_id', '=', targetId)
      .where('kind', '=', 'tool')
      .where('name', 'in', part)
      .execute();
  }
}

async function ruleOf(db: Db, targetId: string): Promise<ComparedTools['rule']> {
  const target = await db
    .selectFrom('target')
    .select('changed_tools')
    .where('id', '=', targetId)
    .executeTakeFirst();
  return target && (target.changed_tools === 'withhold' ? 'withhold' : 'flag');
}

async function knownOf(db: Db, targetId: string): Promise<Map<string, KnownRow>> {
  const rows = await db
    .selectFrom('primitive_definition')
    .select(['name', 'accepted_digest', 'seen_digest', 'listed_at'])
    .where('target_id', '=', targetId)
    .where('kind', '=', 'tool')
    .execute();
  return new Map(rows.map((row) => [row.name, row]));
}

function rowsOf(db: Db, targetId: string) {
  return db
    .selectFrom('primitive_definition')
    .selectAll()
    .where('target_id', '=', targetId)
    .where('kind', '=', 'tool')
    .orderBy('name')
    .execute();
}

function readTool(row: Row): KnownTool {
  const { name, seen_digest: digest, seen_text: text, changed_at: changedAt } = row;
  const isChanged = digest !== null && text !== null && changedAt !== null;
  return {
    name,
    accepted: { digest: row.accepted_digest ?? '', text: row.accepted_text ?? '' },
    acceptedAt: row.accepted_at ?? 0,
    ...(isChanged && { seen: { digest, text }, changedAt }),
  };
}
