import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Scope } from '#model/scopes';
import type { AnswerTarget, AuthorizationRequest } from '#model/authorization-request';
import { readScopes } from './columns.ts';
import type { Schema } from './schema.ts';
import { transaction, type Db } from './transaction.ts';

/** Identifies a consent: the person, the application, the server, and the host that the code is sent to. */
export interface ConsentSubject {
  readonly userId: string;
  readonly clientId: string;
  readonly serverId: string;
  readonly redirectHost: string;
}

/** An authorization request that waits for a person's decision. It belongs to the session in which the consent page was opened. */
export interface PendingRequest {
  /** SHA-256 of the request's id, which the page contains. */
  readonly idHash: string;
  readonly sessionId: string;
  readonly userId: string;
  readonly request: AuthorizationRequest;
  /** The server and scopes that the page displayed. The decision applies to nothing else. */
  readonly shown: { readonly serverId: string; readonly scopes: readonly Scope[] };
  readonly expiresAt: EpochSeconds;
}

/** The scopes that a person allowed for exactly this subject; empty when there is no unexpired consent. */
export async function findConsent(
  db: Db,
  { userId, clientId, serverId, redirectHost }: ConsentSubject,
  now: EpochSeconds,
): Promise<readonly Scope[]> {
  const row = await db
    .selectFrom('consent')
    .select('scopes')
    .where('person_id', '=', userId)
    .where('client_id', '=', clientId)
    .where('endpoint_id', '=', serverId)
    .where('redirect_host', '=', redirectHost)
    .where('expires_at', '>', now)
    .executeTakeFirst();
  return row ? readScopes(row.scopes) : [];
}

/** Stores what a person allowed, so that they are not asked again. Replaces an earlier consent for the same subject. */
export async function putConsent(
  db: Db,
  { userId, clientId, serverId, redirectHost }: ConsentSubject,
  scopes: readonly Scope[],
  expiresAt: EpochSeconds,
): Promise<void> {
  const allowed = { scopes: JSON.stringify(scopes), expires_at: expiresAt };
  await db
    .insertInto('consent')
    .values({
      person_id: userId,
      client_id: clientId,
      endpoint_id: serverId,
      redirect_host: redirectHost,
      ...allowed,
    })
    .onConflict((conflict) =>
      conflict
        .columns(['person_id', 'client_id', 'endpoint_id', 'redirect_host'])
        .doUpdateSet(allowed),
    )
    .execute();
}

/**
 * Deletes what the person allowed this application at this server, for every redirect host, and the codes that the
 * application has not redeemed.
 */
export async function deleteConsents(
  db: Db,
  { userId, clientId, serverId }: Omit<ConsentSubject, 'redirectHost'>,
): Promise<void> {
  await transaction(db, async (tx) => {
    await tx
      .deleteFrom('consent')
      .where('person_id', '=', userId)
      .where('client_id', '=', clientId)
      .where('endpoint_id', '=', serverId)
      .execute();
    await tx
      .deleteFrom('authorization_code')
      .where('person_id', '=', userId)
      .where('client_id', '=', clientId)
      .where('endpoint_id', '=', serverId)
      .where('spent_at', 'is', null)
      .execute();
  });
}

/** Another site can make a browser open the consent page repeatedly, so a session keeps only its latest requests. */
const mostPending = 20;

/** Stores a request until it is decided. A session has at most twenty: the oldest are deleted. */
export async function insertPendingRequest(
  db: Db,
  { shown, ...pending }: PendingRequest,
  now: EpochSeconds,
): Promise<void> {
  const displayed = { endpoint_id: shown.serverId, scopes: JSON.stringify(shown.scopes) };
  await keepPending(db, pending, displayed, now);
}

/** Like `insertPendingRequest`, for any kind of request. `displayed` has the columns that only a request for one server has. */
export async function keepPending(
  db: Db,
  {
    idHash,
    sessionId,
    userId,
    request,
    expiresAt,
  }: Omit<PendingRequest, 'request' | 'shown'> & { readonly request: AnswerTarget },
  displayed: { readonly endpoint_id?: string; readonly scopes?: string },
  now: EpochSeconds,
): Promise<void> {
  await db.deleteFrom('authorization_request').where('expires_at', '<=', now).execute();
  await db
    .deleteFrom('authorization_request')
    .where('session_id', '=', sessionId)
    .where('id_hash', 'not in', (select) =>
      select
        .selectFrom('authorization_request')
        .select('id_hash')
        .where('session_id', '=', sessionId)
        .orderBy('expires_at', 'desc')
        .limit(mostPending - 1),
    )
    .execute();
  await db
    .insertInto('authorization_request')
    .values({
      id_hash: idHash,
      session_id: sessionId,
      person_id: userId,
      client_id: request.clientId,
      request: JSON.stringify(request),
      ...displayed,
      expires_at: expiresAt,
    })
    .execute();
}

/** Like `takePendingRequest`, for any kind of request. `ofSeveral`: whether it is for several servers. */
export function takePending(
  db: Db,
  {
    idHash,
    sessionId,
    ofSeveral,
  }: { readonly idHash: string; readonly sessionId: string; readonly ofSeveral: boolean },
  now: EpochSeconds,
): Promise<Selectable<Schema['authorization_request']> | undefined> {
  return (
    db
      .deleteFrom('authorization_request')
      .where('id_hash', '=', idHash)
      .where('session_id', '=', sessionId)
      .where('expires_at', '>', now)
      // A request for several servers has no endpoint.
      .where('endpoint_id', ofSeveral ? '=' : '<>', '')
      .returningAll()
      .executeTakeFirst()
  );
}

/** Removes and returns a request; `undefined` when it was taken before, has expired, or belongs to another session. */
export async function takePendingRequest(
  db: Db,
  idHash: string,
  sessionId: string,
  now: EpochSeconds,
): Promise<PendingRequest | undefined> {
  const row = await takePending(db, { idHash, sessionId, ofSeveral: false }, now);
  return (
    row && {
      idHash,
      sessionId,
      userId: row.person_id,
      request: JSON.parse(row.request) as AuthorizationRequest,
      shown: { serverId: row.endpoint_id, scopes: readScopes(row.scopes) },
      expiresAt: row.expires_at,
    }
  );
}
