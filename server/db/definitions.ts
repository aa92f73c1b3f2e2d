import type { Selectable } from 'kysely';

import type { TargetSubject } from '#model/call-counts';
import type { EpochSeconds } from '#model/clock';
import { definitionKinds, type DefinitionKind } from '#model/definitions';
import {
  readToolCorrection,
  toolCorrectionText,
  type ToolCorrection,
} from '#model/tool-correction';
import { countDefinitionChange, lockTools, renewClosedTools } from './offered.ts';
import type { Schema } from './schema.ts';
import { inParts, transaction, type Db } from './transaction.ts';

// The definitions that servers list, as accepted and as last seen, with the decisions of administrators about them. They contain no secrets.

/** A definition for people to read. */
export interface DefinitionText {
  readonly digest: string;
  /** An ellipsis if the text was not stored, because the definitions of the server are too long together. */
  readonly text: string;
  /** Of a tool: JSON of its annotations, as far as they are known. */
  readonly annotations?: string | undefined;
}

/** A tool, prompt or template that a server lists, or its instructions, with the definitions and decisions that are known. */
export interface KnownDefinition {
  readonly kind: DefinitionKind;
  readonly name: string;
  /** Absent until a definition is accepted for the first time. */
  readonly accepted?: DefinitionText | undefined;
  readonly acceptedAt?: EpochSeconds | undefined;
  /** The actor who accepted it; absent if it was offered without a review. */
  readonly acceptedBy?: string | undefined;
  /** The definition that the server last listed, if it is not the accepted one. It waits for review unless `rejected`. */
  readonly seen?: DefinitionText | undefined;
  readonly changedAt?: EpochSeconds | undefined;
  /** Set if a person has rejected the `seen` definition. */
  readonly rejected?: { readonly at: EpochSeconds; readonly by: string } | undefined;
  /** Whether it is closed, whatever the server's policy, because a definition was rejected and none was accepted since. */
  readonly isClosedByRejection: boolean;
  readonly correction?: CorrectedTool | undefined;
  readonly listedAt: EpochSeconds;
}

/** A correction, and who made it. */
export interface CorrectedTool {
  readonly correction: ToolCorrection;
  readonly at: EpochSeconds;
  readonly by: string;
}

/** A definition that a person has read. */
export interface ReadDefinition {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly digest: string;
}

/** Who decides, and when. */
export interface Decision {
  /** As in the audit log: `user:…`. */
  readonly by: string;
  readonly at: EpochSeconds;
}

type Row = Selectable<Schema['primitive_definition']>;

/** The known definitions of a server, ordered by kind and name. */
export async function listDefinitions(db: Db, targetId: string): Promise<KnownDefinition[]> {
  const rows = await db
    .selectFrom('primitive_definition')
    .selectAll()
    .where('target_id', '=', targetId)
    .orderBy('name')
    .execute();
  const ofKind = Map.groupBy(rows, ({ kind }) => kind);
  return definitionKinds.flatMap((kind) =>
    (ofKind.get(kind) ?? []).map((row) => readDefinition(row, kind)),
  );
}

/** The accepted definition of a kind of which a server has only one, such as its instructions. */
export async function acceptedText(
  db: Db,
  targetId: string,
  kind: DefinitionKind,
): Promise<DefinitionText | undefined> {
  const row = await db
    .selectFrom('primitive_definition')
    .select(['accepted_digest', 'accepted_text'])
    .where('target_id', '=', targetId)
    .where('kind', '=', kind)
    .executeTakeFirst();
  if (!row || row.accepted_digest === null) return undefined;
  return textOf(row.accepted_digest, row.accepted_text, null);
}

/**
 * Accepts definitions that were last seen, and definitions that were offered without a review, which are then recorded as reviewed. Skips a
 * definition that the server has changed since: people accept only what they have read.
 *
 * @returns the accepted definitions
 */
export async function acceptDefinitions(
  db: Db,
  targetId: string,
  read: readonly ReadDefinition[],
  { by, at }: Decision,
): Promise<ReadDefinition[]> {
  const decided = { accepted_at: at, accepted_by: by };
  const cleared = { rejected_digest: null, rejected_at: null, rejected_by: null };
  return decide(db, targetId, read, async (tx, definition) => {
    const { digest } = definition;
    const { numUpdatedRows: seen } = await ofDefinition(tx, targetId, definition)
      .set((row) => ({
        ...decided,
        ...cleared,
        accepted_digest: digest,
        accepted_text: row.ref('seen_text'),
        accepted_annotations: row.ref('seen_annotations'),
        seen_digest: null,
        seen_text: null,
        seen_annotations: null,
        changed_at: null,
      }))
      .where('seen_digest', '=', digest)
      .executeTakeFirst();
    if (seen === 1n) return true;
    const { numUpdatedRows: offered } = await ofDefinition(tx, targetId, definition)
      .set({ ...decided, ...cleared })
      .where('accepted_digest', '=', digest)
      .where('seen_digest', 'is', null)
      .executeTakeFirst();
    return offered === 1n;
  });
}

/**
 * Rejects definitions that were last seen and are not accepted. What they define stays closed, whatever the server's policy for changes, until
 * another definition is accepted or the accepted one is listed again. They wait for review again only after the next change.
 *
 * @returns the rejected definitions
 */
export async function rejectDefinitions(
  db: Db,
  targetId: string,
  read: readonly ReadDefinition[],
  { by, at }: Decision,
): Promise<ReadDefinition[]> {
  return decide(db, targetId, read, async (tx, definition) => {
    const { numUpdatedRows } = await ofDefinition(tx, targetId, definition)
      .set({ rejected_digest: definition.digest, rejected_at: at, rejected_by: by })
      .where('seen_digest', '=', definition.digest)
      .executeTakeFirst();
    return numUpdatedRows === 1n;
  });
}

