import type { EpochSeconds } from '#model/clock';
import { readProvider, type MemberIdentity, type ProviderRecord } from './identity-providers.ts';
import { isPostgres, type Db } from './transaction.ts';

/*
 * Identity providers that vouch for people to applications. Whoever exchanges an assertion reads the provider first and, in the
 * transaction that makes the grant, locks it: a change of the provider ends its grants, so none may be made of what it was before.
 */

/** The provider of an organization whose assertions count now, if its issuer is this one. */
export async function findVouchingProvider(
  db: Db,
  organization: string,
  issuer: string,
): Promise<(ProviderRecord & { readonly organization: string }) | undefined> {
  const row = await db
    .selectFrom('identity_provider')
    .innerJoin('organization', 'organization.id', 'identity_provider.organization_id')
    .selectAll('identity_provider')
    .where('organization.name', '=', organization)
    .where('organization.disabled_at', 'is', null)
    .where('identity_provider.issuer', '=', issuer)
    .where('identity_provider.disabled_at', 'is', null)
    .where('identity_provider.assertions_allowed', '=', 1)
    .executeTakeFirst();
  return row && { ...readProvider(row), organization };
}

/** Within a transaction: whether a provider still vouches as it did when it was read. It cannot change until the transaction ends. */
export async function lockVouchingProvider(tx: Db, provider: ProviderRecord): Promise<boolean> {
  const row = await tx
    .selectFrom('identity_provider')
    .select('id')
    .where('id', '=', provider.id)
    .where('disabled_at', 'is', null)
    .where('assertions_allowed', '=', 1)
    .where('keys_url', 'is not distinct from', provider.keysUrl ?? null)
    .where('assertion_clients', '=', JSON.stringify(provider.assertionClients))
    .where('assertion_servers', '=', JSON.stringify(provider.assertionServers))
    .$if(isPostgres(tx), (query) => query.forShare())
    .executeTakeFirst();
  return row !== undefined;
}

/** How much later a link must be used for the time to be written again. */
const usePrecisionSeconds = 60;

/** Within a transaction: whether an account is linked to this person. It stays so until the transaction ends. Records the use. */
export async function lockMemberLink(
  tx: Db,
  { providerId, subject }: MemberIdentity,
  userId: string,
  now: EpochSeconds,
): Promise<boolean> {
  const row = await tx
    .selectFrom('member_identity')
    .select('used_at')
    .where('provider_id', '=', providerId)
    .where('subject', '=', subject)
    .where('person_id', '=', userId)
    .$if(isPostgres(tx), (query) => query.forShare())
    .executeTakeFirst();
  if (!row) return false;
  if (row.used_at > now - usePrecisionSeconds) return true;
  await tx
    .updateTable('member_identity')
    .set({ used_at: now })
    .where('provider_id', '=', providerId)
    .where('subject', '=', subject)
    .execute();
  return true;
}

/** The names of servers of an organization, by id; those that were deleted are missing. */
export async function findServerNames(
  db: Db,
  organizationId: string,
  ids: readonly string[],
): Promise<string[]> {
  const rows = await db
    .selectFrom('endpoint')
    .select('name')
    .where('organization_id', '=', organizationId)
    .where('id', 'in', [...ids, ''])
    .orderBy('name')
    .execute();
  return rows.map(({ name }) => name);
}

/** Whether an identity provider of the organization has this issuer. */
export async function isProviderIssuer(
  db: Db,
  organizationId: string,
  issuer: string,
): Promise<boolean> {
  const row = await db
    .selectFrom('identity_provider')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('issuer', '=', issuer)
    .executeTakeFirst();
  return row !== undefined;
}
