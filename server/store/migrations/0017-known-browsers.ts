/** Guesses are counted by where they come from, and a browser that signed in before is a place of its own. */
export const knownBrowsers: readonly string[] = [
  // Challenges that no server issued could be spent, with an end as far away as somebody liked.
  `delete from spent_challenge`,
  // Failures were stored for a day, without where they came from.
  `drop table failed_attempt`,
  `create table failed_attempt (
    id text primary key,
    subject text not null,
    place text not null,
    failed_at bigint not null
  )`,
  `create index failed_attempt_by_subject on failed_attempt (subject, place, failed_at)`,
  `create index failed_attempt_by_place on failed_attempt (place, failed_at)`,
  `create index failed_attempt_by_time on failed_attempt (failed_at)`,
  `create table known_browser (
    token_hash text not null,
    person_id text not null references person (id) on delete cascade,
    seen_at bigint not null,
    primary key (token_hash, person_id)
  )`,
  `create index known_browser_by_person on known_browser (person_id, seen_at)`,
  `create index known_browser_by_time on known_browser (seen_at)`,
];
