// The facts that calls need about the definitions of a server, derived from them and stored in the target's row, which every call reads.

import { definitionKinds } from '#model/definitions';
import type { PrimitiveKind } from '#model/tool-rights';
import { readToolCorrection } from '#model/tool-correction';
import { readStrings } from './columns.ts';
import { advisoryLock, type Db } from './transaction.ts';

/** The most definitions of each kind that are remembered of one server. While it has that many, any further one is closed. */
export const mostKnown = 10_000;

/** The kinds with names that callers use. Instructions are not called. */
const namedKinds = definitionKinds.filter((kind) => kind !== 'instructions');

/** Within a transaction: locks the server's definitions, and the settings that decide about them, until it ends. */
export function lockTools(tx: Db, targetId: string): Promise<void> {
  return advisoryLock(tx, `tools ${targetId}`);
}

/**
 * Within a transaction that has called `lockTools`: derives the closed names, the open names and the tools that only read. Call it after
 * every change of the definitions, the policies or the rules of a server.
 */
export async function renewClosedTools(db: Db, targetId: string): Promise<void> {
  const target = await db
    .selectFrom('target')
    .select(['changed_tools', 'new_tools', 'tool_rules', 'listed_kinds', 'offered'])
    .where('id', '=', targetId)
    .executeTakeFirst();
  if (!target) return;
  const rows = await db
    .selectFrom('primitive_definition')
    .select([
      'kind',
      'name',
      'accepted_digest',
      'accepted_annotations',
      'accepted_by',
      'seen_digest',
      'seen_annotations',
      'rejected_digest',
      'correction',
    ])
    .where('target_id', '=', targetId)
    .where('kind', '<>', 'instructions')
    .orderBy('name')
    .execute();
  const ofKind = Map.groupBy(rows, ({ kind }) => kind);
  const withheld: Partial<Record<PrimitiveKind, readonly string[]>> = {};
  const open: Partial<Record<PrimitiveKind, readonly string[]>> = {};
  const listed = readStrings(target.listed_kinds);
  for (const kind of namedKinds) {
    const known = ofKind.get(kind) ?? [];
    const closed = known.filter((row) => isClosed(row, target.changed_tools));
    if (closed.length > 0) withheld[kind] = namesOf(closed);
    const isLimited =
      target.new_tools === 'review' ||
      known.length >= mostKnown ||
      (target.tool_rules !== null && listed.includes(kind));
    if (isLimited) open[kind] = namesOf(known.filter((row) => row.accepted_digest !== null));
  }
  const readOnly = namesOf((ofKind.get('tool') ?? []).filter(isReadOnly));
  const offered = JSON.stringify({
    ...(Object.keys(withheld).length > 0 && { withheld }),
    ...(Object.keys(open).length > 0 && { open }),
    ...(readOnly.length > 0 && { readOnly }),
  });
  if (offered === target.offered) return;
  await db.updateTable('target').set({ offered }).where('id', '=', targetId).execute();
}

/** The columns that decide whether a known name is closed. */
export interface ReviewState {
  readonly accepted_digest: string | null;
  readonly seen_digest: string | null;
  readonly rejected_digest: string | null;
}

/**
 * Whether a name is closed because its current definition is not accepted: always while no definition of it was accepted; if another one
 * was, only where changes are withheld or after a person has rejected one.
 */
export function isClosed(row: ReviewState, changedTools: string): boolean {
  if (row.accepted_digest === null) return true;
  if (row.seen_digest === null) return false;
  return changedTools === 'withhold' || row.rejected_digest !== null;
}

interface AnnotatedRow extends ReviewState {
  readonly accepted_annotations: string | null;
  readonly accepted_by: string | null;
  readonly seen_annotations: string | null;
  readonly correction: string | null;
}

/**
 * Whether administrators have said that a tool only reads: by accepting its annotation, or by correcting it. Other annotations than the
 * accepted ones withdraw that until they are reviewed, because they describe another tool.
 */
function isReadOnly(row: AnnotatedRow): boolean {
  const { accepted_annotations: accepted, seen_annotations: seen, correction } = row;
  if (row.accepted_digest === null) return false;
  if (row.seen_digest !== null && (seen === null || seen !== accepted)) return false;
  const corrected = correction === null ? undefined : readToolCorrection(correction).annotations;
  if (corrected?.readOnlyHint !== undefined) return corrected.readOnlyHint;
  return row.accepted_by !== null && accepted !== null && saysReadOnly(accepted);
}

function saysReadOnly(annotations: string): boolean {
  const value: unknown = JSON.parse(annotations);
  return Reflect.get(Object(value), 'readOnlyHint') === true;
}

function namesOf(rows: readonly { readonly name: string }[]): string[] {
  return rows.map(({ name }) => name);
}

/** Within a transaction: makes earlier comparisons invalid, in every process. */
export async function countDefinitionChange(db: Db, targetId: string): Promise<void> {
  await db
    .updateTable('target')
    .set((column) => ({
      definitions_revision: column('definitions_revision', '+', 1),
    }))
    .where('id', '=', targetId)
    .execute();
}
