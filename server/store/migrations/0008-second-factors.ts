/** One-time codes as a second factor, and how much a session has proved. */
export const secondFactors: readonly string[] = [
  `create table totp (
    person_id text primary key references person (id) on delete cascade,
    sealed_secret text not null,
    created_at bigint not null,
    confirmed_at bigint,
    last_step bigint not null
  )`,
  `create table recovery_code (
    hash text primary key,
    person_id text not null references person (id) on delete cascade
  )`,
  `create index recovery_code_by_person on recovery_code (person_id)`,
  // What was signed in before there were second factors has proved one.
  `alter table browser_session add column factors integer not null default 1`,
];
