import type { Selectable, Updateable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { checkAgainModes, type ProviderChecking } from '#model/provider-checks';
import { isRole, type Role } from '#model/roles';
import { endAssertedGrants } from './assertion-grants.ts';
import { readStrings } from './columns.ts';
import type { Schema } from './schema.ts';
import { advisoryLock, isPostgres, transaction, type Db } from './transaction.ts';

/** An OpenID provider that an organization configured. */
export type ProviderRecord = ReturnType<typeof readProvider>;

export function readProvider(row: Selectable<Schema['identity_provider']>) {
  const { tested_at: at, tested_by: by } = row;
  return {
    /** `idp_` and 16 base62 characters. */
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    /** Unique in the organization; it never changes, because links depend on it. */
    issuer: row.issuer,
    /** Empty if people cannot sign in through it. */
    clientId: row.client_id,
    /** Encrypted for `providerSecretPurpose`; empty without a client. */
    sealedSecret: row.sealed_secret,
    scopes: readStrings(row.scopes),
    groupsClaim: row.groups_claim,
    /** Whether addresses are trusted even if the provider does not claim to have verified them. */
    emailTrusted: row.email_trusted === 1,
    /** The role of people who join by signing in; absent if people cannot join. */
    joiningRole: row.joining_role === null ? undefined : readJoiningRole(row.joining_role),
    /** The groups of people who join, by id. */
    joiningGroups: readStrings(row.joining_groups),
    /** Which groups at the provider give a role, as `{role}={group}`. */
    roleGroups: readStrings(row.role_groups),
    /** Whether each sign-in counts as two factors, whatever the provider says. */
    countsAsTwoFactors: row.counts_as_two_factors === 1,
    /** The URL of its keys; absent if the provider's configuration names it. For identity assertions only. */
    keysUrl: row.keys_url ?? undefined,
    /**
     * The client of Latchkey's proxy at the provider, without a secret. The server names it to members who signed in, so that the proxy needs
     * no consent page for the next server. For identity assertions only.
     */
    nativeClientId: row.native_client_id ?? undefined,
    /** Whether applications may exchange its identity assertions for tokens. */
    assertionsAllowed: row.assertions_allowed === 1,
    /** The ids of the clients that may exchange them; if empty, all clients that administrators of the organization created. */
    assertionClients: readStrings(row.assertion_clients),
    /** The ids of the servers where clients may exchange them; if empty, all servers of the organization. */
    assertionServers: readStrings(row.assertion_servers),
    createdAt: row.created_at,
    /** The last successful test by an owner, since the client was last changed. */
    tested: at === null || by === null ? undefined : ({ at, by } as const),
    ...readChecking(row),
    /** When it last announced a logout. */
    announcedAt: row.announced_at ?? undefined,
    disabledAt: row.disabled_at ?? undefined,
  } as const;
}

function readChecking(row: Selectable<Schema['identity_provider']>): ProviderChecking {
  return {
    checkAgain: checkAgainModes.find((mode) => mode === row.check_again) ?? 'auto',
    sessionCheckMinutes: row.session_check_minutes,
    grantCheckHours: row.grant_check_hours,
  };
}

/** No one becomes an owner through a provider. */
export type JoiningRole = Exclude<Role, 'owner'>;

type Changeable = Pick<
  ProviderRecord,
  | 'name'
  | 'clientId'
  | 'sealedSecret'
  | 'scopes'
  | 'groupsClaim'
  | 'emailTrusted'
  | 'joiningRole'
  | 'joiningGroups'
  | 'roleGroups'
  | 'countsAsTwoFactors'
  | 'keysUrl'
  | 'nativeClientId'
  | 'assertionsAllowed'
  | 'assertionClients'
  | 'assertionServers'
  | keyof ProviderChecking
  | 'disabledAt'
>;

/**
 * A change to a provider. Members that are omitted or `undefined` keep their value, except that a `joiningRole`, `keysUrl`, `nativeClientId` or
 * `disabledAt` that is `undefined` is cleared. Changing the client clears `tested`.
 */
export type ProviderChange = { readonly [Name in keyof Changeable]?: Changeable[Name] | undefined };

type Vouching =
  | 'keysUrl'
  | 'nativeClientId'
  | 'assertionsAllowed'
  | 'assertionClients'
  | 'assertionServers';
/** A provider to insert. Unless it says otherwise, it vouches for no one. */
export type NewProvider = Omit<ProviderRecord, 'tested' | 'announcedAt' | 'disabledAt' | Vouching> &
  Partial<Pick<ProviderRecord, Vouching>>;

/** @returns `taken` when the organization has a provider with this issuer, `full` when it already has `most` */
export async function insertProvider(
  db: Db,
  provider: NewProvider,
  most: number,
): Promise<'done' | 'taken' | 'full'> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `identity providers ${provider.organizationId}`);
    const others = await listProviders(tx, provider.organizationId);
    if (others.some(({ issuer }) => issuer === provider.issuer)) return 'taken';
    if (others.length >= most) return 'full';
    const { id, organizationId, issuer, createdAt } = provider;
    await tx
      .insertInto('identity_provider')
      .values({
        id,
        organization_id: organizationId,
        issuer,
        created_at: createdAt,
        name: provider.name,
        client_id: provider.clientId,
        sealed_secret: provider.sealedSecret,
        scopes: JSON.stringify(provider.scopes),
        groups_claim: provider.groupsClaim,
        email_trusted: Number(provider.emailTrusted),
        joining_role: provider.joiningRole ?? null,
        joining_groups: JSON.stringify(provider.joiningGroups),
        role_groups: JSON.stringify(provider.roleGroups),
        counts_as_two_factors: Number(provider.countsAsTwoFactors),
        keys_url: provider.keysUrl ?? null,
        native_client_id: provider.nativeClientId ?? null,
        assertions_allowed: Number(provider.assertionsAllowed ?? false),
        assertion_clients: JSON.stringify(provider.assertionClients ?? []),
        assertion_servers: JSON.stringify(provider.assertionServers ?? []),
        check_again: provider.checkAgain,
        session_check_minutes: provider.sessionCheckMinutes,
        grant_check_hours: provider.grantCheckHours,
      })
      .execute();
    return 'done';
  });
}

