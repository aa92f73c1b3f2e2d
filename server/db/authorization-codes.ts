import type { EpochSeconds } from '#model/clock';
import { readScopes, readSelection, selectionText } from './columns.ts';
import { insertGrant, insertRefreshToken, type Grant } from './grants.ts';
import { transaction, type Db } from './transaction.ts';

/*
 * Authorization codes, each exchanged once for a grant. Only SHA-256 hashes of codes are stored.
 */

/** An authorization code and what the person granted with it. */
export interface AuthorizationCode extends Pick<
  Grant,
  'userId' | 'clientId' | 'serverId' | 'scopes' | 'tools' | 'assistant' | 'deviceId'
> {
  readonly hash: string;
  /** The id of the grant that redeeming the code creates. */
  readonly grantId: string;
  /** Exactly as requested, including the port. */
  readonly redirectUri: string;
  /** S256: base64url of the SHA-256 of the verifier. RFC 7636 §4.2 */
  readonly codeChallenge: string;
  readonly expiresAt: EpochSeconds;
  readonly spentAt: EpochSeconds | undefined;
}

/** How long an expired code is kept, so that a late second use is still detected. */
export const expiredCodeRetentionSeconds = 86_400;

export async function insertAuthorizationCode(
  db: Db,
  code: Omit<AuthorizationCode, 'spentAt'>,
  now: EpochSeconds,
): Promise<void> {
  await db
    .insertInto('authorization_code')
    .values({
      hash: code.hash,
      grant_id: code.grantId,
      person_id: code.userId,
      client_id: code.clientId,
      endpoint_id: code.serverId,
      scopes: JSON.stringify(code.scopes),
      tool_selection: selectionText(code.tools),
      redirect_uri: code.redirectUri,
      code_challenge: code.codeChallenge,
      assistant: code.assistant ?? null,
      device_id: code.deviceId ?? null,
      expires_at: code.expiresAt,
      spent_at: null,
    })
    .execute();
  await db
    .deleteFrom('authorization_code')
    .where('expires_at', '<', now - expiredCodeRetentionSeconds)
    .execute();
}

/** Finds spent and expired codes too. `undefined` when the server or its organization is disabled. */
export async function findAuthorizationCode(
  db: Db,
  hash: string,
): Promise<(AuthorizationCode & { serverPath: string }) | undefined> {
  const row = await db
    .selectFrom('authorization_code')
    .innerJoin('endpoint', 'endpoint.id', 'authorization_code.endpoint_id')
    .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
    .selectAll('authorization_code')
    .select(['organization.name as organization', 'endpoint.name as server'])
    .where('hash', '=', hash)
    .where('organization.disabled_at', 'is', null)
    .where('endpoint.disabled_at', 'is', null)
    .executeTakeFirst();
  return (
    row && {
      hash: row.hash,
      grantId: row.grant_id,
      userId: row.person_id,
      clientId: row.client_id,
      serverId: row.endpoint_id,
      serverPath: `${row.organization}/${row.server}`,
      scopes: readScopes(row.scopes),
      tools: readSelection(row.tool_selection),
      redirectUri: row.redirect_uri,
      codeChallenge: row.code_challenge,
      assistant: row.assistant ?? undefined,
      ...(row.device_id !== null && { deviceId: row.device_id }),
      expiresAt: row.expires_at,
      spentAt: row.spent_at ?? undefined,
    }
  );
}

/** Marks the code as spent. @returns `true` only for the first caller */
export async function spendAuthorizationCode(
  db: Db,
  hash: string,
  now: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('authorization_code')
    .set({ spent_at: now })
    .where('hash', '=', hash)
    .where('spent_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Whether the code is still stored, spent or not. It is deleted when the access that the person allowed ends. */
export async function isAuthorizationCodeStored(db: Db, hash: string): Promise<boolean> {
  const row = await db
    .selectFrom('authorization_code')
    .select('hash')
    .where('hash', '=', hash)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Spends the code and inserts the grant with its first refresh token, in one transaction.
 *
 * @returns `true` only for the first caller that presents the code
 */
export async function beginGrant(
  db: Db,
  codeHash: string,
  grant: Omit<Grant, 'revokedAt'>,
  refreshToken: { hash: string; expiresAt: EpochSeconds },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    if (!(await spendAuthorizationCode(tx, codeHash, grant.createdAt))) return false;
    await insertGrant(tx, grant);
    await insertRefreshToken(tx, { grantId: grant.id }, refreshToken);
    return true;
  });
}
