import type { Insertable, Selectable, Updateable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Definition, DefinitionKind } from '#model/definitions';
import { readToolCorrection, type ToolCorrection } from '#model/tool-correction';
import { readStrings } from './columns.ts';
import {
  countDefinitionChange,
  isClosed,
  lockTools,
  mostKnown,
  renewClosedTools,
} from './offered.ts';
import { immediateQuery } from './prepared-query.ts';
import type { Schema } from './schema.ts';
import { inParts, transaction, type Db } from './transaction.ts';

const daySeconds = 86_400;
/** A definition that is not listed for this long is forgotten, unless it is marked as changed, rejected or corrected. */
const rememberedSeconds = 30 * daySeconds;
/** The most text that is stored of one server. Beyond that, only digests are stored: definitions are compared, but cannot be read. */
const mostTextBytes = 16 * 1024 * 1024;

type Row = Selectable<Schema['primitive_definition']>;
type KnownRow = Pick<
  Row,
  | 'name'
  | 'accepted_digest'
  | 'accepted_annotations'
  | 'seen_digest'
  | 'rejected_digest'
  | 'correction'
  | 'listed_at'
>;
type Known = Map<string, KnownRow>;

/** The definitions that a server has just listed: a page of a list, or its instructions. */
export interface ListedDefinitions {
  readonly kind: DefinitionKind;
  readonly definitions: readonly Definition[];
  /** Whether the list ends with this page. */
  readonly isLast: boolean;
}

/** A correction as it applies to a listed tool. */
export interface ListedCorrection {
  readonly correction: ToolCorrection;
  /** Whether the tool's annotations differ from the accepted ones, so that the correction may have been made for another tool. */
  readonly isDoubtful: boolean;
}

/** How a list compares with the accepted definitions. */
export interface ComparedDefinitions {
  /** What happens to definitions that differ, as configured now; `undefined` if the server was deleted. */
  readonly rule: 'flag' | 'withhold' | undefined;
  /** The definitions that differ from the accepted one in a new way. */
  readonly changed: readonly Definition[];
  /** The definitions that are new or have changed, and wait to be accepted for the first time. */
  readonly added: readonly Definition[];
  /** The names of all definitions that differ from the accepted one. */
  readonly differing: readonly string[];
  /** The names that are not remembered, because the server has too many. They have no accepted definition. */
  readonly beyond: readonly string[];
  /** All names that no caller may see. */
  readonly withheld: readonly string[];
  /** The corrections of tools that are not withheld, by name. */
  readonly corrections: ReadonlyMap<string, ListedCorrection>;
  /** While `definitionsState` returns `state`, and until the time `until`, the same list has the same result. */
  readonly basis: { readonly state: string; readonly until: EpochSeconds } | undefined;
}

/** Records the result of a comparison, in the transaction that stores changes, if any. May run again with that transaction. */
export type RecordDefinitions = (tx: Db, result: ComparedDefinitions) => Promise<void>;

/** The columns of a server that comparisons depend on. */
interface State {
  readonly rule: 'flag' | 'withhold';
  readonly newOnes: 'offer' | 'review';
  readonly listedKinds: readonly string[];
  readonly text: string;
}

const stateQuery = immediateQuery((db, targetId: string) =>
  db
    .selectFrom('target')
    .select(['changed_tools', 'new_tools', 'listed_kinds', 'definitions_revision'])
    .where('id', '=', targetId),
);

/**
 * A text that changes whenever the same list of this server may compare differently; `undefined` if the server was deleted. The text may come
 * from a transaction that is not committed yet: only compare it with the `basis` of a comparison, and store nothing under it.
 */
export async function definitionsState(db: Db, targetId: string): Promise<string | undefined> {
  const [row] = await stateQuery(db, targetId);
  return row && readState(row).text;
}

/**
 * Compares the definitions that a server has just listed with the accepted ones, as they are in the database now, and stores what is new. A
 * definition that is listed for the first time is accepted as listed or waits for review, as administrators chose. One that is as accepted
 * again is no longer marked as changed. One that was not listed for 30 days, while others were, is forgotten.
 *
 * Only accepted definitions decide, so no order of lists, at any process, lets another definition through.
 */
