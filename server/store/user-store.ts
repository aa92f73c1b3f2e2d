import type { Kysely, Selectable } from 'kysely';

import { emailKey } from '#people/email';
import { isRole } from '#people/role';
import type { Membership, User, UserStore } from '#people/user';
import { inTransaction } from './in-transaction.ts';
import { compiledQuery } from './compiled-query.ts';
import type { Schema } from './schema.ts';

/** People in SQL. */
export function userStore(db: Kysely<Schema>): UserStore {
  const memberships = db
    .selectFrom('membership')
    .innerJoin('organization', 'organization.id', 'membership.organization_id')
    .select(['membership.person_id', 'membership.role', 'organization.name as organization'])
    .where('organization.disabled_at', 'is', null)
    .orderBy('organization.name');

  const byId = compiledQuery(db, (id: string) =>
    db.selectFrom('person').selectAll().where('id', '=', id),
  );
  const ofPerson = compiledQuery(db, (userId: string) =>
    memberships.where('membership.person_id', '=', userId),
  );

  return {
    async add({ id, email, createdAt }, { organizationId, role }) {
      return inTransaction(db, async (transaction) => {
        await transaction
          .insertInto('person')
          .values({ id, email, email_key: emailKey(email), created_at: createdAt })
          .onConflict((conflict) => conflict.column('email_key').doNothing())
          .execute();
        const { id: personId } = await transaction
          .selectFrom('person')
          .select('id')
          .where('email_key', '=', emailKey(email))
          .executeTakeFirstOrThrow();
        const { numInsertedOrUpdatedRows } = await transaction
          .insertInto('membership')
          .values({ person_id: personId, organization_id: organizationId, role })
          .onConflict((conflict) => conflict.columns(['person_id', 'organization_id']).doNothing())
          .executeTakeFirst();
        return numInsertedOrUpdatedRows === 1n;
      });
    },

    async byEmail(email) {
      const row = await db
        .selectFrom('person')
        .selectAll()
        .where('email_key', '=', emailKey(email))
        .executeTakeFirst();
      return row && readUser(row);
    },

    async byId(id) {
      const [row] = await byId(id);
      return row && readUser(row);
    },

    async memberships(userId) {
      return (await ofPerson(userId)).map(readMembership);
    },

    async hasAny() {
      const someone = await db.selectFrom('person').select('id').limit(1).executeTakeFirst();
      return someone !== undefined;
    },

    async list() {
      const people = await db
        .selectFrom('person')
        .selectAll()
        .orderBy('created_at')
        .orderBy('id')
        .execute();
      const ofEach = Map.groupBy(await memberships.execute(), ({ person_id: id }) => id);
      return people.map((person) => ({
        user: readUser(person),
        memberships: (ofEach.get(person.id) ?? []).map(readMembership),
      }));
    },

    async remove(userId) {
      const { numDeletedRows } = await db
        .deleteFrom('person')
        .where('id', '=', userId)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },
  };
}

function readUser(row: Selectable<Schema['person']>): User {
  return { id: row.id, email: row.email, createdAt: row.created_at };
}

function readMembership(row: { organization: string; role: string }): Membership {
  if (!isRole(row.role)) throw new TypeError(`the role ${row.role} is unknown`);
  return { organization: row.organization, role: row.role };
}
