import { sql, type Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { emailKey } from '#model/email';
import { isRole } from '#model/roles';
import { containsText, countRows } from './columns.ts';
import { endLastAccess } from './leavers.ts';
import { findMember, insertPerson, lockMembers, removeMember } from './people.ts';
import type { Schema } from './schema.ts';
import { transaction, type Db } from './transaction.ts';

/*
 * The people that a directory describes by SCIM. An entry is the organization's own copy: it never changes a person's account or its
 * address. An active entry makes or adopts a membership, an inactive one ends it.
 */

/** A person as the directory of an organization describes them. */
export type ScimUser = ReturnType<typeof readScimUser>;

function readScimUser(row: Selectable<Schema['scim_user']>) {
  const attributes: unknown = JSON.parse(row.attributes);
  return {
    /** `su_` and 16 base62 characters. */
    id: row.id,
    organizationId: row.organization_id,
    /** The person whom the entry is linked to; `undefined` until someone with its address becomes a member. */
    userId: row.person_id ?? undefined,
    /** Unique in the organization, compared case-insensitively. */
    userName: row.user_name,
    externalId: row.external_id ?? undefined,
    // Written by `columnsOf`.
    attributes: attributes as ScimAttributes,
    active: row.active === 1,
    createdAt: row.created_at,
    changedAt: row.changed_at,
  } as const;
}

/** The other attributes that the directory sent, under their SCIM names. */
export type ScimAttributes = Readonly<Record<string, unknown>>;

/** The facts that a directory can change. */
export interface ScimUserFacts {
  readonly userName: string;
  readonly externalId: string | undefined;
  readonly attributes: ScimAttributes;
  readonly active: boolean;
  /** The addresses by which it may be linked to a member, the most important one first. */
  readonly addresses: readonly string[];
}

/** The most users of one directory. It bounds how much a list, a filter or a count reads. */
export const mostScimUsers = 100_000;

/** The effect of a change on the membership; `kept` if it had none. */
export type MembershipEffect = 'began' | 'ended' | 'kept';

/**
 * The result of a change. `taken`: another entry has the user name, or is linked to the member with this address. `last-owner`: the
 * organization would be left without an owner. `full`: the organization has as many entries as it can have.
 */
export type ScimUserResult =
  | { readonly outcome: 'done'; readonly user: ScimUser; readonly effect: MembershipEffect }
  | { readonly outcome: 'taken' | 'last-owner' | 'unknown' | 'full' };

interface WriteContext {
  readonly now: EpochSeconds;
  /** The address whose domain the organization has proved. An account can be created only with this address. */
  readonly provenAddress: string | undefined;
  /** The id for a new account, if one is created. */
  readonly newUserId: string;
}

/** Adds an entry, and makes or adopts the membership that it stands for. Changes nothing unless the outcome is `done`. */
export async function insertScimUser(
  db: Db,
  { id, organizationId, ...facts }: ScimUserFacts & Pick<ScimUser, 'id' | 'organizationId'>,
  context: WriteContext,
  most = mostScimUsers,
): Promise<ScimUserResult> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    // Counted in an index alone, unlike in `countScimUsers`.
    const count = await countRows(
      tx.selectFrom('scim_user').where('organization_id', '=', organizationId),
    );
    if (count >= most) return { outcome: 'full' };
    const prepared = await prepare(tx, { id, organizationId }, facts, context);
    if (typeof prepared === 'string') return { outcome: prepared };
    const { now } = context;
    await tx
      .insertInto('scim_user')
      .values({
        id,
        organization_id: organizationId,
        ...columnsOf(facts, prepared.userId),
        role: 'member',
        created_at: now,
        changed_at: now,
      })
      .execute();
    return finish(tx, { id, organizationId, ...prepared }, facts, context);
  });
}

/**
 * Replaces what the directory says about a person, and begins or ends the membership accordingly. Changes nothing unless the outcome
 * is `done`.
 */
export async function updateScimUser(
  db: Db,
  { id, organizationId, ...facts }: ScimUserFacts & Pick<ScimUser, 'id' | 'organizationId'>,
  context: WriteContext,
): Promise<ScimUserResult> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    if (!(await findScimUser(tx, organizationId, id))) return { outcome: 'unknown' };
    const prepared = await prepare(tx, { id, organizationId }, facts, context);
    if (typeof prepared === 'string') return { outcome: prepared };
    await tx
      .updateTable('scim_user')
      .set({ ...columnsOf(facts, prepared.userId), changed_at: context.now })
      .where('id', '=', id)
      .execute();
    return finish(tx, { id, organizationId, ...prepared }, facts, context);
  });
}

