import { preparedQuery } from './prepared-query.ts';
import type { Db } from './transaction.ts';

/** What an organization asks of its people and lets them do. */
export interface OrganizationSettings {
  /** Whether only browsers that proved two factors may do anything here. */
  readonly secondFactorRequired: boolean;
  /**
   * Whether applications that described or registered themselves have access, where members allow it. Turned off, it
   * suspends what members allowed before, rather than revoking it.
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

/** By the organization's name; `undefined` when there is none, or it is disabled. */
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

/** Changes the settings that are given. */
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
