import { type Awaitable, whenReady } from '#model/awaitable';
import type { EpochSeconds } from '#model/clock';
import { domainOf } from '#model/email';
import { readScopes } from './columns.ts';
import { readProvider, type ProviderRecord } from './identity-providers.ts';
import { type MemberIdentity } from './member-identities.ts';
import { immediateQuery } from './prepared-query.ts';
import { isPostgres, type Db } from './transaction.ts';

/*
 * Identity providers that vouch for people to applications. An exchange of an assertion reads the provider first and, in the
 * transaction that makes the grant, locks it: a change of the provider ends its grants, so its old state must not give a new one.
 */

export type VouchingProvider = ProviderRecord & {
  readonly organization: string;
  /** Whether a workload client of the organization trusts its issuer, too. */
  readonly isOfWorkloads: boolean;
};

/** The provider with this issuer whose assertions an organization accepts now. */
export function findVouchingProvider(
  db: Db,
  organization: string,
  issuer: string,
): Awaitable<VouchingProvider | undefined> {
  return whenReady(
    vouching(db, organization, issuer),
    ([row]) =>
      row && {
        ...readProvider(row),
        organization,
        isOfWorkloads: row.workload_client !== null,
      },
  );
}

const vouching = immediateQuery((db, organization: string, issuer: string) =>
  db
    .selectFrom('identity_provider')
    .innerJoin('organization', 'organization.id', 'identity_provider.organization_id')
    .selectAll('identity_provider')
    .select((select) =>
      select
        .selectFrom('trust_rule')
        .innerJoin('oauth_client', 'oauth_client.id', 'trust_rule.client_id')
        .select('trust_rule.client_id')
        .whereRef('trust_rule.issuer', '=', 'identity_provider.issuer')
        .whereRef('oauth_client.organization_id', '=', 'identity_provider.organization_id')
        .where('oauth_client.revoked_at', 'is', null)
        .limit(1)
        .as('workload_client'),
    )
    .where('organization.name', '=', organization)
    .where('organization.disabled_at', 'is', null)
    .where('identity_provider.issuer', '=', issuer)
    .where('identity_provider.disabled_at', 'is', null)
    .where('identity_provider.assertions_allowed', '=', 1),
);

/**
 * The providers of an organization that may be named to one of its members, oldest first: they vouch for people, Latchkey's proxy has a
 * client there, and the person has an account that is linked, or an address of a domain that the organization has proved.
 */
export async function listNamedProviders(
  db: Db,
  organization: string,
  person: { readonly id: string; readonly email: string },
): Promise<
  (ProviderRecord & { readonly nativeClientId: string; readonly organization: string })[]
> {
  const rows = await db
    .selectFrom('identity_provider')
    .innerJoin('organization', 'organization.id', 'identity_provider.organization_id')
    .selectAll('identity_provider')
    .where('organization.name', '=', organization)
    .where('identity_provider.disabled_at', 'is', null)
    .where('identity_provider.assertions_allowed', '=', 1)
    .where('identity_provider.native_client_id', 'is not', null)
    .where((where) =>
      where.or([
        where.exists(
          where
            .selectFrom('member_identity')
            .select('member_identity.subject')
            .whereRef('member_identity.provider_id', '=', 'identity_provider.id')
            .where('member_identity.person_id', '=', person.id),
        ),
        where.exists(
          where
            .selectFrom('organization_domain')
            .select('organization_domain.domain')
            .whereRef('organization_domain.organization_id', '=', 'organization.id')
            .where('organization_domain.proved_at', 'is not', null)
            .where('organization_domain.domain', '=', domainOf(person.email)),
        ),
      ]),
    )
    .orderBy('identity_provider.created_at')
    .orderBy('identity_provider.id')
    .execute();
  return rows
    .map(readProvider)
    .flatMap(({ nativeClientId, ...provider }) =>
      nativeClientId === undefined ? [] : [{ ...provider, nativeClientId, organization }],
    );
}

/** An unrevoked grant from an earlier assertion about the same account. It may have expired. */
export type KnownGrant = ReturnType<typeof readKnownGrant>;

function readKnownGrant(row: Awaited<ReturnType<typeof knownGrant>>[number]) {
  return {
    id: row.id,
    userId: row.person_id,
    serverId: row.endpoint_id,
    scopes: readScopes(row.scopes),
    expiresAt: row.expires_at,
    /** When the account was last used. */
    usedAt: row.used_at,
    secondFactorRequired: row.second_factor_required === 1,
  } as const;
}

/**
 * The grant of an account at a provider for a client on a device at a server, unless the person was logged out at the provider since
 * `issuedAt`. Admissions decide whether the person still has the rights.
 */
export function findKnownGrant(
  db: Db,
  at: {
    readonly providerId: string;
    readonly subject: string;
    readonly clientId: string;
    readonly organization: string;
    readonly server: string;
    readonly issuedAt: EpochSeconds;
    /** SHA-256 of the id of the device, as a proxy chose it; empty without a device. */
    readonly deviceHash: string;
  },
): Awaitable<KnownGrant | undefined> {
  const { providerId, subject, clientId, organization, server, issuedAt, deviceHash } = at;
  return whenReady(
    knownGrant(db, providerId, subject, clientId, organization, server, issuedAt, deviceHash),
    ([row]) => row && readKnownGrant(row),
  );
}

const knownGrant = immediateQuery(
  (
    db,
    providerId: string,
    subject: string,
    clientId: string,
    organization: string,
    server: string,
    issuedAt: EpochSeconds,
    deviceHash: string,
  ) =>
    db
      .selectFrom('member_identity')
      .innerJoin('oauth_grant', 'oauth_grant.person_id', 'member_identity.person_id')
      .innerJoin('endpoint', 'endpoint.id', 'oauth_grant.endpoint_id')
      .innerJoin('organization', 'organization.id', 'endpoint.organization_id')
      .leftJoin('device', 'device.id', 'oauth_grant.device_id')
      .select([
        'oauth_grant.id',
        'oauth_grant.person_id',
        'oauth_grant.endpoint_id',
        'oauth_grant.scopes',
        'oauth_grant.expires_at',
        'member_identity.used_at',
        'organization.second_factor_required',
      ])
      .where('member_identity.provider_id', '=', providerId)
      .where('member_identity.subject', '=', subject)
      .where('oauth_grant.client_id', '=', clientId)
      .where('oauth_grant.is_by_assertion', '=', 1)
      .whereRef('oauth_grant.provider_id', '=', 'member_identity.provider_id')
      .where('oauth_grant.revoked_at', 'is', null)
      .where((where) => where.fn.coalesce('device.claim_hash', where.val('')), '=', deviceHash)
      .where('endpoint.name', '=', server)
      .where('endpoint.disabled_at', 'is', null)
      .where('organization.name', '=', organization)
      .where((where) =>
        where.not(
          where.exists(
            where
              .selectFrom('provider_logout')
              .select('provider_logout.token_id')
              .whereRef('provider_logout.provider', '=', 'member_identity.provider_id')
              .whereRef('provider_logout.subject', '=', 'member_identity.subject')
              .where('provider_logout.provider_session', 'is', null)
              .where('provider_logout.issued_at', '>=', issuedAt),
          ),
        ),
      ),
);

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

/** The use of a link is stored only when the last stored one is at least this old. */
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

/** The sorted names of the servers with these ids in an organization; deleted servers are missing. */
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