/** Whether people can sign in through a provider of any organization. */
export async function hasProviders(db: Db): Promise<boolean> {
  const some = db.selectFrom('identity_provider').select('id').where('disabled_at', 'is', null);
  return (await some.where('client_id', '!=', '').limit(1).executeTakeFirst()) !== undefined;
}

/** The providers of an organization, oldest first. */
export async function listProviders(db: Db, organizationId: string): Promise<ProviderRecord[]> {
  const rows = await db
    .selectFrom('identity_provider')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
  return rows.map(readProvider);
}

/** A provider of an enabled organization, with the organization's name. The caller must check whether the provider itself is enabled. */
export async function findProvider(
  db: Db,
  id: string,
): Promise<(ProviderRecord & { readonly organization: string }) | undefined> {
  const row = await db
    .selectFrom('identity_provider')
    .innerJoin('organization', 'organization.id', 'identity_provider.organization_id')
    .selectAll('identity_provider')
    .select('organization.name as organization')
    .where('identity_provider.id', '=', id)
    .where('organization.disabled_at', 'is', null)
    .executeTakeFirst();
  return row && { ...readProvider(row), organization: row.organization };
}

/**
 * Changes a provider. The grants that it vouched for end if it is disabled, or if the change is about what it may vouch for.
 *
 * @returns `false` when the organization has no such provider
 */