/**
 * Sets or removes the correction that assistants see in place of what the server says about a tool.
 *
 * @param correction `undefined` removes the correction
 * @returns `false` if the server never listed such a tool
 */
export async function correctTool(
  db: Db,
  targetId: string,
  name: string,
  correction: ToolCorrection | undefined,
  { by, at }: Decision,
): Promise<boolean> {
  const text = correction ? toolCorrectionText(correction) : null;
  const tool = { kind: 'tool', name } as const;
  return transaction(db, async (tx) => {
    await lockTools(tx, targetId);
    const { numUpdatedRows } = await ofDefinition(tx, targetId, tool)
      .set({
        correction: text,
        corrected_at: text === null ? null : at,
        corrected_by: text === null ? null : by,
      })
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    await countDefinitionChange(tx, targetId);
    await renewClosedTools(tx, targetId);
    return true;
  });
}

/** How many definitions of a server wait for review. */
export interface WaitingDefinitions {
  readonly serverId: string;
  readonly name: string;
  readonly waiting: number;
}

/** Counts the definitions that wait for review, by server, ordered by the names of the servers. Servers without any are absent. */
export async function countWaitingDefinitions(
  db: Db,
  organizationId: string,
): Promise<WaitingDefinitions[]> {
  const rows = await db
    .selectFrom('primitive_definition as known')
    .innerJoin('target', 'target.id', 'known.target_id')
    .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
    .select(['endpoint.id as serverId', 'endpoint.name'])
    .select(({ fn }) => fn.countAll<number | string>().as('waiting'))
    .where('endpoint.organization_id', '=', organizationId)
    .where('known.seen_digest', 'is not', null)
    .where((where) =>
      where.or([
        where('known.rejected_digest', 'is', null),
        where('known.rejected_digest', '<>', where.ref('known.seen_digest')),
      ]),
    )
    .groupBy(['endpoint.id', 'endpoint.name'])
    .orderBy('endpoint.name')
    .execute();
  return rows.map(({ serverId, name, waiting }) => ({ serverId, name, waiting: Number(waiting) }));
}

/** The length of each tool's definition, in characters; 0 if its text is not stored. */
export async function toolLengths(db: Db, targetId: string): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom('primitive_definition')
    .select(({ fn }) => [
      'name',
      fn<number | null>('length', ['accepted_text']).as('accepted'),
      fn<number | null>('length', ['seen_text']).as('seen'),
    ])
    .where('target_id', '=', targetId)
    .where('kind', '=', 'tool')
    .execute();
  return new Map(rows.map(({ name, accepted, seen }) => [name, accepted ?? seen ?? 0]));
}

const mostToolNames = 50_000;

/** The names of the tools that the servers of an organization have listed, by server. */
export async function listToolNames(
  db: Db,
  organizationId: string,
): Promise<{ readonly server: string; readonly tool: string }[]> {
  return db
    .selectFrom('primitive_definition as known')
    .innerJoin('target', 'target.id', 'known.target_id')
    .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
    .select(['endpoint.name as server', 'known.name as tool'])
    .where('endpoint.organization_id', '=', organizationId)
    .where('known.kind', '=', 'tool')
    .orderBy('endpoint.name')
    .orderBy('known.name')
    .limit(mostToolNames)
    .execute();
}

/** The given tools that their targets have listed, as far as definitions are stored. */
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

/** Decides about definitions that a person has read. @returns the definitions that `act` found unchanged since they were read */
async function decide(
  db: Db,
  targetId: string,
  read: readonly ReadDefinition[],
  act: (tx: Db, definition: ReadDefinition) => Promise<boolean>,
): Promise<ReadDefinition[]> {
  return transaction(db, async (tx) => {
    await lockTools(tx, targetId);
    const decided: ReadDefinition[] = [];
    for (const definition of read) {
      if (await act(tx, definition)) decided.push(definition);
    }
    if (decided.length > 0) {
      await countDefinitionChange(tx, targetId);
      await renewClosedTools(tx, targetId);
    }
    return decided;
  });
}

function ofDefinition(
  tx: Db,
  targetId: string,
  { kind, name }: Pick<ReadDefinition, 'kind' | 'name'>,
) {
  return tx
    .updateTable('primitive_definition')
    .where('target_id', '=', targetId)
    .where('kind', '=', kind)
    .where('name', '=', name);
}

function readDefinition(row: Row, kind: DefinitionKind): KnownDefinition {
  const { accepted_digest: accepted, seen_digest: seen, rejected_digest: rejected } = row;
  const { correction, rejected_at: rejectedAt, rejected_by: rejectedBy } = row;
  return {
    kind,
    name: row.name,
    ...(accepted !== null && {
      accepted: textOf(accepted, row.accepted_text, row.accepted_annotations),
      acceptedAt: row.accepted_at ?? 0,
      ...(row.accepted_by !== null && { acceptedBy: row.accepted_by }),
    }),
    ...(seen !== null && {
      seen: textOf(seen, row.seen_text, row.seen_annotations),
      changedAt: row.changed_at ?? 0,
      ...(seen === rejected && { rejected: { at: rejectedAt ?? 0, by: rejectedBy ?? '' } }),
    }),
    isClosedByRejection: seen !== null && rejected !== null,
    ...(correction !== null && {
      correction: {
        correction: readToolCorrection(correction),
        at: row.corrected_at ?? 0,
        by: row.corrected_by ?? '',
      },
    }),
    listedAt: row.listed_at,
  };
}

function textOf(digest: string, text: string | null, annotations: string | null): DefinitionText {
  return { digest, text: text ?? '…', ...(annotations !== null && { annotations }) };
}
