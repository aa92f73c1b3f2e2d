/** Which clients have to authenticate. */
export const authorization: readonly string[] = [
  `alter table oauth_client add column authentication_required integer not null default 0`,
  // Those that registered themselves with a secret; what was registered was not kept otherwise.
  `update oauth_client set authentication_required = 1
    where server_id is null and id in (select client_id from client_secret)`,
];