export async function updateProvider(
  db: Db,
  organizationId: string,
  id: string,
  change: ProviderChange,
): Promise<boolean> {
  const isOtherClient = change.clientId !== undefined || change.sealedSecret !== undefined;
  const columns: Updateable<Schema['identity_provider']> = {
    ...(change.name !== undefined && { name: change.name }),
    ...(change.clientId !== undefined && { client_id: change.clientId }),
    ...(change.sealedSecret !== undefined && { sealed_secret: change.sealedSecret }),
    ...(change.scopes && { scopes: JSON.stringify(change.scopes) }),
    ...(change.groupsClaim !== undefined && { groups_claim: change.groupsClaim }),
    ...(change.emailTrusted !== undefined && { email_trusted: Number(change.emailTrusted) }),
    ...('joiningRole' in change && { joining_role: change.joiningRole ?? null }),
    ...(change.joiningGroups && { joining_groups: JSON.stringify(change.joiningGroups) }),
    ...(change.roleGroups && { role_groups: JSON.stringify(change.roleGroups) }),
    ...(change.countsAsTwoFactors !== undefined && {
      counts_as_two_factors: Number(change.countsAsTwoFactors),
    }),
    ...('keysUrl' in change && { keys_url: change.keysUrl ?? null }),
    ...('nativeClientId' in change && { native_client_id: change.nativeClientId ?? null }),
    ...(change.assertionsAllowed !== undefined && {
      assertions_allowed: Number(change.assertionsAllowed),
    }),
    ...(change.assertionClients && { assertion_clients: JSON.stringify(change.assertionClients) }),
    ...(change.assertionServers && { assertion_servers: JSON.stringify(change.assertionServers) }),
    ...(change.checkAgain && { check_again: change.checkAgain }),
    ...(change.sessionCheckMinutes !== undefined && {
      session_check_minutes: change.sessionCheckMinutes,
    }),
    ...(change.grantCheckHours !== undefined && { grant_check_hours: change.grantCheckHours }),
    ...('disabledAt' in change && { disabled_at: change.disabledAt ?? null }),
    ...(isOtherClient && { tested_at: null, tested_by: null }),
  };
  return transaction(db, async (tx) => {
    // Setting the id makes an empty change possible, which still tells whether there is such a provider.
    const { numUpdatedRows } = await tx
      .updateTable('identity_provider')
      .set({ id, ...columns })
      .where('organization_id', '=', organizationId)
      .where('id', '=', id)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    // When it is disabled, a trigger of the database ends its grants.
    const vouching = ['keysUrl', 'assertionsAllowed', 'assertionClients', 'assertionServers'];
    if (vouching.some((name) => name in change)) await endAssertedGrants(tx, id);
    return true;
  });
}

/** Records a successful test by an owner, unless the client was changed since `record` was read. */
export async function noteProviderTest(
  db: Db,
  { id, clientId, sealedSecret }: Pick<ProviderRecord, 'id' | 'clientId' | 'sealedSecret'>,
  tested: { readonly at: EpochSeconds; readonly by: string },
): Promise<void> {
  await db
    .updateTable('identity_provider')
    .set({ tested_at: tested.at, tested_by: tested.by })
    .where('id', '=', id)
    .where('client_id', '=', clientId)
    .where('sealed_secret', '=', sealedSecret)
    .execute();
}

/** Deletes a provider with its links, sessions and, by a trigger, asserted grants. @returns `false` when the organization has no such provider */
export async function deleteProvider(db: Db, organizationId: string, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    // An exchange of an assertion locks the row, too.
    const provider = await tx
      .selectFrom('identity_provider')
      .select('id')
      .where('organization_id', '=', organizationId)
      .where('id', '=', id)
      .$if(isPostgres(tx), (query) => query.forUpdate())
      .executeTakeFirst();
    if (!provider) return false;
    await tx.deleteFrom('identity_provider').where('id', '=', id).execute();
    return true;
  });
}

function readJoiningRole(role: string): JoiningRole {
  if (!isRole(role) || role === 'owner') throw new TypeError(`people cannot join as ${role}`);
  return role;
}
