import type { Selectable } from 'kysely';

import type { Schema } from './schema.ts';
import type { Db } from './transaction.ts';

/** How a workload proves that it is a client: by a token of an issuer that the rule trusts, for a subject that it names. */
export type TrustRule = ReturnType<typeof readRule>;

function readRule(row: Selectable<Schema['trust_rule']>) {
  const { claim_name: name, claim_value: value } = row;
  return {
    clientId: row.client_id,
    /** The `iss` of its tokens, character for character. */
    issuer: row.issuer,
    /** The URL of the issuer's keys, or the keys themselves as a JWK set; if neither is given, the issuer's configuration names the URL. */
    keysUrl: row.keys_url ?? undefined,
    jwks: row.jwks ?? undefined,
    /** The audience that its tokens must have; if `undefined`, the audience of this server. */
    audience: row.audience ?? undefined,
    /** `sub`, whole, or its beginning followed by `*`. */
    subject: row.subject,
    /** Another claim and the value that it must have. */
    claim: name === null || value === null ? undefined : ({ name, value } as const),
    longestLifeSeconds: row.longest_life_seconds,
    /** Whether each token can be exchanged once only. */
    isSingleUse: row.is_single_use === 1,
  } as const;
}

export async function insertTrustRule(db: Db, rule: TrustRule): Promise<void> {
  await db.insertInto('trust_rule').values(columnsOf(rule)).execute();
}

/** Replaces the rule of a client. @returns `false` when it has none */
export async function updateTrustRule(db: Db, rule: TrustRule): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('trust_rule')
    .set(columnsOf(rule))
    .where('client_id', '=', rule.clientId)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export async function findTrustRule(db: Db, clientId: string): Promise<TrustRule | undefined> {
  const row = await db
    .selectFrom('trust_rule')
    .selectAll()
    .where('client_id', '=', clientId)
    .executeTakeFirst();
  return row && readRule(row);
}

/** The rules about an issuer, of unrevoked clients that may be used at a server; none while the organization is disabled. */
export async function listTrustRules(
  db: Db,
  {
    issuer,
    organizationId,
    serverId,
  }: { readonly issuer: string; readonly organizationId: string; readonly serverId: string },
): Promise<TrustRule[]> {
  const rows = await db
    .selectFrom('trust_rule')
    .innerJoin('oauth_client', 'oauth_client.id', 'trust_rule.client_id')
    .innerJoin('organization', 'organization.id', 'oauth_client.organization_id')
    .selectAll('trust_rule')
    .where('trust_rule.issuer', '=', issuer)
    .where('oauth_client.organization_id', '=', organizationId)
    .where('organization.disabled_at', 'is', null)
    .where('oauth_client.revoked_at', 'is', null)
    .where((where) =>
      where.or([
        where('oauth_client.endpoint_id', 'is', null),
        where('oauth_client.endpoint_id', '=', serverId),
      ]),
    )
    .orderBy('trust_rule.client_id')
    .execute();
  return rows.map(readRule);
}

/** Whether an unrevoked client of the organization trusts this issuer. */
export async function isWorkloadIssuer(
  db: Db,
  organizationId: string,
  issuer: string,
): Promise<boolean> {
  const row = await db
    .selectFrom('trust_rule')
    .innerJoin('oauth_client', 'oauth_client.id', 'trust_rule.client_id')
    .select('trust_rule.client_id')
    .where('trust_rule.issuer', '=', issuer)
    .where('oauth_client.organization_id', '=', organizationId)
    .where('oauth_client.revoked_at', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

function columnsOf(rule: TrustRule): Selectable<Schema['trust_rule']> {
  return {
    client_id: rule.clientId,
    issuer: rule.issuer,
    keys_url: rule.keysUrl ?? null,
    jwks: rule.jwks ?? null,
    audience: rule.audience ?? null,
    subject: rule.subject,
    claim_name: rule.claim?.name ?? null,
    claim_value: rule.claim?.value ?? null,
    longest_life_seconds: rule.longestLifeSeconds,
    is_single_use: Number(rule.isSingleUse),
  };
}
