import { sql, type Kysely, type Selectable } from 'kysely';

import { emailKey } from '#people/email';
import type { Member, MembershipChange, MembershipStore } from '#people/membership-store';
import { isRole, type Role } from '#people/role';
import { compiledQuery } from './compiled-query.ts';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';
import { holdsText } from './search-text.ts';

/** Memberships in SQL. */
export function membershipStore(db: Kysely<Schema>): MembershipStore {
  const members = db
    .selectFrom('membership')
    .innerJoin('person', 'person.id', 'membership.person_id')
    .select(['person.id', 'person.email', 'person.email_key', 'membership.role'])
    .select((select) => [
      select
        .selectFrom('browser_session')
        .select(({ fn }) => fn.max('used_at').as('seen'))
        .whereRef('browser_session.person_id', '=', 'person.id')
        .as('seen_at'),
      sql<number>`exists (select 1 from totp t
          where t.person_id = person.id and t.confirmed_at is not null)
        or exists (select 1 from passkey p where p.person_id = person.id)`.as('second_factor'),
    ]);

  const ofPeople = compiledQuery(db, (organizationId: string, people: readonly string[]) =>
    members
      .where('membership.organization_id', '=', organizationId)
      .where('person.id', 'in', people)
      .orderBy('person.email_key'),
  );
  const groupsOf = compiledQuery(db, (organizationId: string, people: readonly string[]) =>
    db
      .selectFrom('group_person')
      .innerJoin('person_group', 'person_group.id', 'group_person.group_id')
      .select(['group_person.person_id', 'person_group.id', 'person_group.name'])
      .where('group_person.organization_id', '=', organizationId)
      .where('group_person.person_id', 'in', people)
      .distinct()
      .orderBy('person_group.name'),
  );

  const withGroups = async (organizationId: string, rows: MemberRow[]): Promise<Member[]> => {
    const people = rows.map(({ id }) => id);
    const groups = people.length === 0 ? [] : await groupsOf(organizationId, people);
    const ofPerson = new Map<string, { id: string; name: string }[]>();
    for (const { person_id: personId, id, name } of groups) {
      const mine = ofPerson.get(personId);
      if (mine) mine.push({ id, name });
      else ofPerson.set(personId, [{ id, name }]);
    }
    return rows.map((row) => readMember(row, ofPerson.get(row.id) ?? []));
  };

  return {
    async list(organizationId, { after = '', search = '', limit }) {
      // Who is on the page first: what is told of each would be found out of everybody.
      const page = await db
        .selectFrom('membership')
        .innerJoin('person', 'person.id', 'membership.person_id')
        .select('person.id')
        .where('membership.organization_id', '=', organizationId)
        .where('person.email_key', '>', after)
        .$if(search !== '', (query) =>
          query.where((where) => holdsText(where.ref('person.email_key'), emailKey(search))),
        )
        .orderBy('person.email_key')
        .limit(limit)
        .execute();
      if (page.length === 0) return [];
      const ids = page.map(({ id }) => id);
      const rows = await ofPeople(organizationId, ids);
      return withGroups(organizationId, rows);
    },

    async of(organizationId, userId) {
      const rows = await members
        .where('membership.organization_id', '=', organizationId)
        .where('membership.person_id', '=', userId)
        .execute();
      return (await withGroups(organizationId, rows))[0];
    },

    setRole(organizationId, userId, { from, to }) {
      return unlessLastOwner(db, { organizationId, userId, from, keeps: to === 'owner' }, (write) =>
        write
          .updateTable('membership')
          .set({ role: to })
          .where('organization_id', '=', organizationId)
          .where('person_id', '=', userId)
          .execute(),
      );
    },

    remove(organizationId, userId, from) {
      return unlessLastOwner(db, { organizationId, userId, from, keeps: false }, (write) =>
        write
          .deleteFrom('membership')
          .where('organization_id', '=', organizationId)
          .where('person_id', '=', userId)
          .execute(),
      );
    },

    async transfer(organizationId, { from, to }) {
      return inTransaction(db, async (transaction) => {
        const roles = await lockedRoles(transaction, organizationId);
        if (from === to || roles.get(from) !== 'owner' || !roles.has(to)) return false;
        for (const [userId, role] of [
          [to, 'owner'],
          [from, 'admin'],
        ] as const) {
          await transaction
            .updateTable('membership')
            .set({ role })
            .where('organization_id', '=', organizationId)
            .where('person_id', '=', userId)
            .execute();
        }
        return true;
      });
    },
  };
}

/** Writes when the person still has the role `from`, and an owner remains; all in one transaction. */
async function unlessLastOwner(
  db: Kysely<Schema>,
  change: { organizationId: string; userId: string; from: Role; keeps: boolean },
  write: (transaction: Kysely<Schema>) => Promise<unknown>,
): Promise<MembershipChange> {
  const { organizationId, userId, from, keeps } = change;
  return inTransaction(db, async (transaction) => {
    const roles = await lockedRoles(transaction, organizationId, userId);
    if (roles.get(userId) !== from) return 'stale';
    const owners = [...roles].filter(([, role]) => role === 'owner').map(([id]) => id);
    if (!keeps && owners.length === 1 && owners[0] === userId) return 'last-owner';
    await write(transaction);
    return 'done';
  });
}

/**
 * The owners of an organization and, if given, one member more, whom nobody changes until the transaction
 * ends: one of SQLite has the only write lock from its beginning.
 */
async function lockedRoles(
  transaction: Kysely<Schema>,
  organizationId: string,
  userId?: string,
): Promise<Map<string, string>> {
  const rows = await transaction
    .selectFrom('membership')
    .select(['person_id', 'role'])
    .where('organization_id', '=', organizationId)
    .$if(userId !== undefined, (query) =>
      query.where((where) =>
        where.or([where('role', '=', 'owner'), where('person_id', '=', userId ?? '')]),
      ),
    )
    .execute();
  return new Map(rows.map(({ person_id: id, role }) => [id, role]));
}

type MemberRow = Pick<Selectable<Schema['person']>, 'id' | 'email'> & {
  role: string;
  seen_at: number | null;
  second_factor: number;
};

function readMember(row: MemberRow, groups: Member['groups']): Member {
  if (!isRole(row.role)) throw new TypeError(`the role ${row.role} is unknown`);
  return {
    userId: row.id,
    email: row.email,
    role: row.role,
    groups,
    hasSecondFactor: Boolean(row.second_factor),
    seenAt: row.seen_at ?? undefined,
  };
}
