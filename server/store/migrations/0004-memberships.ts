/**
 * Who leaves an organization, however that is written down, takes along what they allowed there: were they
 * to come back, an application that they have forgotten would come back with them.
 */
export const memberships: readonly string[] = [
  `create trigger membership_ends_grants after delete on membership
    begin
      delete from oauth_grant where person_id = old.person_id
        and server_id in (select id from mcp_server where organization_id = old.organization_id);
      delete from authorization_code where person_id = old.person_id
        and server_id in (select id from mcp_server where organization_id = old.organization_id);
      delete from consent where person_id = old.person_id
        and server_id in (select id from mcp_server where organization_id = old.organization_id);
    end`,
];