/** Deletes an entry, and ends the membership that it stands for. Changes nothing unless the outcome is `done`. */
export async function deleteScimUser(
  db: Db,
  { id, organizationId }: Pick<ScimUser, 'id' | 'organizationId'>,
  now: EpochSeconds,
): Promise<ScimUserResult> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    const user = await findScimUser(tx, organizationId, id);
    if (!user) return { outcome: 'unknown' };
    const effect = await leave(tx, user, now);
    if (effect === 'last-owner') return { outcome: effect };
    await tx.deleteFrom('scim_user').where('id', '=', id).execute();
    return { outcome: 'done', user, effect };
  });
}

interface Prepared {
  readonly userId: string | undefined;
  /** `ended` if the entry is inactive and its membership was ended. */
  readonly ended: 'ended' | 'kept';
}

/** Finds what prevents a write and whom the entry is linked to, and ends the membership of an inactive entry. */
async function prepare(
  tx: Db,
  entry: Pick<ScimUser, 'id' | 'organizationId'>,
  { userName, active, addresses }: ScimUserFacts,
  { now }: WriteContext,
): Promise<Prepared | 'taken' | 'last-owner'> {
  const { id, organizationId } = entry;
  const same = await tx
    .selectFrom('scim_user')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('user_name_key', '=', userNameKey(userName))
    .where('id', '<>', id)
    .executeTakeFirst();
  if (same) return 'taken';
  const linked = await linkedPerson(tx, entry, addresses);
  if (linked === 'taken') return 'taken';
  const ended = active ? 'kept' : await leave(tx, { organizationId, ...linked }, now);
  return ended === 'last-owner' ? ended : { ...linked, ended };
}

/** Begins the membership of an active entry, and reads what was written. */
async function finish(
  tx: Db,
  { ended, ...entry }: Prepared & Pick<ScimUser, 'id' | 'organizationId'>,
  { active, addresses }: ScimUserFacts,
  context: WriteContext,
): Promise<ScimUserResult> {
  const effect = active ? await enter(tx, entry, addresses[0], context) : ended;
  const user = await findScimUser(tx, entry.organizationId, entry.id);
  return user ? { outcome: 'done', user, effect } : { outcome: 'unknown' };
}

/** The person an entry is linked to: as before, or the member who has one of its addresses. */
async function linkedPerson(
  tx: Db,
  { id, organizationId }: Pick<ScimUser, 'id' | 'organizationId'>,
  addresses: readonly string[],
): Promise<{ readonly userId: string | undefined } | 'taken'> {
  const known = await findScimUser(tx, organizationId, id);
  if (known?.userId !== undefined) return { userId: known.userId };
  for (const address of addresses) {
    const member = await tx
      .selectFrom('person')
      .innerJoin('membership', 'membership.person_id', 'person.id')
      .leftJoin('scim_user', (join) =>
        join
          .onRef('scim_user.person_id', '=', 'person.id')
          .on('scim_user.organization_id', '=', organizationId),
      )
      .select(['person.id', 'scim_user.id as taken_by'])
      .where('membership.organization_id', '=', organizationId)
      .where('person.email_key', '=', emailKey(address))
      .executeTakeFirst();
    if (member) return member.taken_by === null ? { userId: member.id } : 'taken';
  }
  return { userId: undefined };
}

type Linked = Pick<ScimUser, 'id' | 'organizationId' | 'userId'>;

/**
 * Makes the linked person a member; without one, a new or unclaimed account with `provenAddress`. Otherwise the entry waits: an address
 * alone proves nothing about an account that someone uses, and a new account must not take the address of someone elsewhere.
 */
async function enter(
  tx: Db,
  { id, organizationId, userId }: Linked,
  address: string | undefined,
  { now, provenAddress, newUserId }: WriteContext,
): Promise<MembershipEffect> {
  const role = await rememberedRole(tx, id);
  if (userId !== undefined) {
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('membership')
      .values({ person_id: userId, organization_id: organizationId, role, source: 'scim' })
      .onConflict((conflict) => conflict.columns(['person_id', 'organization_id']).doNothing())
      .executeTakeFirst();
    return numInsertedOrUpdatedRows === 1n ? 'began' : 'kept';
  }
  if (address === undefined || address !== provenAddress) return 'kept';
  const isNew = await insertPerson(tx, { id: newUserId, email: address, createdAt: now });
  const personId = isNew ? newUserId : await unclaimedAccount(tx, address);
  if (personId === undefined) return 'kept';
  await tx
    .insertInto('membership')
    .values({ person_id: personId, organization_id: organizationId, role, source: 'scim' })
    .execute();
  await tx
    .updateTable('scim_user')
    .set({ person_id: personId, email_key: emailKey(address) })
    .where('id', '=', id)
    .execute();
  return 'began';
}

/**
 * An account with this address that no one can sign in to and that belongs to no organization, such as one that a directory created
 * and whose entry it deleted again.
 */
