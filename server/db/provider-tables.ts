import type { Generated } from 'kysely';

/** The types of the tables of identity providers; see `schema.ts`. */
export interface ProviderTables {
  identity_provider: {
    id: string;
    organization_id: string;
    name: string;
    issuer: string;
    client_id: string;
    sealed_secret: string;
    scopes: string;
    groups_claim: string;
    email_trusted: number;
    joining_role: string | null;
    joining_groups: string;
    role_groups: string;
    counts_as_two_factors: number;
    created_at: number;
    tested_at: number | null;
    tested_by: string | null;
    disabled_at: number | null;
    assertions_allowed: Generated<number>;
    assertion_clients: Generated<string>;
    assertion_servers: Generated<string>;
    keys_url: string | null;
    native_client_id: string | null;
    check_again: Generated<string>;
    session_check_minutes: Generated<number>;
    grant_check_hours: Generated<number>;
    /** When it last announced a logout. */
    announced_at: Generated<number | null>;
  };
  organization_domain: {
    organization_id: string;
    domain: string;
    verification_token: string;
    created_at: number;
    proved_by: string | null;
    proved_at: number | null;
    checked_at: number | null;
  };
  member_identity: {
    provider_id: string;
    subject: string;
    organization_id: string;
    person_id: string;
    email: string | null;
    created_at: number;
    used_at: number;
  };
  member_identity_group: { provider_id: string; subject: string; external_name: string };
  provider_logout: {
    /** The id of an organization's provider, or the issuer of the installation's. */
    provider: string;
    token_id: string;
    subject: string | null;
    provider_session: string | null;
    issued_at: number;
    expires_at: number;
  };
  provider_check: {
    provider: string;
    subject: string;
    /** One of these two is `provider`, the other null. */
    provider_id: string | null;
    issuer: string | null;
    sealed_token: string;
    /** The number of changes of the token. */
    version: Generated<number>;
    claimed_until: Generated<number>;
    checked_at: number;
    next_at: number;
    /** Failed attempts since the last check that was answered. */
    attempts: Generated<number>;
    failing_since: Generated<number | null>;
    failure: Generated<string | null>;
  };
}
