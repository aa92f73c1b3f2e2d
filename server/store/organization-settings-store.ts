import type { Kysely } from 'kysely';

import type { OrganizationSettingsStore } from '#organizations/organization-settings';
import type { Schema } from './schema.ts';

/** Settings of organizations in SQL. */
export function organizationSettingsStore(db: Kysely<Schema>): OrganizationSettingsStore {
  return {
    async of(organization) {
      const row = await db
        .selectFrom('organization')
        .select(['second_factor_required', 'open_clients_allowed'])
        .where('name', '=', organization)
        .where('disabled_at', 'is', null)
        .executeTakeFirst();
      return (
        row && {
          secondFactorRequired: row.second_factor_required === 1,
          openClientsAllowed: row.open_clients_allowed === 1,
        }
      );
    },

    async update(organizationId, { secondFactorRequired, openClientsAllowed }) {
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
    },
  };
}
