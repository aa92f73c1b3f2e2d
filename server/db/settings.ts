import { preparedQuery } from './prepared-query.ts';
import type { Db } from './transaction.ts';

/** The security settings of an organization. */
export interface OrganizationSettings {
  /** Whether members need a session in which they proved two factors. */
  readonly secondFactorRequired: boolean;
  /**
   * Whether applications that registered themselves have access when members allow it. Turning this off suspends the existing
   * grants of such applications and does not revoke them.
   */
  readonly openClientsAllowed: boolean;
}

const settingsByName = preparedQuery((db, name: string) =>
  db
    .selectFrom('organization')
    .select(['second_factor_required', 'open_clients_allowed'])
    .where('name', '=', name)
    .where('disabled_at', 'is', null),
);

/** Finds settings by the organization's name; `undefined` when there is no such organization, or it is disabled. */
export async function findSettings(
  db: Db,
  organization: string,
): Promise<OrganizationSettings | undefined> {
  const [row] = await settingsByName(db, organization);
  return (
    row && {
      secondFactorRequired: row.second_factor_required === 1,
      openClientsAllowed: row.open_clients_allowed === 1,
    }
  );
}

/** Changes settings. Omitted members keep their value. */
export async function updateSettings(
  db: Db,
  organizationId: string,
  { secondFactorRequired, openClientsAllowed }: Partial<OrganizationSettings>,
): Promise<void> {
  const change = {
    ...(secondFactorRequired !== undefined && {
      second_factor_required: secondFactorRequired ? 1 : 0,
    }),
    ...(openClientsAllowed !== undefined && {
      open_clients_allowed: openClientsAllowed ? 1 : 0,
    }),
  };
  if (Object.keys(change).length === 0) return;
  await db.updateTable('organization').set(change).where('id', '=', organizationId).execute();
}
