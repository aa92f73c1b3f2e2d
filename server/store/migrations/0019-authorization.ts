/** Which clients have to authenticate, and what a consent page showed. */
export const authorization: readonly string[] = [
  `alter table oauth_client add column authentication_required integer not null default 0`,
  // Those that registered themselves with a secret; what was registered was not kept otherwise.
  `update oauth_client set authentication_required = 1
    where server_id is null and id in (select client_id from client_secret)`,
  // What a page showed before is not known; its question is asked again.
  `delete from authorization_request`,
  `alter table authorization_request add column server_id text not null default ''`,
  `alter table authorization_request add column scopes text not null default '[]'`,
];
