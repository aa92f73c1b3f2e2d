import type { Selectable } from 'kysely';

import { readStrings } from './columns.ts';
import type { EpochSeconds } from '#model/clock';
import { knownBrowserLifeSeconds, sessionIdleSeconds } from '#model/lifetimes';
import { preparedQuery } from './prepared-query.ts';
import type { Schema } from './schema.ts';
import { isPostgres, transaction, type Db } from './transaction.ts';

/** A browser that is signed in. Only the SHA-256 of its cookie is stored. */
export interface Session {
  /** Identifies the session in lists; not a secret. */
  readonly id: string;
  readonly userId: string;
  readonly createdAt: EpochSeconds;
  readonly usedAt: EpochSeconds;
  /** The hard limit, however often it is used. */
  readonly expiresAt: EpochSeconds;
  readonly address: string;
  readonly userAgent: string;
  /** How many factors the person proved in this browser: a password alone is one. */
  readonly factors: 1 | 2;
  /** The provider of an organization that opened the session; absent if the person signed in to their whole account. */
  readonly through?: SessionThrough | undefined;
  /** Set if the provider of the installation opened the session, which opens the whole account. */
  readonly installation?: InstallationSession | undefined;
}

/** A session at the provider of the installation. */
export interface InstallationSession {
  readonly issuer: string;
  readonly providerSession?: string | undefined;
}

/** The provider of an organization that opened a session. Such a session opens only this organization. */
export interface SessionThrough {
  readonly organizationId: string;
  readonly providerId: string;
  /** The session at the provider, and how and when the person signed in there. */
  readonly providerSession?: string | undefined;
  readonly acr?: string | undefined;
  readonly amr: readonly string[];
  readonly authTime?: EpochSeconds | undefined;
}

/** A use is stored only when the last stored one is at least this old, so that reading a page rarely writes. */
const lastUsePrecisionSeconds = 60;

const mostBrowsersOfPerson = 20;

export async function insertSession(
  db: Db,
  { tokenHash, through, installation, ...session }: Session & { readonly tokenHash: string },
): Promise<void> {
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
      organization_id: through?.organizationId ?? null,
      provider_id: through?.providerId ?? null,
      issuer: installation?.issuer ?? null,
      provider_session: (through ?? installation)?.providerSession ?? null,
      acr: through?.acr ?? null,
      amr: through ? JSON.stringify(through.amr) : null,
      auth_time: through?.authTime ?? null,
    })
    .execute();
}

const sessionByToken = preparedQuery((db, tokenHash: string, now: number, idleSince: number) =>
  db
    .selectFrom('browser_session')
    .selectAll()
    .where('token_hash', '=', tokenHash)
    .where('expires_at', '>', now)
    .where('used_at', '>', idleSince),
);

/** The active session of this cookie; `undefined` when it is idle or expired. Records its use, accurate to the minute. */
export async function useSession(
  db: Db,
  tokenHash: string,
  now: EpochSeconds,
): Promise<Session | undefined> {
  const [row] = await sessionByToken(db, tokenHash, now, now - sessionIdleSeconds);
  if (!row) return undefined;
  if (now - row.used_at < lastUsePrecisionSeconds) return readSession(row);
  await db.updateTable('browser_session').set({ used_at: now }).where('id', '=', row.id).execute();
  return readSession({ ...row, used_at: now });
}

/** Within a transaction: whether a session is active. It cannot be ended until the transaction ends. */
export async function lockSession(tx: Db, id: string, now: EpochSeconds): Promise<boolean> {
  const row = await tx
    .selectFrom('browser_session')
    .select('id')
    .where('id', '=', id)
    .where('expires_at', '>', now)
    .where('used_at', '>', now - sessionIdleSeconds)
    .$if(isPostgres(tx), (query) => query.forShare())
    .executeTakeFirst();
  return row !== undefined;
}

/** A person's active sessions, most recently used first. */
export async function listSessions(db: Db, userId: string, now: EpochSeconds): Promise<Session[]> {
  const rows = await db
    .selectFrom('browser_session')
    .selectAll()
    .where('person_id', '=', userId)
    .where('expires_at', '>', now)
    .where('used_at', '>', now - sessionIdleSeconds)
    .orderBy('used_at', 'desc')
    .orderBy('id')
    .execute();
  return rows.map(readSession);
}

/** Ends one session of a person. @returns `false` when they have no such session */
export async function endSession(db: Db, userId: string, sessionId: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('browser_session')
    .where('person_id', '=', userId)
    .where('id', '=', sessionId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

export async function endSessions(db: Db, userId: string, exceptId?: string): Promise<void> {
  await db
    .deleteFrom('browser_session')
    .where('person_id', '=', userId)
    .$if(exceptId !== undefined, (query) => query.where('id', '<>', exceptId ?? ''))
    .execute();
}

export async function endSessionsThrough(db: Db, providerId: string): Promise<void> {
  await db.deleteFrom('browser_session').where('provider_id', '=', providerId).execute();
}

/** The ids of the people who have signed in with this browser since `since`. */
export async function listPeopleOfBrowser(
  db: Db,
  tokenHash: string,
  since: EpochSeconds,
): Promise<string[]> {
  const rows = await db
    .selectFrom('known_browser')
    .select('person_id')
    .where('token_hash', '=', tokenHash)
    .where('seen_at', '>', since)
    .execute();
  return rows.map(({ person_id: userId }) => userId);
}

/**
 * Records that a person signed in with this browser. Only the SHA-256 of its cookie is stored. The latest twenty
 * browsers of a person stay known, each for a year.
 */
export async function insertKnownBrowser(
  db: Db,
  tokenHash: string,
  userId: string,
  now: EpochSeconds,
): Promise<void> {
  await transaction(db, async (tx) => {
    await tx
      .deleteFrom('known_browser')
      .where('seen_at', '<=', now - knownBrowserLifeSeconds)
      .execute();
    await tx
      .insertInto('known_browser')
      .values({ token_hash: tokenHash, person_id: userId, seen_at: now })
      .onConflict((conflict) =>
        conflict.columns(['token_hash', 'person_id']).doUpdateSet({ seen_at: now }),
      )
      .execute();
    const others = tx
      .selectFrom('known_browser')
      .select('token_hash')
      .where('person_id', '=', userId)
      .where('token_hash', '<>', tokenHash)
      .orderBy('seen_at', 'desc')
      .limit(mostBrowsersOfPerson - 1);
    await tx
      .deleteFrom('known_browser')
      .where('person_id', '=', userId)
      .where('token_hash', '<>', tokenHash)
      .where('token_hash', 'not in', others)
      .execute();
  });
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
    through: readThrough(row),
    ...(row.issuer !== null && {
      installation: {
        issuer: row.issuer,
        providerSession: row.provider_session ?? undefined,
      },
    }),
  };
}

function readThrough(row: Selectable<Schema['browser_session']>): SessionThrough | undefined {
  const { organization_id: organizationId, provider_id: providerId } = row;
  // Both are set together. If only one ever were, the session must still not open the whole account.
  if (organizationId === null && providerId === null) return undefined;
  return {
    organizationId: organizationId ?? '',
    providerId: providerId ?? '',
    providerSession: row.provider_session ?? undefined,
    acr: row.acr ?? undefined,
    amr: row.amr === null ? [] : readStrings(row.amr),
    authTime: row.auth_time ?? undefined,
  };
}
