/** Where authorization servers of upstreams registered us, so that they can be told when that is over. */
export const upstreamRegistrations: readonly string[] = [
  `alter table upstream_access add column registration_url text`,
  `alter table upstream_access add column sealed_registration_token text`,
  `alter table upstream_access add column attempts bigint not null default 0`,
  `alter table upstream_access add column next_attempt_at bigint not null default 0`,
];
