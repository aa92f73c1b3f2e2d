import { sql } from 'kysely';

import { isPostgres, type Db } from './transaction.ts';
import type { EpochSeconds } from '#model/clock';

/** An agent that authenticated with a key. */
export interface AdmittedAgent {
  readonly id: string;
  readonly name: string;
  readonly organization: string;
  readonly keyId: string;
  readonly keyExpiresAt: EpochSeconds | undefined;
  /** The names of the enabled servers that are bound to it. */
  readonly servers: readonly string[];
}

/** Looks up which keys are valid, and for which agents. */
export interface AgentDirectory {
  /**
   * `undefined` for a key that is unknown, revoked, suspended or expired, or whose agent or organization is revoked, suspended or
   * disabled. Deliberately not distinguished.
   */
  byKey(at: { keyHash: string; now: EpochSeconds }): Promise<AdmittedAgent | undefined>;

  /** The ids in `keyIds` of keys that are still valid, each with the names of the enabled servers that are bound to its agent. */
  activeKeys(keyIds: readonly string[], now: EpochSeconds): Promise<Map<string, readonly string[]>>;

  /** A token that changes whenever any process writes to the database. Very cheap. */
  changeToken(): string;
}

const agentInForce = sql`a.revoked_at is null and a.suspended_at is null and o.disabled_at is null`;

/** Looks up the agents that may connect. */
export function agentDirectory(db: Db, changeToken: () => string): AgentDirectory {
  return {
    async byKey({ keyHash, now }) {
      const { rows } = await sql<{
        key_id: string;
        expires_at: number | null;
        id: string;
        name: string;
        organization: string;
      }>`select k.id as key_id, k.expires_at, a.id, a.name, o.name as organization
        from api_key k
        join agent a on a.id = k.agent_id
        join organization o on o.id = a.organization_id
        where k.hash = ${keyHash} and ${keyInForce(now)} and ${agentInForce}`.execute(db);
      const [row] = rows;
      if (!row) return undefined;
      const { id, name, organization } = row;
      const bound = await db
        .selectFrom('target')
        .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
        .select('endpoint.name')
        .where('target.agent_id', '=', id)
        .where('endpoint.disabled_at', 'is', null)
        .orderBy('endpoint.name')
        .execute();
      return {
        id,
        name,
        organization,
        keyId: row.key_id,
        keyExpiresAt: row.expires_at ?? undefined,
        servers: bound.map((server) => server.name),
      };
    },

    async activeKeys(keyIds, now) {
      // One parameter, however many keys there are.
      const wanted = isPostgres(db)
        ? sql`json_array_elements_text(${JSON.stringify(keyIds)}::json)`
        : sql`json_each(${JSON.stringify(keyIds)})`;
      const { rows } = await sql<{ key_id: string; agent_id: string }>`
        select k.id as key_id, k.agent_id
        from api_key k
        join agent a on a.id = k.agent_id
        join organization o on o.id = a.organization_id
        where k.id in (select value from ${wanted} as wanted) and ${keyInForce(now)} and ${agentInForce}`.execute(
        db,
      );
      const bound = await db
        .selectFrom('target')
        .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
        .select(['target.agent_id', 'endpoint.name'])
        .where('target.agent_id', 'is not', null)
        .where('endpoint.disabled_at', 'is', null)
        .orderBy('endpoint.name')
        .execute();
      const namesOf = Map.groupBy(bound, (server) => server.agent_id);
      return new Map(
        rows.map((row) => [row.key_id, (namesOf.get(row.agent_id) ?? []).map(({ name }) => name)]),
      );
    },

    changeToken,
  };
}

const keyInForce = (now: number) =>
  sql`k.revoked_at is null and k.suspended_at is null and (k.expires_at is null or k.expires_at > ${now})`;
