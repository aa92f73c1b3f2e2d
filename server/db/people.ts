import { type InferResult, type Selectable, sql } from 'kysely';

import { emailKey } from '#model/email';
import { isRole, type Role } from '#model/roles';
import { preparedQuery } from './prepared-query.ts';
import { linkProvisioned } from './provisioned-people.ts';
import type { Schema } from './schema.ts';
import type { Session } from './sessions.ts';
import { containsText } from './columns.ts';
import { advisoryLock, transaction, type Db, isPostgres } from './transaction.ts';

/** A person who can sign in. */
export type User = ReturnType<typeof readUser>;

function readUser(row: Selectable<Schema['person']>) {
  return {
    /** `user_` and 16 base62 characters. */
    id: row.id,
    /** As entered; compared case-insensitively. */
    email: row.email,
    createdAt: row.created_at,
  } as const;
}

/** A person's membership of an organization, with their role. */
export type Membership = ReturnType<typeof readMembership>;

function readMembership(row: InferResult<ReturnType<typeof selectMemberships>>[number]) {
  return {
    organizationId: row.organization_id,
    organization: row.organization,
    /** The title of the organization; empty if it has none. */
    title: row.title,
    role: readRole(row.role),
  } as const;
}

export type Member = ReturnType<typeof readMember>;

function readMember(
  row: Awaited<ReturnType<typeof membersOfPeople>>[number],
  groups: readonly { readonly id: string; readonly name: string }[],
) {
  return {
    userId: row.id,
    email: row.email,
    role: readRole(row.role),
    groups,
    /** Whether they have a passkey or a confirmed authenticator app. */
    hasSecondFactor: Boolean(row.second_factor),
    /** Whether they may read stored arguments and results. No role implies it. */
    isAuditor: row.is_auditor === 1,
    /** How they became a member: by an invitation or a command, by signing in through a provider, or provisioned by SCIM. */
    source: row.source,
    /** Whether a directory manages the membership by SCIM, even if it did not create it. */
    isProvisioned: row.scim_user_id !== null,
    /** When one of their sessions was last used. */
    seenAt: row.seen_at ?? undefined,
  } as const;
}

/**
 * The result of a change. `stale`: the person now has another role or is no longer a member. `last-owner`: the change would
 * leave the organization without an owner.
 */
export type MembershipChange = 'done' | 'stale' | 'last-owner';

/**
 * Adds a person with a membership, or only the membership if the address is known. Only for the operator and first owners, because it
 * makes a person active again whom a directory deactivated.
 *
 * @returns `false` when both exist
 */
export async function insertUser(
  db: Db,
  { id, email, createdAt }: User,
  { organizationId, role }: { organizationId: string; role: Role },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    await insertPerson(tx, { id, email, createdAt });
    const { id: personId } = await tx
      .selectFrom('person')
      .select('id')
      .where('email_key', '=', emailKey(email))
      .executeTakeFirstOrThrow();
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('membership')
      .values({ person_id: personId, organization_id: organizationId, role })
      .onConflict((conflict) => conflict.columns(['person_id', 'organization_id']).doNothing())
      .executeTakeFirst();
    await linkProvisioned(tx, organizationId, { id: personId, email });
    await tx
      .updateTable('scim_user')
      .set({ active: 1 })
      .where('organization_id', '=', organizationId)
      .where('person_id', '=', personId)
      .execute();
    return numInsertedOrUpdatedRows === 1n;
  });
}

