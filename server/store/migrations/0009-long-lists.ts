/** What counts and sorts long lists of credentials without reading their rows. */
export const longLists: readonly string[] = [
  `create index api_key_counted on api_key (organization_id, server_id, revoked_at, expires_at)
    where server_id is not null`,
  `create index api_key_of_agent on api_key (organization_id, agent_id, created_at)
    where agent_id is not null`,
  `create index api_key_in_force on api_key (server_id, revoked_at, expires_at)`,
  `create index api_key_by_name on api_key (server_id, name, id)`,
  `create index oauth_client_counted on oauth_client (organization_id, server_id, revoked_at)`,
  `create index oauth_client_in_force on oauth_client (server_id, revoked_at)`,
  `create index oauth_client_by_name on oauth_client (server_id, name, id)`,
];