async function unclaimedAccount(tx: Db, address: string): Promise<string | undefined> {
  const person = await tx
    .selectFrom('person')
    .select('id')
    .where('email_key', '=', emailKey(address))
    .executeTakeFirst();
  if (!person) return undefined;
  for (const table of ['membership', 'password', 'passkey', 'identity'] as const) {
    const owned = await tx
      .selectFrom(table)
      .select('person_id')
      .where('person_id', '=', person.id)
      .executeTakeFirst();
    if (owned) return undefined;
  }
  return person.id;
}

async function rememberedRole(tx: Db, id: string) {
  const row = await tx
    .selectFrom('scim_user')
    .select('role')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  if (!isRole(row.role)) throw new TypeError(`the role ${String(row.role)} is unknown`);
  return row.role;
}

/** Ends the membership; with the person's last one, also all their sessions and personal tokens. */
async function leave(
  tx: Db,
  { organizationId, userId }: Pick<Linked, 'organizationId' | 'userId'>,
  now: EpochSeconds,
): Promise<'ended' | 'kept' | 'last-owner'> {
  if (userId === undefined) return 'kept';
  const member = await findMember(tx, organizationId, userId);
  if (!member) return 'kept';
  const removed = await removeMember(tx, organizationId, userId, member.role);
  if (removed !== 'done') return 'last-owner';
  await endLastAccess(tx, userId, now);
  return 'ended';
}

export async function findScimUser(
  db: Db,
  organizationId: string,
  id: string,
): Promise<ScimUser | undefined> {
  const row = await db
    .selectFrom('scim_user')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row && readScimUser(row);
}

/** Restricts a list to entries that can match; the caller must check whether they do. */
export interface ScimUserHint {
  readonly id?: string;
  readonly userName?: string;
  readonly externalId?: string;
  /** ASCII text that the attributes contain, in upper or lower case. */
  readonly text?: string;
}

/** Entries ordered by id. */
export async function listScimUsers(
  db: Db,
  organizationId: string,
  {
    hint = {},
    offset = 0,
    after = '',
    limit,
  }: { hint?: ScimUserHint; offset?: number; after?: string; limit: number },
): Promise<ScimUser[]> {
  const rows = await selectHinted(db, organizationId, hint)
    .selectAll()
    .where('id', '>', after)
    .orderBy('id')
    .offset(offset)
    .limit(limit)
    .execute();
  return rows.map(readScimUser);
}

/** How many entries an organization has: all, those that are active, and active ones that wait for a person. */
export async function countScimUsers(
  db: Db,
  organizationId: string,
): Promise<{ readonly all: number; readonly active: number; readonly waiting: number }> {
  const row = await db
    .selectFrom('scim_user')
    .select(({ fn }) => fn.countAll<number | string>().as('all'))
    .select([
      sql<number | string | null>`sum(active)`.as('active'),
      sql<
        number | string | null
      >`sum(case when active = 1 and person_id is null then 1 else 0 end)`.as('waiting'),
    ])
    .where('organization_id', '=', organizationId)
    .executeTakeFirstOrThrow();
  return { all: Number(row.all), active: Number(row.active), waiting: Number(row.waiting) };
}

/** The user names of active entries that wait for a person with their address to become a member: at most `limit`. */
export async function listWaiting(
  db: Db,
  organizationId: string,
  limit: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('scim_user')
    .select('user_name')
    .where('organization_id', '=', organizationId)
    .where('active', '=', 1)
    .where('person_id', 'is', null)
    .orderBy('user_name_key')
    .limit(limit)
    .execute();
  return rows.map(({ user_name: name }) => name);
}

function selectHinted(db: Db, organizationId: string, hint: ScimUserHint) {
  const { id, userName, externalId, text } = hint;
  return db
    .selectFrom('scim_user')
    .where('organization_id', '=', organizationId)
    .$if(id !== undefined, (query) => query.where('id', '=', id ?? ''))
    .$if(userName !== undefined, (query) =>
      query.where('user_name_key', '=', userNameKey(userName ?? '')),
    )
    .$if(externalId !== undefined, (query) => query.where('external_id', '=', externalId ?? ''))
    .$if(text !== undefined, (query) =>
      query.where((where) => containsText(where.ref('attributes'), text ?? '')),
    );
}

/** The form in which user names are compared. */
function userNameKey(userName: string): string {
  return userName.normalize('NFKC').toLowerCase();
}

function columnsOf(
  { userName, externalId, attributes, active, addresses }: ScimUserFacts,
  userId: string | undefined,
) {
  const [address] = addresses;
  return {
    person_id: userId ?? null,
    user_name: userName,
    user_name_key: userNameKey(userName),
    external_id: externalId ?? null,
    email_key: address === undefined ? null : emailKey(address),
    attributes: JSON.stringify(attributes),
    active: active ? 1 : 0,
  };
}
