import { callRetentionDays as retention } from '#model/calls';
import type { EpochSeconds } from '#model/clock';
import { preparedQuery } from './prepared-query.ts';
import type { Db } from './transaction.ts';

export type OrganizationSettings = ReturnType<typeof readSettings>;

function readSettings(row: Awaited<ReturnType<typeof settingsByName>>[number]) {
  return {
    /** Whether members need a session in which they proved two factors. */
    secondFactorRequired: row.second_factor_required === 1,
    /**
     * Whether applications that registered themselves have access when members allow it. Turning this off suspends the existing
     * grants of such applications and does not revoke them.
     */
    openClientsAllowed: row.open_clients_allowed === 1,
    /**
     * The same for applications with the client ID of Latchkey's own proxy. The ID proves nothing: any program on a member's
     * computer can use it.
     */
    latchkeyProxyAllowed: row.latchkey_proxy_allowed === 1,
    /** How many days its recorded calls are kept. */
    callRetentionDays: row.call_retention_days ?? retention.default,
    /** Whether members can sign in only through an identity provider of the organization; see `missingProof`. */
    singleSignOnRequired: row.single_sign_on_required === 1,
    /** What happens to the keys, clients and agents of people who leave. */
    leaverResources: row.leaver_resources,
    /** Whether groups of the directory apply to members who entered their address themselves when they accepted an invitation. */
    invitedScimGroups: row.invited_scim_groups === 1,
  } as const;
}

const settingsByName = preparedQuery((db, name: string) =>
  db
    .selectFrom('organization')
    .select([
      'second_factor_required',
      'open_clients_allowed',
      'latchkey_proxy_allowed',
      'call_retention_days',
      'single_sign_on_required',
      'leaver_resources',
      'invited_scim_groups',
    ])
    .where('name', '=', name)
    .where('disabled_at', 'is', null),
);

/** Finds settings by the organization's name; `undefined` when there is no such organization, or it is disabled. */
export async function findSettings(
  db: Db,
  organization: string,
): Promise<OrganizationSettings | undefined> {
  const [row] = await settingsByName(db, organization);
  return row && readSettings(row);
}

/** Changes settings. Omitted settings keep their value. */
export async function updateSettings(
  db: Db,
  organizationId: string,
  {
    secondFactorRequired,
    openClientsAllowed,
    latchkeyProxyAllowed,
    callRetentionDays,
    singleSignOnRequired,
    leaverResources,
    invitedScimGroups,
  }: { readonly [Name in keyof OrganizationSettings]?: OrganizationSettings[Name] | undefined },
): Promise<void> {
  const change = {
    ...(secondFactorRequired !== undefined && {
      second_factor_required: secondFactorRequired ? 1 : 0,
    }),
    ...(openClientsAllowed !== undefined && {
      open_clients_allowed: openClientsAllowed ? 1 : 0,
    }),
    ...(latchkeyProxyAllowed !== undefined && {
      latchkey_proxy_allowed: latchkeyProxyAllowed ? 1 : 0,
    }),
    ...(callRetentionDays !== undefined && { call_retention_days: callRetentionDays }),
    ...(singleSignOnRequired !== undefined && {
      single_sign_on_required: singleSignOnRequired ? 1 : 0,
    }),
    ...(leaverResources !== undefined && { leaver_resources: leaverResources }),
    ...(invitedScimGroups !== undefined && { invited_scim_groups: invitedScimGroups ? 1 : 0 }),
  };
  if (Object.keys(change).length === 0) return;
  await db.updateTable('organization').set(change).where('id', '=', organizationId).execute();
}

/** The people and applications that a setting about applications affects. */
export interface ConnectedApps {
  /** Different people. */
  readonly people: number;
  /** Different OAuth clients. */
  readonly apps: number;
  /** One for each grant: a person may connect one application to several servers, or twice. */
  readonly connections: number;
}

const none: ConnectedApps = { people: 0, apps: 0, connections: 0 };

/** Counts the active grants in an organization to applications that no administrator created, including grants that a setting suspends. */
export async function countConnectedApps(
  db: Db,
  organizationId: string,
  now: EpochSeconds,
): Promise<{ readonly selfRegistered: ConnectedApps; readonly latchkeyProxy: ConnectedApps }> {
  const rows = await db
    .selectFrom('oauth_grant as g')
    .innerJoin('oauth_client as c', 'c.id', 'g.client_id')
    .innerJoin('endpoint as s', 's.id', 'g.endpoint_id')
    .select(({ fn }) => [
      'c.is_latchkey_proxy as is_latchkey_proxy',
      fn.count('g.person_id').distinct().as('people'),
      fn.count('g.client_id').distinct().as('apps'),
      fn.countAll().as('connections'),
    ])
    .where('s.organization_id', '=', organizationId)
    .where('c.organization_id', 'is', null)
    .where('g.is_by_assertion', '=', 0)
    .where('c.revoked_at', 'is', null)
    .where('g.revoked_at', 'is', null)
    .where('g.expires_at', '>', now)
    .groupBy('c.is_latchkey_proxy')
    .execute();
  const of = (isLatchkeyProxy: number): ConnectedApps => {
    const row = rows.find((each) => each.is_latchkey_proxy === isLatchkeyProxy);
    if (!row) return none;
    const { people, apps, connections } = row;
    return { people: Number(people), apps: Number(apps), connections: Number(connections) };
  };
  return { selfRegistered: of(0), latchkeyProxy: of(1) };
}