export async function noteDefinitions(
  db: Db,
  targetId: string,
  listed: ListedDefinitions,
  now: EpochSeconds,
  record: RecordDefinitions = () => Promise.resolve(),
): Promise<ComparedDefinitions> {
  const { kind, definitions } = listed;
  // The state is read first: if something changes between the reads, the result belongs to a state that no longer applies.
  const state = await stateOf(db, targetId);
  const known = await knownOf(db, targetId, kind);
  const isFull = known.size >= mostKnown && forgettable(known, listed, state, now).length === 0;
  const isNoted = (definition: Definition) => {
    const row = known.get(definition.name);
    if (!row) return isFull;
    return latestDigest(row) === definition.digest && !isStale(row, now) && !lacks(row, definition);
  };
  if (definitions.every(isNoted) && !isFirstWhole(listed, state)) {
    const same = compared(state, listed, known, now);
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

/** Compares definitions that may have been listed some time ago with those that are accepted now, without storing anything. */
export async function compareDefinitions(
  db: Db,
  targetId: string,
  listed: ListedDefinitions,
  now: EpochSeconds,
): Promise<ComparedDefinitions> {
  // The state is read first, as in `noteDefinitions`.
  const state = await stateOf(db, targetId);
  return compared(state, listed, await knownOf(db, targetId, listed.kind), now);
}

/** The digest with which the definition was last listed. */
function latestDigest({ seen_digest: seen, accepted_digest: accepted }: KnownRow): string {
  return seen ?? accepted ?? '';
}

/** Whether `listed_at` was last written at least a day ago. */
function isStale({ listed_at: at }: KnownRow, now: EpochSeconds): boolean {
  return at <= now - daySeconds;
}

/** Whether the listed definition is the accepted one and has annotations that the row lacks. */
function lacks(row: KnownRow, { digest, annotations }: Definition): boolean {
  const isAccepted = row.accepted_digest === digest;
  return isAccepted && annotations !== undefined && row.accepted_annotations === null;
}

/** Whether this is the first time that a list of this kind was read to its end. */
function isFirstWhole({ kind, isLast }: ListedDefinitions, state: State | undefined): boolean {
  return isLast && state !== undefined && !state.listedKinds.includes(kind);
}

function compared(
  state: State | undefined,
  { definitions }: ListedDefinitions,
  known: Known,
  now: EpochSeconds,
): ComparedDefinitions {
  const differing: string[] = [];
  const beyond: string[] = [];
  const withheld: string[] = [];
  const corrections = new Map<string, ListedCorrection>();
  let oldest = now;
  for (const { name, digest, annotations } of definitions) {
    const row = known.get(name);
    const isOther = row?.accepted_digest !== digest;
    if (!row) beyond.push(name);
    else if (isOther && row.accepted_digest !== null) differing.push(name);
    oldest = Math.min(oldest, row?.listed_at ?? now);
    const listedNow = row && { ...row, seen_digest: isOther ? digest : null };
    if (!listedNow || isClosed(listedNow, state?.rule ?? 'withhold')) withheld.push(name);
    else if (row.correction !== null) {
      const isDoubtful = isOther && annotations !== row.accepted_annotations;
      corrections.set(name, { correction: readToolCorrection(row.correction), isDoubtful });
    }
  }
  const isRepeatable = state !== undefined && beyond.length === 0;
  return {
    rule: state?.rule,
    changed: [],
    added: [],
    differing,
    beyond,
    withheld,
    corrections,
    basis: isRepeatable ? { state: state.text, until: oldest + daySeconds } : undefined,
  };
}

/** The parts of a list that have to be written. */
interface Changes {
  /** New, and accepted as listed. */
  readonly offered: Definition[];
  /** New, and waiting for review. */
  readonly waiting: Definition[];
  /** Listed with another definition than last time, which is not the accepted one. */
  readonly seen: Definition[];
  /** Listed with the accepted definition again. */
  readonly restored: string[];
  /** Listed with the accepted definition, whose annotations were not stored yet. */
  readonly completed: Definition[];
}

async function storeListed(
  tx: Db,
  targetId: string,
  listed: ListedDefinitions,
  now: EpochSeconds,
): Promise<ComparedDefinitions> {
  const { kind, definitions } = listed;
  const state = await stateOf(tx, targetId);
  const known = await knownOf(tx, targetId, kind);
  if (!state) return compared(state, listed, known, now);
  const rows = { tx, targetId, kind };
  const sizeBefore = known.size;
  const gone = forgettable(known, listed, state, now);
  for (const name of gone) known.delete(name);
  const before = new Map(known);
  const changes = changesIn(definitions, known, state, now);
  const { offered, waiting, seen, restored, completed } = changes;
  await removeRows(rows, gone);
  await putTexts(rows, changes, now);
  await updateRows(rows, restored, {
    seen_digest: null,
    seen_text: null,
    seen_annotations: null,
    changed_at: null,
  });
  for (const { name, annotations } of completed) {
    await updateRows(rows, [name], { accepted_annotations: annotations ?? null });
  }
  const listedNow = definitions.flatMap(({ name }) => known.get(name) ?? []);
  const stale = listedNow.filter((row) => isStale(row, now)).map(({ name }) => name);
  await updateRows(rows, stale, { listed_at: now });
  for (const name of stale) {
    const row = known.get(name);
    if (row) known.set(name, { ...row, listed_at: now });
  }
  const isFirst = isFirstWhole(listed, state);
  if (isFirst) {
    const listedKinds = JSON.stringify([...state.listedKinds, kind].toSorted());
    await tx
      .updateTable('target')
      .set({ listed_kinds: listedKinds })
      .where('id', '=', targetId)
      .execute();
  }
  const moved = [gone, offered, waiting, seen, restored, completed].some((one) => one.length > 0);
  if (moved || isFirst || sizeBefore >= mostKnown) {
    await countDefinitionChange(tx, targetId);
    await renewClosedTools(tx, targetId);
  }
  const isNew = ({ name }: Definition) => (before.get(name)?.accepted_digest ?? null) === null;
  return {
    ...compared(await stateOf(tx, targetId), listed, known, now),
    changed: seen.filter((definition) => !isNew(definition)),
    added: [...waiting, ...seen.filter(isNew)],
  };
}

/** Finds the parts of a list that have to be written. Makes the same changes in `known`. */
function changesIn(
  definitions: readonly Definition[],
  known: Known,
  { newOnes }: State,
  now: EpochSeconds,
): Changes {
  const changes: Changes = { offered: [], waiting: [], seen: [], restored: [], completed: [] };
  for (const definition of definitions) {
    const { name, digest, annotations = null } = definition;
    const row = known.get(name);
    if (!row) {
      if (known.size >= mostKnown) continue;
      const isOffered = newOnes === 'offer';
      changes[isOffered ? 'offered' : 'waiting'].push(definition);
      known.set(name, {
        name,
        accepted_digest: isOffered ? digest : null,
        accepted_annotations: isOffered ? annotations : null,
        seen_digest: isOffered ? null : digest,
        rejected_digest: null,
        correction: null,
        listed_at: now,
      });
      continue;
    }
    if (latestDigest(row) !== digest) {
      const isChanged = row.accepted_digest !== digest;
      if (isChanged) changes.seen.push(definition);
      else changes.restored.push(name);
      known.set(name, { ...row, seen_digest: isChanged ? digest : null });
    }
    if (lacks(row, definition)) {
      changes.completed.push(definition);
      known.set(name, { ...row, seen_digest: null, accepted_annotations: annotations });
    }
  }
  return changes;
}

/**
 * The names of definitions that were not listed within the 30 days before the last day on which others were. Today does not count, because
 * other pages of the same list may follow. Definitions that are marked as changed are never forgotten, or servers could get them accepted by
 * not listing them; nor are those that people rejected or corrected. One that was never accepted is forgotten only if it would wait again.
 */
function forgettable(
  known: Known,
  { definitions }: ListedDefinitions,
  state: State | undefined,
  now: EpochSeconds,
): string[] {
  const rows = [...known.values()];
  const before = rows.map(({ listed_at: at }) => at).filter((at) => at <= now - daySeconds);
  const lastDay = before.reduce((latest, at) => Math.max(latest, at), 0);
  const names = new Set(definitions.map(({ name }) => name));
  return rows
    .filter((row) => {
      const isOld = row.listed_at < lastDay - rememberedSeconds;
      const waitsAgain = row.accepted_digest === null && state?.newOnes === 'review';
      const isOpen = row.seen_digest === null || waitsAgain;
      const isDecided = row.rejected_digest !== null || row.correction !== null;
      return isOld && isOpen && !isDecided && !names.has(row.name);
    })
    .map(({ name }) => name);
}

/** The rows of one kind of a server, in a transaction. */
interface Rows {
  readonly tx: Db;
  readonly targetId: string;
  readonly kind: DefinitionKind;
}

/** Stores new definitions, with as many of their texts as there is room for. */
async function putTexts(
  { tx, targetId, kind }: Rows,
  { offered, waiting, seen }: Changes,
  now: EpochSeconds,
): Promise<void> {
  if (offered.length + waiting.length + seen.length === 0) return;
  let room = mostTextBytes - (await textBytes(tx, targetId));
  const textOf = ({ text }: Definition) => {
    room -= Buffer.byteLength(text);
    return room >= 0 ? text : null;
  };
  const accepted = offered.map((definition) => ({
    target_id: targetId,
    kind,
    listed_at: now,
    name: definition.name,
    accepted_digest: definition.digest,
    accepted_text: textOf(definition),
    accepted_annotations: definition.annotations ?? null,
    accepted_at: now,
    seen_digest: null,
    seen_text: null,
    changed_at: null,
  }));
  for (const part of inParts(accepted)) {
    await tx.insertInto('primitive_definition').values(part).execute();
  }
  // A list may name something twice: the last definition counts.
  const last = new Map([...waiting, ...seen].map((definition) => [definition.name, definition]));
  const differing = [...last.values()].map(
    (definition): Insertable<Schema['primitive_definition']> => ({
      target_id: targetId,
      kind,
      listed_at: now,
      name: definition.name,
      accepted_digest: null,
      accepted_text: null,
      accepted_at: null,
      seen_digest: definition.digest,
      seen_text: textOf(definition),
      seen_annotations: definition.annotations ?? null,
      changed_at: now,
    }),
  );
  for (const part of inParts(differing)) {
    await tx
      .insertInto('primitive_definition')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['target_id', 'kind', 'name']).doUpdateSet((row) => ({
          seen_digest: row.ref('excluded.seen_digest'),
          seen_text: row.ref('excluded.seen_text'),
          seen_annotations: row.ref('excluded.seen_annotations'),
          changed_at: row.ref('excluded.changed_at'),
        })),
      )
      .execute();
  }
}

