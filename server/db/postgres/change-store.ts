import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '#db/transaction';
import type { ChangeStore } from '#db/changes';

const pollEveryMs = 500;

/**
 * Detects changes in PostgreSQL. The change token is read twice a second. It may be half a second old, so it
 * never proves a right; pages, which must not miss what another node has just written, read the newest one.
 */
export class PostgresChanges implements ChangeStore {
  readonly #db: Db;
  readonly #failed: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #token = '';
  #polling: Promise<void> | undefined;

  private constructor(db: Db, failed: (error: unknown) => void) {
    this.#db = db;
    this.#failed = failed;
    this.#timer = setInterval(() => void this.#poll(), pollEveryMs).unref();
  }

  static async open(db: Db, failed: (error: unknown) => void): Promise<PostgresChanges> {
    const changes = new PostgresChanges(db, failed);
    await changes.#poll();
    return changes;
  }

  changeToken(): string {
    return this.#token;
  }

  /**
   * Every transaction that commits changes the snapshot, which lists the transactions that are running. The start time tells another
   * server, which may answer after a failover or a restore, from this one.
   */
  readonly newestChangeToken = async (): Promise<string> => {
    const { rows } = await sql<{
      token: string;
    }>`select pg_current_snapshot()::text || ' ' || pg_postmaster_start_time()::text as token`.execute(
      this.#db,
    );
    return rows[0]?.token ?? '';
  };

  async stateOf(organization: string, server: string | undefined): Promise<string> {
    const at = sql`o.name = ${organization} and (${server ?? null}::text is null or s.name = ${server ?? null})`;
    const within = sql`endpoint s join organization o on o.id = s.organization_id`;
    const { rows } = await sql<{ state: unknown }>`select json_build_array(
      (select json_agg(json_build_array(s.created_at, s.disabled_at, s.title, s.description, s.limits,
          s.access, s.is_requestable, t.hidden_tools, t.upstream_kind, t.upstream_settings, t.agent_id) order by s.id)
        from ${within} left join target t on t.endpoint_id = s.id where ${at}),
      (select json_build_array(count(*), max(k.created_at), count(k.revoked_at), max(k.last_used_at), sum(k.last_used_at))
        from ${within} join api_key k on k.endpoint_id = s.id where ${at}),
      (select json_agg(json_build_array(c.created_at, c.revoked_at, c.last_used_at, c.name, c.scopes, c.redirect_uris) order by c.id)
        from ${within} join oauth_client c on c.endpoint_id = s.id where ${at}),
      (select json_build_array(count(*), sum(x.revoked_at))
        from ${within} join oauth_client c on c.endpoint_id = s.id join client_secret x on x.client_id = c.id where ${at}),
      (select json_build_array(count(*), count(a.revoked_at))
        from agent a join organization o on o.id = a.organization_id
        where o.name = ${organization} and ${server ?? null}::text is null),
      (select json_build_array(count(*), count(k.revoked_at), max(k.last_used_at))
        from agent a join organization o on o.id = a.organization_id join api_key k on k.agent_id = a.id
        where o.name = ${organization} and ${server ?? null}::text is null),
      (select json_build_array(
          (select json_build_array(count(*), sum(r.decided_at), max(r.created_at)) from access_request r
            where r.organization_id = o.id),
          (select count(*) from group_member m where m.organization_id = o.id),
          (select json_build_array(count(*), sum(g.revoked_at), max(g.created_at)) from oauth_grant g
            join endpoint s on s.id = g.endpoint_id where s.organization_id = o.id),
          (select json_build_array(count(*), max(c.created_at), sum(c.failed_at)) from upstream_connection c
            where c.organization_id = o.id))
        from organization o where o.name = ${organization} and ${server ?? null}::text is null)
    )::text as state`.execute(this.#db);
    // Hashed, because every open page keeps one, and the texts of a thousand clients are long.
    return createHash('sha256').update(String(rows[0]?.state)).digest('base64url');
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#polling;
  }

  #poll(): Promise<void> {
    this.#polling ??= this.#read().finally(() => {
      this.#polling = undefined;
    });
    return this.#polling;
  }

  async #read(): Promise<void> {
    try {
      this.#token = await this.newestChangeToken();
    } catch (error) {
      this.#failed(error);
    }
  }
}
