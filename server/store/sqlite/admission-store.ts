import type { DatabaseSync } from 'node:sqlite';

import type { AdmissionStore } from '#gateway/admission';
import { readScopes } from '#store/json-column';
import { readServer, type ServerRow } from '#store/organization-store';

const server = `s.id, s.name, o.name as organization, s.upstream_kind, s.upstream_url, s.agent_id,
  s.hidden_tools, s.created_at`;

const enabled = `o.name = :organization and s.name = :server
  and o.disabled_at is null and s.disabled_at is null`;

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

/**
 * Admissions from SQLite by bare prepared statements, as every call to every MCP server asks one.
 * Read anew each time, so that a revocation by any process counts at the next request.
 */
export function sqliteAdmissions(connection: DatabaseSync): AdmissionStore {
  const key = connection.prepare(byKey);
  const client = connection.prepare(byClient);
  return {
    async byKey({ organization, server: name, keyHash, now }) {
      const row = key.get({ organization, server: name, hash: keyHash, now }) as
        | (ServerRow & { key_id: string; scopes: string })
        | undefined;
      return row && { server: readServer(row), keyId: row.key_id, scopes: readScopes(row.scopes) };
    },

    async byClient({ organization, server: name, clientId, tokenId }) {
      const row = client.get({ organization, server: name, client: clientId, token: tokenId }) as
        | (ServerRow & { scopes: string })
        | undefined;
      return row && { server: readServer(row), scopes: readScopes(row.scopes) };
    },
  };
}
