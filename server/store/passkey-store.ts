import type { Kysely, Selectable } from 'kysely';

import type { Passkey, PasskeyStore } from '#people/passkey-store';
import { readStrings } from './json-column.ts';
import type { Schema } from './schema.ts';

/** Passkeys in SQL. */
export function passkeyStore(db: Kysely<Schema>): PasskeyStore {
  return {
    async add(passkey) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('passkey')
        .values({
          id: passkey.id,
          person_id: passkey.userId,
          name: passkey.name,
          public_key: passkey.publicKey,
          counter: passkey.counter,
          transports: JSON.stringify(passkey.transports),
          created_at: passkey.createdAt,
          last_used_at: null,
        })
        .onConflict((conflict) => conflict.column('id').doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },

    async byId(id) {
      const row = await db
        .selectFrom('passkey')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirst();
      return row && readPasskey(row);
    },

    async list(userId) {
      const rows = await db
        .selectFrom('passkey')
        .selectAll()
        .where('person_id', '=', userId)
        .orderBy('created_at')
        .orderBy('id')
        .execute();
      return rows.map(readPasskey);
    },

    async used(id, { from, to }, now) {
      const { numUpdatedRows } = await db
        .updateTable('passkey')
        .set({ counter: to, last_used_at: now })
        .where('id', '=', id)
        .where('counter', '=', from)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async remove(userId, id) {
      const { numDeletedRows } = await db
        .deleteFrom('passkey')
        .where('person_id', '=', userId)
        .where('id', '=', id)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },
  };
}

function readPasskey(row: Selectable<Schema['passkey']>): Passkey {
  return {
    id: row.id,
    userId: row.person_id,
    name: row.name,
    publicKey: row.public_key,
    counter: row.counter,
    transports: readStrings(row.transports),
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at ?? undefined,
  };
}
