import type { Kysely, Selectable } from 'kysely';

import { sessionIdleSeconds, type Session, type SessionStore } from '#people/session-store';
import { compiledQuery } from './compiled-query.ts';
import type { Schema } from './schema.ts';

/** A use is written down when the last one is at least this old, so that reading a page rarely writes. */
const noteSeconds = 60;

/** Sessions in SQL. */
export function sessionStore(db: Kysely<Schema>): SessionStore {
  const live = (now: number) =>
    db
      .selectFrom('browser_session')
      .selectAll()
      .where('expires_at', '>', now)
      .where('used_at', '>', now - sessionIdleSeconds);

  const byToken = compiledQuery(db, (tokenHash: string, now: number, idleSince: number) =>
    db
      .selectFrom('browser_session')
      .selectAll()
      .where('token_hash', '=', tokenHash)
      .where('expires_at', '>', now)
      .where('used_at', '>', idleSince),
  );

  return {
    async add({ tokenHash, ...session }) {
      await db.deleteFrom('browser_session').where('expires_at', '<=', session.createdAt).execute();
      await db
        .insertInto('browser_session')
        .values({
          id: session.id,
          token_hash: tokenHash,
          person_id: session.userId,
          created_at: session.createdAt,
          used_at: session.usedAt,
          expires_at: session.expiresAt,
          address: session.address,
          user_agent: session.userAgent,
          factors: session.factors,
        })
        .execute();
    },

    async use(tokenHash, now) {
      const [row] = await byToken(tokenHash, now, now - sessionIdleSeconds);
      if (!row) return undefined;
      if (now - row.used_at < noteSeconds) return readSession(row);
      await db
        .updateTable('browser_session')
        .set({ used_at: now })
        .where('id', '=', row.id)
        .execute();
      return readSession({ ...row, used_at: now });
    },

    async list(userId, now) {
      const rows = await live(now)
        .where('person_id', '=', userId)
        .orderBy('used_at', 'desc')
        .orderBy('id')
        .execute();
      return rows.map(readSession);
    },

    async end(userId, sessionId) {
      const { numDeletedRows } = await db
        .deleteFrom('browser_session')
        .where('person_id', '=', userId)
        .where('id', '=', sessionId)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },

    async endAll(userId, exceptId) {
      await db
        .deleteFrom('browser_session')
        .where('person_id', '=', userId)
        .$if(exceptId !== undefined, (query) => query.where('id', '<>', exceptId ?? ''))
        .execute();
    },
  };
}

function readSession(row: Selectable<Schema['browser_session']>): Session {
  return {
    id: row.id,
    userId: row.person_id,
    createdAt: row.created_at,
    usedAt: row.used_at,
    expiresAt: row.expires_at,
    address: row.address,
    userAgent: row.user_agent,
    factors: row.factors === 2 ? 2 : 1,
  };
}
