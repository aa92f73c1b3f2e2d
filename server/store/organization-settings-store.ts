import type { Kysely } from 'kysely';

import type { OrganizationSettingsStore } from '#organizations/organization-settings';
import { compiledQuery } from './compiled-query.ts';
import type { Schema } from './schema.ts';

/** Settings of organizations in SQL. */
export function organizationSettingsStore(db: Kysely<Schema>): OrganizationSettingsStore {
  const ofName = compiledQuery(db, (name: string) =>
    db
      .selectFrom('organization')
      .select(['second_factor_required', 'open_clients_allowed'])
      .where('name', '=', name)
      .where('disabled_at', 'is', null),
  );

  return {
    async of(organization) {
      const [row] = await ofName(organization);
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