/** How many bytes of texts are stored of a server. */
async function textBytes(tx: Db, targetId: string): Promise<number> {
  const { bytes } = await tx
    .selectFrom('primitive_definition')
    .select(({ fn }) => [
      fn
        .sum<number | string | null>(
          fn<number>('octet_length', [fn<string>('concat', ['accepted_text', 'seen_text'])]),
        )
        .as('bytes'),
    ])
    .where('target_id', '=', targetId)
    .executeTakeFirstOrThrow();
  return Number(bytes ?? 0);
}

async function updateRows(
  { tx, targetId, kind }: Rows,
  names: readonly string[],
  change: Updateable<Schema['primitive_definition']>,
): Promise<void> {
  for (const part of inParts(names)) {
    await tx
      .updateTable('primitive_definition')
      .set(change)
      .where('target_id', '=', targetId)
      .where('kind', '=', kind)
      .where('name', 'in', part)
      .execute();
  }
}

async function removeRows({ tx, targetId, kind }: Rows, names: readonly string[]): Promise<void> {
  for (const part of inParts(names)) {
    await tx
      .deleteFrom('primitive_definition')
      .where('target_id', '=', targetId)
      .where('kind', '=', kind)
      .where('name', 'in', part)
      .execute();
  }
}

async function stateOf(db: Db, targetId: string): Promise<State | undefined> {
  const row = await db
    .selectFrom('target')
    .select(['changed_tools', 'new_tools', 'listed_kinds', 'definitions_revision'])
    .where('id', '=', targetId)
    .executeTakeFirst();
  return row && readState(row);
}

type StateRow = Pick<
  Selectable<Schema['target']>,
  'changed_tools' | 'new_tools' | 'listed_kinds' | 'definitions_revision'
>;

function readState(row: StateRow): State {
  return {
    rule: row.changed_tools === 'withhold' ? 'withhold' : 'flag',
    newOnes: row.new_tools === 'review' ? 'review' : 'offer',
    listedKinds: readStrings(row.listed_kinds),
    text: [row.changed_tools, row.new_tools, row.listed_kinds, row.definitions_revision].join(' '),
  };
}

async function knownOf(db: Db, targetId: string, kind: DefinitionKind): Promise<Known> {
  const rows = await db
    .selectFrom('primitive_definition')
    .select([
      'name',
      'accepted_digest',
      'accepted_annotations',
      'seen_digest',
      'rejected_digest',
      'correction',
      'listed_at',
    ])
    .where('target_id', '=', targetId)
    .where('kind', '=', kind)
    .execute();
  return new Map(rows.map((row) => [row.name, row]));
}
