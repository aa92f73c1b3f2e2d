import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import {
  keyPlace,
  type KeyState,
  type PersonKeyRule,
  personKeyRuleSchema,
} from '#model/person-keys';
import type { Schema } from './schema.ts';
import { lockUpstream } from './servers.ts';
import { transaction, type Db } from './transaction.ts';

// The keys of people for MCP servers that require a key of each person. A row is deleted with the membership, the server, and the
// place that the key was entered for. Latchkey revokes nothing at the upstream, because only the person can do that.

/** A person's key at a target. */
export interface PersonKey extends KeyState {
  readonly targetId: string;
  readonly userId: string;
  /** The place that it was entered for; see `keyPlace`. */
  readonly place: string;
  /** Encrypted for `keyPurpose`. */
  readonly sealedKey: string;
  readonly hint?: string | undefined;
  /** The previous key, encrypted in the same way, until the new key is proved. */
  readonly sealedPrevious?: string | undefined;
  /** Changes with the key. */
  readonly version: number;
}

export interface NewPersonKey {
  readonly targetId: string;
  readonly userId: string;
  readonly organizationId: string;
  readonly place: string;
  readonly sealedKey: string;
  readonly hint: string | undefined;
  readonly setAt: EpochSeconds;
  readonly provedAt: EpochSeconds | undefined;
  /** The version of the key that it replaces; `undefined` for a first one. */
  readonly replaces: number | undefined;
}

/** A key in the list of the people who have one at a target. */
export interface ListedKey extends KeyState {
  readonly userId: string;
  readonly email: string;
}

type At = Pick<PersonKey, 'targetId' | 'userId'>;

export async function findPersonKey(
  db: Db,
  { targetId, userId }: At,
): Promise<PersonKey | undefined> {
  const row = await db
    .selectFrom('person_key')
    .selectAll()
    .where('target_id', '=', targetId)
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return row && readKey(row);
}

/**
 * Stores a key that was tried. The key that it replaces is kept as the previous one, unless the new key is proved or the place changed.
 *
 * @returns `false` when the person left, the server requires no key any more or is at another place, or the key was replaced meanwhile
 */
export async function replacePersonKey(db: Db, key: NewPersonKey): Promise<boolean> {
  const { targetId, userId, organizationId, place, replaces } = key;
  return transaction(db, async (tx) => {
    const upstream = await lockUpstream(tx, targetId);
    if (!upstream || keyPlace(upstream) !== place) return false;
    const isActive = await tx
      .selectFrom('target')
      .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
      .innerJoin('membership', 'membership.organization_id', 'endpoint.organization_id')
      .select('target.id')
      .where('target.id', '=', targetId)
      .where('target.upstream_key', 'is not', null)
      .where('membership.person_id', '=', userId)
      .where('membership.organization_id', '=', organizationId)
      .executeTakeFirst();
    if (!isActive) return false;
    const before = await findPersonKey(tx, key);
    if (before?.version !== replaces) return false;
    const isKept = before?.place === place && key.provedAt === undefined;
    const columns = {
      place,
      sealed_key: key.sealedKey,
      hint: key.hint ?? null,
      set_at: key.setAt,
      proved_at: key.provedAt ?? null,
      refused_at: null,
      last_used_at: null,
      previous_sealed_key: isKept ? keptBefore(before) : null,
      version: (before?.version ?? 0) + 1,
    };
    const of = { target_id: targetId, person_id: userId, organization_id: organizationId };
    await tx
      .insertInto('person_key')
      .values({ ...of, ...columns })
      .onConflict((conflict) => conflict.columns(['target_id', 'person_id']).doUpdateSet(columns))
      .execute();
    return true;
  });
}

/** The key to keep as the previous one: the current key, or the one before it if the upstream refused the current key. */
function keptBefore({ sealedKey, sealedPrevious, refusedAt }: PersonKey): string {
  return refusedAt !== undefined && sealedPrevious !== undefined ? sealedPrevious : sealedKey;
}

type Version = At & Pick<PersonKey, 'version'>;