/** Adds an account. @returns `false` when another one has the e-mail address */
export async function insertPerson(tx: Db, { id, email, createdAt }: User): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('person')
    .values({ id, email, email_key: emailKey(email), created_at: createdAt })
    .onConflict((conflict) => conflict.column('email_key').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

const userById = preparedQuery((db, id: string) =>
  db.selectFrom('person').selectAll().where('id', '=', id),
);

export async function findUser(db: Db, id: string): Promise<User | undefined> {
  const [row] = await userById(db, id);
  return row && readUser(row);
}

export async function findUserByEmail(db: Db, email: string): Promise<User | undefined> {
  const row = await db
    .selectFrom('person')
    .selectAll()
    .where('email_key', '=', emailKey(email))
    .executeTakeFirst();
  return row && readUser(row);
}

/** Whether the database contains any person. */
export async function hasUsers(db: Db): Promise<boolean> {
  const someone = await db.selectFrom('person').select('id').limit(1).executeTakeFirst();
  return someone !== undefined;
}

/** All people with their memberships, oldest first. */
export async function listUsers(db: Db): Promise<{ user: User; memberships: Membership[] }[]> {
  const people = await db
    .selectFrom('person')
    .selectAll()
    .orderBy('created_at')
    .orderBy('id')
    .execute();
  const memberships = await selectMemberships(db).execute();
  const ofEach = Map.groupBy(memberships, ({ person_id: id }) => id);
  return people.map((person) => ({
    user: readUser(person),
    memberships: (ofEach.get(person.id) ?? []).map(readMembership),
  }));
}

/** Deletes the person with their sessions, password, passkeys and grants. @returns `false` when there is no such person */
export async function deleteUser(db: Db, userId: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('person')
    .where('id', '=', userId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

const membershipsOfPerson = preparedQuery((db, userId: string) =>
  selectMemberships(db).where('membership.person_id', '=', userId),
);

/** The person's memberships of organizations that are not disabled. */
export async function listMemberships(db: Db, userId: string): Promise<Membership[]> {
  return (await membershipsOfPerson(db, userId)).map(readMembership);
}

/** The memberships that a session gives access to: all of the person's, or the one in the organization whose provider opened the session. */
export async function listOpenMemberships(
  db: Db,
  { userId, through }: Pick<Session, 'userId' | 'through'>,
): Promise<Membership[]> {
  const all = await listMemberships(db, userId);
  if (!through) return all;
  return all.filter(({ organizationId }) => organizationId === through.organizationId);
}

/** At most `limit` members whose address contains `search` and comes after `after`, ordered by e-mail address. */
export async function listMembers(
  db: Db,
  organizationId: string,
  {
    after = '',
    search = '',
    limit,
  }: { after?: string | undefined; search?: string | undefined; limit: number },
): Promise<Member[]> {
  // First find who is on the page: their details would otherwise be computed for every member.
  const page = await db
    .selectFrom('membership')
    .innerJoin('person', 'person.id', 'membership.person_id')
    .select('person.id')
    .where('membership.organization_id', '=', organizationId)
    .where('person.email_key', '>', after)
    .$if(search !== '', (query) =>
      query.where((where) => containsText(where.ref('person.email_key'), emailKey(search))),
    )
    .orderBy('person.email_key')
    .limit(limit)
    .execute();
  if (page.length === 0) return [];
  const ids = page.map(({ id }) => id);
  return withGroups(db, organizationId, await membersOfPeople(db, organizationId, ids));
}

/** The e-mail addresses of at most `limit` members. */
export async function listMemberAddresses(
  db: Db,
  organizationId: string,
  limit: number,
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('membership')
    .innerJoin('person', 'person.id', 'membership.person_id')
    .select('person.email')
    .where('membership.organization_id', '=', organizationId)
    .orderBy('person.email_key')
    .limit(limit)
    .execute();
  return rows.map(({ email }) => email);
}

export async function findMember(
  db: Db,
  organizationId: string,
  userId: string,
): Promise<Member | undefined> {
  const rows = await membersOfPeople(db, organizationId, [userId]);
  return (await withGroups(db, organizationId, rows))[0];
}

/** Whether an owner of the organization has a passkey or a confirmed authenticator app. */
export async function hasOwnerWithSecondFactor(db: Db, organizationId: string): Promise<boolean> {
  const owners = await db
    .selectFrom('membership')
    .select('person_id')
    .where('organization_id', '=', organizationId)
    .where('role', '=', 'owner')
    .execute();
  const ids = owners.map(({ person_id: id }) => id);
  if (ids.length === 0) return false;
  const rows = await membersOfPeople(db, organizationId, ids);
  return rows.some((row) => Boolean(row.second_factor));
}

/** Changes a member's role. Concurrent changes cannot leave the organization without an owner. */
export async function changeRole(
  db: Db,
  organizationId: string,
  userId: string,
  { from, to }: { from: Role; to: Role },
): Promise<MembershipChange> {
  const change = { organizationId, userId, from, staysOwner: to === 'owner' };
  return unlessLastOwner(db, change, (tx) => setRole(tx, organizationId, userId, to));
}

/**
 * Removes a member, and with the membership their grants at the organization's servers, their places in its groups, and their
 * sessions and links of its identity providers.
 */
export async function removeMember(
  db: Db,
  organizationId: string,
  userId: string,
  from: Role,
): Promise<MembershipChange> {
  return unlessLastOwner(db, { organizationId, userId, from, staysOwner: false }, (tx) =>
    endMembership(tx, organizationId, userId, from),
  );
}

/**
 * Within a transaction that holds `lockMembers`: ends a membership and its sessions. A directory that manages the membership sees the
 * person as deactivated. If it activates them again, they get the same role back, except that owners come back as admins.
 */
async function endMembership(
  tx: Db,
  organizationId: string,
  userId: string,
  role: Role,
): Promise<void> {
  for (const table of ['membership', 'browser_session'] as const) {
    await tx
      .deleteFrom(table)
      .where('organization_id', '=', organizationId)
      .where('person_id', '=', userId)
      .execute();
  }
  await tx
    .updateTable('scim_user')
    .set({ active: 0, role: role === 'owner' ? 'admin' : role })
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', userId)
    .execute();
}

/** Makes the member `to` an owner and the owner `from` an admin, in one transaction. @returns `false` unless they are two such members */
export async function transferOwnership(
  db: Db,
  organizationId: string,
  { from, to }: { from: string; to: string },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    const roles = await rolesIn(tx, organizationId, [from, to]);
    if (from === to || roles.get(from) !== 'owner' || !roles.has(to)) return false;
    await setRole(tx, organizationId, to, 'owner');
    await setRole(tx, organizationId, from, 'admin');
    return true;
  });
}

/**
 * Within a transaction: the person's role in an organization that is not disabled. The role cannot be changed or removed until
 * the transaction ends.
 */
export async function lockRole(
  tx: Db,
  userId: string,
  organization: string,
): Promise<Role | undefined> {
  const row = await selectMemberships(tx)
    .where('membership.person_id', '=', userId)
    .where('organization.name', '=', organization)
    .$if(isPostgres(tx), (query) => query.forShare('membership'))
    .executeTakeFirst();
  return row && readRole(row.role);
}

/** Within a transaction: locks the organization's memberships and roles until it ends. */
export function lockMembers(tx: Db, organizationId: string): Promise<void> {
  return advisoryLock(tx, `members ${organizationId}`);
}

function selectMemberships(db: Db) {
  return db
    .selectFrom('membership')
    .innerJoin('organization', 'organization.id', 'membership.organization_id')
    .select([
      'membership.person_id',
      'membership.organization_id',
      'membership.role',
      'organization.name as organization',
      'organization.title',
    ])
    .where('organization.disabled_at', 'is', null)
    .orderBy('organization.name');
}

const membersOfPeople = preparedQuery((db, organizationId: string, people: readonly string[]) =>
  db
    .selectFrom('membership')
    .innerJoin('person', 'person.id', 'membership.person_id')
    .leftJoin('scim_user', (join) =>
      join
        .onRef('scim_user.person_id', '=', 'membership.person_id')
        .onRef('scim_user.organization_id', '=', 'membership.organization_id'),
    )
    .select(['person.id', 'person.email', 'membership.role', 'membership.is_auditor'])
    .select(['membership.source', 'scim_user.id as scim_user_id'])
    .select((select) => [
      select
        .selectFrom('browser_session')
        .select(({ fn }) => fn.max('used_at').as('seen'))
        .whereRef('browser_session.person_id', '=', 'person.id')
        // A session through a provider of another organization opens only that one.
        .where((where) =>
          where.or([
            where('browser_session.organization_id', 'is', null),
            where('browser_session.organization_id', '=', organizationId),
          ]),
        )
        .as('seen_at'),
      sql<number | boolean>`exists (select 1 from totp t
          where t.person_id = person.id and t.confirmed_at is not null)
        or exists (select 1 from passkey p where p.person_id = person.id)`.as('second_factor'),
    ])
    .where('membership.organization_id', '=', organizationId)
    .where('person.id', 'in', people)
    .orderBy('person.email_key'),
);

const groupsOfPeople = preparedQuery((db, organizationId: string, people: readonly string[]) =>
  db
    .selectFrom('group_person')
    .innerJoin('person_group', 'person_group.id', 'group_person.group_id')
    .select(['group_person.person_id', 'person_group.id', 'person_group.name'])
    .where('group_person.organization_id', '=', organizationId)
    .where('group_person.person_id', 'in', people)
    .distinct()
    .orderBy('person_group.name'),
);

async function withGroups(
  db: Db,
  organizationId: string,
  rows: Awaited<ReturnType<typeof membersOfPeople>>,
): Promise<Member[]> {
  const people = rows.map(({ id }) => id);
  const groups = people.length === 0 ? [] : await groupsOfPeople(db, organizationId, people);
  const ofPerson = Map.groupBy(groups, ({ person_id: userId }) => userId);
  return rows.map((row) =>
    readMember(
      row,
      (ofPerson.get(row.id) ?? []).map(({ id, name }) => ({ id, name })),
    ),
  );
}

/** Calls `write` if the person still has the role `from` and an owner remains; all in one transaction. */
async function unlessLastOwner(
  db: Db,
  change: { organizationId: string; userId: string; from: Role; staysOwner: boolean },
  write: (tx: Db) => Promise<unknown>,
): Promise<MembershipChange> {
  const { organizationId, userId, from, staysOwner } = change;
  return transaction(db, async (tx) => {
    await lockMembers(tx, organizationId);
    const roles = await rolesIn(tx, organizationId, [userId]);
    if (roles.get(userId) !== from) return 'stale';
    const owners = [...roles].filter(([, role]) => role === 'owner').map(([id]) => id);
    if (!staysOwner && owners.length === 1 && owners[0] === userId) return 'last-owner';
    await write(tx);
    return 'done';
  });
}

/** The roles of an organization's owners and of `people`, by id. */
async function rolesIn(
  tx: Db,
  organizationId: string,
  people: readonly string[],
): Promise<Map<string, string>> {
  const rows = await tx
    .selectFrom('membership')
    .select(['person_id', 'role'])
    .where('organization_id', '=', organizationId)
    .where((where) => where.or([where('role', '=', 'owner'), where('person_id', 'in', people)]))
    .execute();
  return new Map(rows.map(({ person_id: id, role }) => [id, role]));
}

async function setRole(tx: Db, organizationId: string, userId: string, role: Role): Promise<void> {
  await tx
    .updateTable('membership')
    .set({ role })
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', userId)
    .execute();
}

/** @throws {TypeError} for an unknown role, which a check of the table rules out */
export function readRole(role: string): Role {
  if (!isRole(role)) throw new TypeError(`the role ${role} is unknown`);
  return role;
}
