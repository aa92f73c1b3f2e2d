import type { DatabaseSync } from 'node:sqlite';
import type { AgentDirectory } from '#upstreams/tunnel/agent-admission';
import { changeTokenReader } from './cached-reads.ts';

const inForce = `k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)
  and a.revoked_at is null and o.disabled_at is null`;

const byKey = `select k.id as key_id, k.expires_at, a.id, a.name, o.name as organization
  from api_key k
  join agent a on a.id = k.agent_id
  join organization o on o.id = a.organization_id
  where k.hash = :hash and ${inForce}`;

const activeKeys = `select k.id as key_id, k.agent_id
  from json_each(:keys) wanted
  join api_key k on k.id = wanted.value
  join agent a on a.id = k.agent_id
  join organization o on o.id = a.organization_id
  where ${inForce}`;

const bound = `select agent_id, name from mcp_server
  where agent_id is not null and disabled_at is null order by name`;

const boundToOne = `select name from mcp_server
  where agent_id = :agent and disabled_at is null order by name`;

/** Looks up the agents that may connect in SQLite, with prepared statements. */
export function sqliteAgentDirectory(connection: DatabaseSync): AgentDirectory {
  const one = connection.prepare(byKey);
  const many = connection.prepare(activeKeys);
  const servers = connection.prepare(bound);
  const serversOfOne = connection.prepare(boundToOne);
  return {
    async byKey({ keyHash, now }) {
      const row = one.get({ hash: keyHash, now }) as
        | {
            key_id: string;
            expires_at: number | null;
            id: string;
            name: string;
            organization: string;
          }
        | undefined;
      if (!row) return undefined;
      const { id, name, organization } = row;
      const names = serversOfOne.all({ agent: id }) as { name: string }[];
      return {
        id,
        name,
        organization,
        keyId: row.key_id,
        keyExpiresAt: row.expires_at ?? undefined,
        servers: names.map((server) => server.name),
      };
    },

    async activeKeys(keyIds, now) {
      const rows = many.all({ keys: JSON.stringify(keyIds), now }) as {
        key_id: string;
        agent_id: string;
      }[];
      const ofAgent = new Map<string, string[]>();
      for (const row of servers.iterate() as Iterable<{ agent_id: string; name: string }>) {
        const names = ofAgent.get(row.agent_id);
        if (names) names.push(row.name);
        else ofAgent.set(row.agent_id, [row.name]);
      }
      return new Map(rows.map((row) => [row.key_id, ofAgent.get(row.agent_id) ?? []]));
    },

    changeToken: changeTokenReader(connection),
  };
}
