import { createHash } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { ChangeStore } from '#db/changes';
import { changeTokenReader, wholeChangeTokenReader } from './cached-reads.ts';
import { lateStatement } from './late-statement.ts';

/**
 * Detects changes in SQLite. Added and removed records are detected by their number and newest times, which an index
 * provides; edited ones by their content.
 */
export function sqliteChanges(connection: DatabaseSync): ChangeStore {
  const within = `from endpoint s join organization o on o.id = s.organization_id`;
  const servers = lateStatement(
    connection,
    `select count(*), max(s.created_at), total(s.disabled_at), group_concat(json_array(
       s.title, s.description, s.limits, s.access, s.is_requestable, t.hidden_tools, t.upstream_kind, t.upstream_settings, t.agent_id))
     ${within} left join target t on t.endpoint_id = s.id where o.name = ?1 and (?2 is null or s.name = ?2)`,
  );
  const keys = lateStatement(
    connection,
    `select count(*), max(k.created_at), count(k.revoked_at), max(k.last_used_at), total(k.last_used_at)
     ${within} join api_key k on k.endpoint_id = s.id where o.name = ?1 and (?2 is null or s.name = ?2)`,
  );
  const clients = lateStatement(
    connection,
    `select count(*), max(c.created_at), count(c.revoked_at), max(c.last_used_at), total(c.last_used_at),
       group_concat(json_array(c.name, c.scopes, c.redirect_uris)),
       (select count(*) from client_secret x join oauth_client y on y.id = x.client_id
         where y.endpoint_id in (select s.id ${within} where o.name = ?1 and (?2 is null or s.name = ?2))),
       (select total(x.revoked_at) from client_secret x join oauth_client y on y.id = x.client_id
         where y.endpoint_id in (select s.id ${within} where o.name = ?1 and (?2 is null or s.name = ?2)))
     ${within} join oauth_client c on c.endpoint_id = s.id where o.name = ?1 and (?2 is null or s.name = ?2)`,
  );
  const agents = lateStatement(
    connection,
    `select count(*), count(a.revoked_at), (select max(k.last_used_at) from api_key k join agent b on b.id = k.agent_id
       join organization p on p.id = b.organization_id where p.name = ?1),
       (select count(*) || '/' || count(k.revoked_at) from api_key k join agent b on b.id = k.agent_id
       join organization p on p.id = b.organization_id where p.name = ?1)
     from agent a join organization o on o.id = a.organization_id where o.name = ?1`,
  );
  // The data that the catalogue of a person depends on: requests for access, members of groups, applications and connected accounts.
  const people = lateStatement(
    connection,
    `select
       (select count(*) || '/' || total(r.decided_at) || '/' || max(r.created_at) from access_request r
         where r.organization_id = o.id),
       (select count(*) from group_member m where m.organization_id = o.id),
       (select count(*) || '/' || total(g.revoked_at) || '/' || max(g.created_at) from oauth_grant g
         join endpoint s on s.id = g.endpoint_id where s.organization_id = o.id),
       (select count(*) || '/' || max(c.created_at) || '/' || total(c.failed_at) from upstream_connection c
         where c.organization_id = o.id)
     from organization o where o.name = ?1`,
  );

  const wholeToken = wholeChangeTokenReader(connection);
  return {
    changeToken: changeTokenReader(connection),
    newestChangeToken: async () => wholeToken(),
    async stateOf(organization, server) {
      const at = [organization, server ?? null] as const;
      const listed = [servers, keys, clients].map((statement) => statement().get(...at));
      const ofAll = server === undefined ? [agents, people] : [];
      const all = [...listed, ...ofAll.map((statement) => statement().get(organization))];
      // Hashed, because every open page keeps one, and the texts of a thousand clients are long.
      return createHash('sha256').update(JSON.stringify(all)).digest('base64url');
    },
  };
}
