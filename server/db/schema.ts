import type { Generated } from 'kysely';

import type { AttentionTables } from './attention-tables.ts';
import type { CallTables } from './call-tables.ts';
import type { InvitationTables } from './invitation-tables.ts';
import type { ProviderTables } from './provider-tables.ts';
import type { OwnedColumns, ServerTables } from './server-tables.ts';

/** The types of all tables. Times are seconds since 1970; booleans are 0 or 1; lists are JSON text. */
export interface Schema
  extends AttentionTables, CallTables, InvitationTables, ProviderTables, ServerTables {
  organization: {
    id: string;
    name: string;
    title: string;
    created_at: number;
    disabled_at: number | null;
    /** 1 if members need a second factor. */
    second_factor_required: Generated<number>;
    /** 1 if clients that registered themselves have access. */
    open_clients_allowed: Generated<number>;
    latchkey_proxy_allowed: Generated<number>;
    /** How many days its calls are kept; null for the default. */
    call_retention_days: Generated<number | null>;
    /** 1 if members can sign in only through one of its identity providers. */
    single_sign_on_required: Generated<number>;
    /** What happens to the keys, clients and agents of people who leave. */
    leaver_resources: Generated<'suspend' | 'keep'>;
    /** 1 if SCIM groups also apply to members who entered their address themselves. */
    invited_scim_groups: Generated<number>;
  };
  oauth_client: OwnedColumns & {
    id: string;
    /** Null for a client of a whole organization, and for one that registered itself. */
    endpoint_id: string | null;
    /** Null for a client that registered itself. */
    organization_id: string | null;
    name: string;
    scopes: string;
    /** JSON: the tools that it is limited to; null for all. */
    tool_selection: Generated<string | null>;
    redirect_uris: string;
    jwks: string | null;
    /** 1 for a client that registered itself with a secret. */
    authentication_required: Generated<number>;
    /** 1 for the client of Latchkey's own proxy. */
    is_latchkey_proxy: Generated<number>;
    /** When its metadata document was last read; null for a client without one. */
    fetched_at: number | null;
    created_at: number;
    last_used_at: number | null;
    revoked_at: number | null;
  };
  client_secret: {
    hash: string;
    id: string | null;
    client_id: string;
    hint: string;
    /** The actor, as the audit log names it. */
    created_by: string | null;
    created_at: number;
    expires_at: number | null;
    last_used_at: number | null;
    revoked_at: number | null;
  };
  api_key: OwnedColumns & {
    id: string;
    hash: string;
    hint: string;
    name: string;
    endpoint_id: string | null;
    agent_id: string | null;
    organization_id: string | null;
    scopes: string;
    /** JSON: the tools that it is limited to; null for all. */
    tool_selection: Generated<string | null>;
    created_by: string | null;
    /** The key that a rotation replaces by this one. */
    replaces_id: string | null;
    created_at: number;
    expires_at: number | null;
    last_used_at: number | null;
    revoked_at: number | null;
  };
  personal_token: {
    id: string;
    person_id: string;
    hash: string;
    hint: string;
    name: string;
    created_by: string | null;
    created_at: number;
    expires_at: number;
    last_used_at: number | null;
    revoked_at: number | null;
    factors: Generated<number>;
  };
  oauth_grant: {
    id: string;
    person_id: string;
    client_id: string;
    endpoint_id: string;
    scopes: string;
    /** JSON: the tools that it is limited to; null for all. */
    tool_selection: Generated<string | null>;
    redirect_host: string;
    assistant: string | null;
    /** 1 if its code was redeemed with client authentication. */
    authenticated: number;
    created_at: number;
    expires_at: number;
    last_used_at: number | null;
    revoked_at: number | null;
    /** 1 if an identity provider vouched for the person, who was not asked. */
    is_by_assertion: Generated<number>;
    provider_id: string | null;
    /** Set for a grant that shares one refresh token with grants for other servers. */
    bundle_id: Generated<string | null>;
    /** The computer that the proxy named. */
    device_id: Generated<string | null>;
  };
  /** Grants at several servers, under one refresh token. */
  grant_bundle: {
    id: string;
    person_id: string;
    client_id: string;
    /** 1 if its tokens may list the person's servers. */
    lists_servers: number;
    code_hash: string;
    redirect_uri: string;
    code_challenge: string;
    code_expires_at: number;
    /** When its code was redeemed; null before. */
    redeemed_at: number | null;
    /** 1 if its code was redeemed with client authentication. */
    authenticated: Generated<number>;
    expires_at: number | null;
    revoked_at: number | null;
  };
  authorization_code: {
    hash: string;
    grant_id: string;
    person_id: string;
    client_id: string;
    endpoint_id: string;
    scopes: string;
    /** JSON: the tools that it is limited to; null for all. */
    tool_selection: Generated<string | null>;
    redirect_uri: string;
    code_challenge: string;
    assistant: string | null;
    expires_at: number;
    spent_at: number | null;
    /** Set for one server's row of a bundle's code. */
    bundle_id: Generated<string | null>;
    device_id: Generated<string | null>;
  };
  access_request: {
    id: string;
    organization_id: string;
    endpoint_id: string;
    person_id: string;
    reason: string;
    status: 'open' | 'granted' | 'declined' | 'withdrawn';
    created_at: number;
    decided_at: number | null;
    /** The actor who decided. */
    decided_by: string | null;
    /** The name of the group that the person was added to. */
    group_name: string | null;
    /** The answer to the person; empty unless declined. */
    answer: Generated<string>;
  };
  /** A computer of a person, as Latchkey's proxy there named it. */
  device: {
    id: string;
    person_id: string;
    /** SHA-256 of the id that the proxy chose. */
    claim_hash: string;
    name: string;
    system: string;
    created_at: number;
    /** When a proxy last named it. */
    named_at: number;
  };
  /** An organization that a token's owner left. The token never works there again. */
  personal_token_ended: {
    token_id: string;
    organization_id: string;
  };
  /** Belongs to a grant or to a bundle. */
  refresh_token: {
    hash: string;
    grant_id: string | null;
    bundle_id: string | null;
    expires_at: number;
    spent_at: number | null;
    successor_hash: string | null;
    sealed_successor: string | null;
  };
  consent: {
    person_id: string;
    client_id: string;
    endpoint_id: string;
    redirect_host: string;
    scopes: string;
    expires_at: number;
  };
  authorization_request: {
    id_hash: string;
    session_id: string;
    person_id: string;
    client_id: string;
    request: string;
    /** The server and the scopes that the consent page displayed. */
    endpoint_id: Generated<string>;
    scopes: Generated<string>;
    expires_at: number;
  };
  used_assertion: { client_id: string; jti: string; expires_at: number };
  revoked_token: { jti: string; expires_at: number };
  signing_key: {
    kid: string;
    public_jwk: string;
    encrypted_private_key: string;
    created_at: number;
    retired_at: number | null;
  };
  person: { id: string; email: string; email_key: string; created_at: number };
  membership: {
    person_id: string;
    organization_id: string;
    role: string;
    /** 1 if the person may read stored arguments and results. */
    is_auditor: Generated<number>;
    /** How the person became a member. */
    source: Generated<'manual' | 'sso' | 'scim'>;
  };
  person_group: { id: string; organization_id: string; name: string; created_at: number };
  group_member: { group_id: string; organization_id: string; person_id: string };
  /** A view: the current members of groups, added by hand, mapped from their OpenID provider, or placed by SCIM. */
  group_person: { group_id: string; organization_id: string; person_id: string; source: string };
  provider_group: { issuer: string; subject: string; external_name: string };
  endpoint_group: { endpoint_id: string; group_id: string };
  group_mapping: { organization_id: string; external_name: string; group_id: string };
  scim_token: {
    id: string;
    organization_id: string;
    hash: string;
    hint: string;
    /** The actor, as the audit log names it. */
    created_by: string;
    created_at: number;
    expires_at: number | null;
    last_used_at: number | null;
    revoked_at: number | null;
  };
  scim_fault: {
    id: string;
    organization_id: string;
    request: string;
    subject: string;
    problem: string;
    at: number;
    times: number;
  };
  scim_user: {
    id: string;
    organization_id: string;
    /** Null until a person with its address becomes a member. */
    person_id: string | null;
    user_name: string;
    user_name_key: string;
    external_id: string | null;
    /** The address by which it is linked to a member. */
    email_key: string | null;
    /** JSON text: everything else that the directory sent. */
    attributes: string;
    active: number;
    /** The role that the membership has when it begins again. */
    role: 'admin' | 'member' | 'viewer';
    created_at: number;
    changed_at: number;
  };
  scim_group: {
    group_id: string;
    organization_id: string;
    external_id: string | null;
    /** 1 if the group existed before, and stays when the directory deletes it. */
    was_adopted: number;
    created_at: number;
    changed_at: number;
  };
  scim_group_member: { group_id: string; organization_id: string; scim_user_id: string };
  totp: {
    person_id: string;
    sealed_secret: string;
    created_at: number;
    confirmed_at: number | null;
    last_step: number;
  };
  recovery_code: { hash: string; person_id: string };
  password: { person_id: string; hash: string };
  browser_session: {
    id: string;
    token_hash: string;
    person_id: string;
    created_at: number;
    used_at: number;
    expires_at: number;
    address: string;
    user_agent: string;
    /** How many factors were proved: 1 or 2. */
    factors: number;
    /** Set if a provider of this organization opened the session, which then opens only this organization. */
    organization_id: string | null;
    provider_id: string | null;
    provider_session: string | null;
    acr: string | null;
    amr: string | null;
    auth_time: number | null;
    /** Set if the provider of the installation opened it. */
    issuer: Generated<string | null>;
  };
  trust_rule: {
    client_id: string;
    issuer: string;
    keys_url: string | null;
    jwks: string | null;
    audience: string | null;
    subject: string;
    claim_name: string | null;
    claim_value: string | null;
    longest_life_seconds: number;
    is_single_use: number;
  };
  one_time_link: {
    token_hash: string;
    purpose: string;
    person_id: string | null;
    expires_at: number;
  };
  passkey: {
    id: string;
    person_id: string;
    name: string;
    public_key: string;
    counter: number;
    transports: string;
    created_at: number;
    last_used_at: number | null;
  };
  failed_attempt: { id: string; subject: string; place: string; failed_at: number };
  known_browser: { token_hash: string; person_id: string; seen_at: number };
  spent_challenge: { hash: string; expires_at: number };
  identity: { issuer: string; subject: string; person_id: string };
  usage_rollup: {
    organization_id: string;
    kind: string;
    period: string;
    /** The beginning of the period. */
    at: number;
    /** Empty for the counts of the whole organization, as `subject` and `target_id` are. */
    endpoint_id: string;
    subject: string;
    target_id: string;
    /** A range of latencies, as numbered in `usage/latencies.ts`. */
    bucket: number;
    calls: number;
    tool_errors: number;
    refused: number;
    upstream_errors: number;
  };
  audit_event: {
    id: string;
    at: number;
    actor: string;
    organization: string | null;
    action: string;
    target: string | null;
    address: string | null;
    request_id: string | null;
    outcome: string;
    /** How often it happened: repetitions are counted in one entry. */
    times: Generated<number>;
    /** The position among the organization's events in the order in which they were stored, from 1. */
    sequence: number;
  };
  /** One row while events are being removed, none otherwise. */
  audit_retention: {
    one: number;
    removes_before: number;
  };
  audit_order: {
    /** Empty for events of no organization. */
    organization: string;
    /** The sequence of its last event. */
    last: number;
  };
  webhook: {
    id: string;
    organization_id: string;
    url: string;
    /** Empty for all actions. */
    actions: string;
    sealed_secret: string;
    sealed_earlier_secret: string | null;
    earlier_until: number | null;
    /** The sequence of the last event that was delivered or skipped. */
    position: number;
    /** Failed attempts to deliver the event after `position`. */
    attempts: Generated<number>;
    next_attempt_at: Generated<number>;
    /** Until when one process has claimed the next event, so that no other sends it. */
    claimed_until: Generated<number>;
    failing_since: number | null;
    last_success_at: number | null;
    last_failure_at: number | null;
    last_failure: string | null;
    disabled_at: number | null;
    disabled_because: string | null;
    /** The number of changes by people. */
    revision: Generated<number>;
    created_at: number;
  };
  /** On PostgreSQL only. */
  node: {
    /** Random for each process. */
    instance: string;
    name: string;
    version: string;
    started_at: number;
    seen_at: number;
    clock_skew_ms: number;
    /** How often the node changed its rows of `agent_presence`. */
    presence_revision: Generated<number>;
  };
  /** On PostgreSQL only: the agents that are connected to each node. */
  agent_presence: {
    instance: string;
    agent_id: string;
    /** An `AgentPresence` as JSON. */
    presence: string;
  };
}
