import type { DatabaseSync } from 'node:sqlite';
import { isRole, roleScopes } from '#accounts/people';
import { readScopes } from '#db/columns';
import { readServer, type ServerRow } from '#db/servers';
import type { AdmissionStore, AdmittedClient, AdmittedKey } from '#gateway/admission';
import { cachedReads, changeTokenReader } from './cached-reads.ts';

const server = `s.id, s.name, o.name as organization, s.upstream_kind, s.upstream_settings,
  s.upstream_access_id, s.upstream_tells_callers, s.upstream_headers,
  s.agent_id, s.hidden_tools, s.limits, s.changed_tools, s.withheld_tools, s.created_at`;

const enabled = `o.name = :organization and s.name = :server
  and o.disabled_at is null and s.disabled_at is null`;

/** If a server is limited to groups, only their members may use it. `m` is the membership. */
const inGroup = `(not exists (select 1 from server_group r where r.server_id = s.id)
  or exists (select 1 from server_group r
    join group_person p on p.group_id = r.group_id and p.person_id = m.person_id
    where r.server_id = s.id))`;

const byKey = `select ${server}, k.id as key_id, k.scopes
  from api_key k
  join mcp_server s on s.id = k.server_id
  join organization o on o.id = s.organization_id
  where k.hash = :hash and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > :now) and ${enabled}`;

const byClient = `select ${server}, c.scopes
  from oauth_client c
  join mcp_server s on s.id = c.server_id
  join organization o on o.id = s.organization_id
  where c.id = :client and c.revoked_at is null and ${enabled}
    and not exists (select 1 from revoked_token r where r.jti = :token)`;

/** An organization may accept only clients that an administrator created for one of its servers. */
const acceptedClient = `(c.server_id is not null or o.open_clients_allowed = 1)`;

const byGrant = `select ${server}, c.scopes, m.role
  from oauth_grant g
  join oauth_client c on c.id = g.client_id
  join mcp_server s on s.id = g.server_id
  join organization o on o.id = s.organization_id
  join membership m on m.person_id = g.person_id and m.organization_id = o.id
  where g.id = :grant and g.person_id = :person and c.id = :client
    and g.revoked_at is null and c.revoked_at is null and ${enabled}
    and ${inGroup} and ${acceptedClient}
    and not exists (select 1 from revoked_token r where r.jti = :token)`;

const byPerson = `select ${server}, m.role
  from mcp_server s
  join organization o on o.id = s.organization_id
  join membership m on m.person_id = :person and m.organization_id = o.id
  where ${enabled} and ${inGroup}`;

/** The queries of admission, with named parameters. Their SQL text is the same for SQLite and PostgreSQL. */
export const admissionQueries = { byKey, byClient, byGrant, byPerson };

/** Converts the rows of each query. */
export const readAdmitted = {
  byKey: (row: ServerRow & { key_id: string; scopes: string }): AdmittedKey => ({
    server: readServer(row),
    keyId: row.key_id,
    scopes: readScopes(row.scopes),
  }),
  byClient: (row: ServerRow & { scopes: string }): AdmittedClient => ({
    server: readServer(row),
    scopes: readScopes(row.scopes),
  }),
  byGrant(row: ServerRow & { scopes: string; role: string }): AdmittedClient | undefined {
    if (!isRole(row.role)) return undefined;
    const most = roleScopes(row.role);
    const scopes = readScopes(row.scopes).filter((scope) => most.includes(scope));
    return { server: readServer(row), scopes };
  },
  byPerson: (row: ServerRow & { role: string }): AdmittedClient | undefined =>
    isRole(row.role) ? { server: readServer(row), scopes: roleScopes(row.role) } : undefined,
};

/**
 * Looks up admissions in SQLite. It uses prepared statements directly, because every MCP call needs one. Results are cached
 * until the database changes, which is checked for each of them, so a revocation by any process takes effect on the next
 * request.
 */
export function sqliteAdmissions(connection: DatabaseSync): AdmissionStore {
  const key = connection.prepare(byKey);
  const client = connection.prepare(byClient);
  const granted = connection.prepare(byGrant);
  const member = connection.prepare(byPerson);
  const cached = cachedReads(connection);
  return {
    byKey({ organization, server: name, keyHash, now, asOf }) {
      const read = () => {
        const row = key.get({ organization, server: name, hash: keyHash, now }) as
          | (ServerRow & { key_id: string; scopes: string })
          | undefined;
        return row && readAdmitted.byKey(row);
      };
      return cached(`key ${organization}/${name} ${keyHash} ${now}`, read, asOf);
    },

    byClient({ organization, server: name, clientId, tokenId, grant, asOf }) {
      const parameters = { organization, server: name, client: clientId, token: tokenId ?? null };
      const of = grant ? `${grant.id} ${grant.userId}` : '';
      const read = () => {
        if (!grant) {
          const row = client.get(parameters) as (ServerRow & { scopes: string }) | undefined;
          return row && readAdmitted.byClient(row);
        }
        const row = granted.get({ ...parameters, grant: grant.id, person: grant.userId }) as
          | (ServerRow & { scopes: string; role: string })
          | undefined;
        return row && readAdmitted.byGrant(row);
      };
      const cacheKey = `client ${organization}/${name} ${clientId} ${tokenId ?? ''} ${of}`;
      return cached(cacheKey, read, asOf);
    },

    byPerson({ organization, server: name, userId }) {
      return cached(`person ${organization}/${name} ${userId}`, () => {
        const row = member.get({ organization, server: name, person: userId }) as
          | (ServerRow & { role: string })
          | undefined;
        return row && readAdmitted.byPerson(row);
      });
    },

    changeToken: changeTokenReader(connection),
  };
}
