/**
 * When a person's grant was last used, and calls counted in rolled-up rows: one for each period, thing
 * that is counted for, and range of latencies, so that two processes add to the same row and percentiles
 * can be read off any sum of rows. `server_id` is empty where the whole organization is counted for. A
 * server or key that is gone keeps its rows until they are too old. The rows lie in the order of their
 * key, as every page reads a stretch of them.
 */
export const usage: readonly string[] = [
  `alter table oauth_grant add column last_used_at bigint`,
  `create table usage_rollup (
    organization_id text not null references organization (id) on delete cascade,
    kind text not null,
    period text not null check (period in ('minute', 'hour', 'day')),
    at bigint not null,
    server_id text not null,
    subject text not null,
    bucket integer not null,
    calls bigint not null,
    tool_errors bigint not null,
    refused bigint not null,
    upstream_errors bigint not null,
    primary key (organization_id, kind, period, at, server_id, subject, bucket)
  ) without rowid`,
  `create index usage_rollup_by_age on usage_rollup (period, at)`,
];
