import { CompiledQuery } from 'kysely';

import { admissionQueries, readAdmitted } from '#server/db/sqlite/admission-store';
import type { ServerRow } from '#server/db/servers';
import type { Db } from '#server/db/transaction';
import type { AdmissionStore } from '#server/gateway/admission';

/** Admissions from PostgreSQL, each by a query: the server has one for SQLite only. */
export function postgresAdmissions(db: Db): Omit<AdmissionStore, 'changeToken'> {
  const first = async <Row>(
    query: string,
    values: Readonly<Record<string, string | number | null>>,
  ): Promise<(ServerRow & Row) | undefined> => {
    const parameters: unknown[] = [];
    const text = query.replaceAll(/:(\w+)/g, (_, name: string) => {
      parameters.push(values[name]);
      return `$${parameters.length}`;
    });
    return (await db.executeQuery<ServerRow & Row>(CompiledQuery.raw(text, parameters))).rows[0];
  };
  return {
    async byKey({ organization, server, keyHash: hash, now }) {
      const values = { organization, server, hash, now };
      const row = await first<{ key_id: string; scopes: string }>(admissionQueries.byKey, values);
      return row && readAdmitted.byKey(row);
    },

    async byClient({ organization, server, clientId: client, tokenId, grant }) {
      const values = { organization, server, client, token: tokenId ?? null };
      if (!grant) {
        const row = await first<{ scopes: string }>(admissionQueries.byClient, values);
        return row && readAdmitted.byClient(row);
      }
      const row = await first<{ scopes: string; role: string }>(admissionQueries.byGrant, {
        ...values,
        grant: grant.id,
        person: grant.userId,
      });
      return row && readAdmitted.byGrant(row);
    },

    async byPerson({ organization, server, userId: person }) {
      const values = { organization, server, person };
      const row = await first<{ role: string }>(admissionQueries.byPerson, values);
      return row && readAdmitted.byPerson(row);
    },
  };
}
