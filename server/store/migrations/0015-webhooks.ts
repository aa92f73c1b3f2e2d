/** Where organizations have their events sent, and the order in which events were written down. */
export const webhooks: readonly string[] = [
  // An id tells when something happened; what is counted for a minute is written down behind what came later.
  // Events from before have none: nobody is sent what happened before there was a webhook.
  `alter table audit_event add column sequence bigint`,
  `create unique index audit_event_by_sequence on audit_event (sequence)`,
  `create index audit_event_in_sequence on audit_event (organization, sequence)`,
  `create table webhook (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    url text not null,
    actions text not null,
    sealed_secret text not null,
    sealed_earlier_secret text,
    earlier_until bigint,
    position bigint not null,
    attempts bigint not null default 0,
    next_attempt_at bigint not null default 0,
    failing_since bigint,
    last_success_at bigint,
    last_failure_at bigint,
    last_failure text,
    disabled_at bigint,
    disabled_because text,
    revision bigint not null default 0,
    created_at bigint not null
  )`,
  `create index webhook_of_organization on webhook (organization_id, created_at)`,
];
