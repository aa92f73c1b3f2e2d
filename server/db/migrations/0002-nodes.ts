import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * The tables for several nodes that share one PostgreSQL. On SQLite there is only one node, so nothing changes.
 *
 * `admission_epoch` changes with each transaction that may take access away or changes data that admissions read, in the same commit.
 * Admissions that a node has read are valid as long as the epoch is the same. Inserting a credential does not change it, because
 * nodes never keep the answer that a row is absent.
 */
export async function up(db: Db): Promise<void> {
  if (!isPostgres(db)) return;
  const triggers = Object.entries(epochEvents).map(
    ([table, events]) => `create constraint trigger ${table}_changes_admissions
      after ${events} on ${table} deferrable initially deferred
      for each row execute function change_admission_epoch()`,
  );
  await sql.raw([...tables, ...triggers].join(';\n')).execute(db);
}

const tables = [
  // A node is a process. All times are by the clock of the database.
  `create table node (
    instance text collate "C" primary key,
    name text collate "C" not null,
    version text collate "C" not null,
    started_at bigint not null,
    seen_at bigint not null,
    clock_skew_ms bigint not null,
    presence_revision bigint not null default 0
  )`,
  // The agents that are connected to a node, as JSON. Valid while the node is alive; `presence_revision` grows with each change.
  `create table agent_presence (
    instance text collate "C" not null references node (instance) on delete cascade,
    agent_id text collate "C" not null references agent (id) on delete cascade,
    presence text not null,
    primary key (instance, agent_id)
  )`,
  `create index agent_presence_of_agent on agent_presence (agent_id)`,
  `create table admission_epoch (
    one integer primary key check (one = 1),
    epoch bigint not null
  )`,
  // The migrations that versions without them may ignore.
  `create table additive_migration (name text collate "C" primary key)`,
  `insert into admission_epoch (one, epoch) values (1, 1)`,
  // Changes the epoch once for each transaction, at its end, so that the row is locked as briefly as possible. The id of the transaction
  // is kept in a setting and not in a table: a restored table could hold the id of a future transaction.
  `create function change_admission_epoch() returns trigger language plpgsql as $$
    declare
      own constant text := pg_current_xact_id()::text;
    begin
      if current_setting('latchkey.epoch_changed_by', true) is distinct from own then
        update admission_epoch set epoch = epoch + 1;
        perform set_config('latchkey.epoch_changed_by', own, true);
      end if;
      return null;
    end $$`,
];

/** The tables that admissions, and clients that ask for tokens, are read from, each with the events that change them. */
const epochEvents = {
  organization:
    'update of name, disabled_at, open_clients_allowed, latchkey_proxy_allowed or delete',
  endpoint: 'update of organization_id, name, limits, access, disabled_at or delete',
  target: `update of endpoint_id, upstream_kind, upstream_settings, upstream_access_id, upstream_forwards_caller,
    upstream_headers, agent_id, hidden_tools, changed_tools, withheld_tools, open_tools or delete`,
  api_key: 'update of hash, endpoint_id, scopes, expires_at, revoked_at or delete',
  oauth_client: `update of endpoint_id, name, scopes, redirect_uris, jwks, authentication_required, is_latchkey_proxy,
    revoked_at or delete`,
  client_secret: 'update of hash, client_id, expires_at, revoked_at or delete',
  oauth_grant: 'update of person_id, client_id, endpoint_id, revoked_at or delete',
  membership: 'update or delete',
  revoked_token: 'insert',
  endpoint_group: 'insert or update or delete',
  group_member: 'update or delete',
  group_mapping: 'update or delete',
  provider_group: 'update or delete',
  identity: 'update of person_id or delete',
};