/** Records that the tool of the rule answered when the key was tried again: the previous key is no longer needed. */
export async function notePersonKeyProved(
  db: Db,
  key: Version,
  now: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await ofVersion(db, key)
    .set({ proved_at: now, refused_at: null, previous_sealed_key: null })
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

const notedEverySeconds = 60;

/** Records that the upstream refused the key. Writes at most once a minute. */
export async function notePersonKeyRefused(db: Db, key: Version, now: EpochSeconds): Promise<void> {
  await ofVersion(db, key)
    .set({ refused_at: now })
    .where((where) =>
      where.or([
        where('refused_at', 'is', null),
        where('refused_at', '<=', now - notedEverySeconds),
      ]),
    )
    .execute();
}

const usedEverySeconds = 300;

/** Records that the upstream accepted the key. Writes at most every five minutes, unless it had refused the key before. */
export async function notePersonKeyAccepted(
  db: Db,
  key: Version & Pick<KeyState, 'refusedAt' | 'lastUsedAt'>,
  now: EpochSeconds,
): Promise<void> {
  const { refusedAt, lastUsedAt = 0 } = key;
  if (refusedAt === undefined && now - lastUsedAt < usedEverySeconds) return;
  await ofVersion(db, key).set({ refused_at: null, last_used_at: now }).execute();
}

/** Removes a key immediately. @returns `false` when there is none */
export async function deletePersonKey(db: Db, { targetId, userId }: At): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('person_key')
    .where('target_id', '=', targetId)
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** The people who have a key at a target, ordered by e-mail address. */
export async function listPersonKeys(db: Db, targetId: string): Promise<ListedKey[]> {
  const rows = await db
    .selectFrom('person_key')
    .innerJoin('person', 'person.id', 'person_key.person_id')
    .selectAll('person_key')
    .select('person.email')
    .where('person_key.target_id', '=', targetId)
    .orderBy('person.email_key')
    .execute();
  return rows.map((row) =>
    Object.assign({ userId: row.person_id, email: row.email }, stateOf(row)),
  );
}

/**
 * Sets the key that a target requires of each person; `undefined` for none, which removes their keys. When the header or the template
 * changes, no key is proved any more.
 *
 * @returns `false` when the target's upstream does not receive requests with headers
 */
export async function setPersonKeyRule(
  db: Db,
  targetId: string,
  rule: PersonKeyRule | undefined,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const upstream = await lockUpstream(tx, targetId);
    if (rule && (!upstream || keyPlace(upstream) === undefined)) return false;
    const before = await findRule(tx, targetId);
    await tx
      .updateTable('target')
      .set({ upstream_key: rule ? ruleText(rule) : null })
      .where('id', '=', targetId)
      .execute();
    if (!rule) {
      await tx.deleteFrom('person_key').where('target_id', '=', targetId).execute();
    } else if (before?.header !== rule.header || before.template !== rule.template) {
      await tx
        .updateTable('person_key')
        .set({ proved_at: null })
        .where('target_id', '=', targetId)
        .execute();
    }
    return true;
  });
}

async function findRule(db: Db, targetId: string): Promise<PersonKeyRule | undefined> {
  const row = await db
    .selectFrom('target')
    .select('upstream_key')
    .where('id', '=', targetId)
    .executeTakeFirst();
  const text = row?.upstream_key;
  return text ? personKeyRuleSchema.parse(JSON.parse(text)) : undefined;
}

function ruleText({ header, template, label, helpUrl, tool }: PersonKeyRule): string {
  return JSON.stringify({ header, template, label, helpUrl, tool });
}

function ofVersion(db: Db, { targetId, userId, version }: Version) {
  return db
    .updateTable('person_key')
    .where('target_id', '=', targetId)
    .where('person_id', '=', userId)
    .where('version', '=', version);
}

function readKey(row: Selectable<Schema['person_key']>): PersonKey {
  return {
    targetId: row.target_id,
    userId: row.person_id,
    place: row.place,
    sealedKey: row.sealed_key,
    ...(row.hint !== null && { hint: row.hint }),
    ...(row.previous_sealed_key !== null && { sealedPrevious: row.previous_sealed_key }),
    version: row.version,
    ...stateOf(row),
  };
}

function stateOf(
  row: Pick<
    Selectable<Schema['person_key']>,
    'set_at' | 'proved_at' | 'refused_at' | 'last_used_at'
  >,
): KeyState {
  return {
    setAt: row.set_at,
    ...(row.proved_at !== null && { provedAt: row.proved_at }),
    ...(row.refused_at !== null && { refusedAt: row.refused_at }),
    ...(row.last_used_at !== null && { lastUsedAt: row.last_used_at }),
  };
}
