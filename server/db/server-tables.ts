import type { Generated } from 'kysely';
import type { PrimitiveKind } from '#model/tool-rights';

/** The columns of keys, clients and agents for which a person is responsible. */
export interface OwnedColumns {
  /** The person who is responsible: the creator, until somebody else takes over; null if nobody is. */
  owner_id: Generated<string | null>;
  /** When its owner left; null if it has an owner or never had one. */
  ownerless_at: Generated<number | null>;
  /** When it was suspended because its owner left. */
  suspended_at: Generated<number | null>;
}

/** The types of the tables of servers, their upstreams and agents; see `schema.ts`. */
export interface ServerTables {
  endpoint: {
    id: string;
    organization_id: string;
    name: string;
    title: string;
    description: string;
    instructions: string;
    /** JSON text. */
    limits: string | null;
    /** The number of changes to it and to its target. */
    revision: Generated<number>;
    /** `everyone` in the organization, or only the `groups` of `endpoint_group`. */
    access: Generated<'everyone' | 'groups'>;
    /** 1 if people without access see it, and may ask for access. */
    is_requestable: Generated<number>;
    created_at: number;
    disabled_at: number | null;
  };
  target: {
    id: string;
    endpoint_id: string;
    upstream_kind: string;
    /** JSON text: the settings of the upstream's kind, except `agent_id`. */
    upstream_settings: string;
    /** The `upstream_access` that gets the tokens that its upstream requires; null if it requires none. */
    upstream_access_id: Generated<string | null>;
    /** 1 if its calls contain the identity of the caller. */
    upstream_forwards_caller: Generated<number>;
    /** JSON text: headers for its requests, with encrypted values; null for none. */
    upstream_headers: Generated<string | null>;
    /** When the upstream refused their current values and accepted the previous ones. */
    upstream_headers_refused_at: Generated<number | null>;
    /** JSON: the key that it requires of each person; null if it requires none. */
    upstream_key: Generated<string | null>;
    agent_id: string | null;
    hidden_tools: Generated<string>;
    changed_tools: Generated<string>;
    /** JSON: the rules about who may use its tools, prompts and resources; null without any rule. */
    tool_rules: Generated<string | null>;
    new_tools: Generated<string>;
    /** JSON: the facts that calls need, derived from `primitive_definition`. */
    offered: Generated<string>;
    /** JSON: the hidden tools that a credential of its MCP endpoint hid and may show again. */
    hidden_by_credential: Generated<string>;
    /** JSON: the kinds of definitions of which a whole list was read. */
    listed_kinds: Generated<string>;
    /** Counts the changes of the definitions that lists are compared with. */
    definitions_revision: Generated<number>;
    /** JSON: what is stored of the arguments and results of its calls; null if that was never chosen. */
    call_contents: Generated<string | null>;
  };
  /** Endpoints that are installed on computers by default. */
  endpoint_installation: {
    endpoint_id: string;
    install: 'everyone' | 'groups';
  };
  endpoint_installation_group: {
    endpoint_id: string;
    group_id: string;
  };
  /** Endpoints that anyone can find, with the words that anyone can read. */
  endpoint_publication: {
    endpoint_id: string;
    title: string;
    description: string;
    /** Counts the changes of these words. */
    version: number;
    published_at: number;
    updated_at: number;
  };
  collection_member: {
    collection_id: string;
    member_id: string;
    /** Its place in the order that decides between equal names. */
    position: number;
    /** JSON: the tools, prompts and resources that were chosen; null for all. */
    tool_selection: string | null;
    /** 1 once it has listed a tool with a page (MCP Apps). Such a page calls the member's tools by name. */
    has_apps: Generated<number>;
  };
  /** The state of each name that a member of a collection has ever listed. */
  collection_name: {
    collection_id: string;
    member_id: string;
    kind: PrimitiveKind;
    /** The name that the member uses. */
    name: string;
    state: 'shown' | 'waiting' | 'left-out';
    /** The name that callers use; null unless it is shown. */
    shown: string | null;
    noted_at: number;
  };
  primitive_definition: {
    target_id: string;
    kind: string;
    name: string;
    /** Null, like the other accepted values, until it is accepted for the first time. */
    accepted_digest: string | null;
    accepted_text: string | null;
    /** JSON: the annotations of a tool, with the accepted definition; null if they are not known. */
    accepted_annotations: Generated<string | null>;
    accepted_at: number | null;
    /** The actor who accepted it; null if it was offered without a review. */
    accepted_by: Generated<string | null>;
    seen_digest: string | null;
    seen_text: string | null;
    seen_annotations: Generated<string | null>;
    changed_at: number | null;
    /** The definition that an administrator rejected last, until one is accepted. */
    rejected_digest: Generated<string | null>;
    rejected_at: Generated<number | null>;
    rejected_by: Generated<string | null>;
    /** When it was last listed, to the day. */
    listed_at: number;
    /** JSON: the administrators' corrections of what the server says. */
    correction: Generated<string | null>;
    corrected_at: Generated<number | null>;
    corrected_by: Generated<string | null>;
  };
  upstream_access: {
    id: string;
    /** The target that uses it or used it. The encrypted values can be decrypted only for this target. */
    target_id: string;
    /** The endpoint for which it was set up. */
    endpoint_id: string;
    kind: string;
    url: string;
    metadata: string;
    resource: string;
    client_id: string;
    sealed_client_secret: string | null;
    scopes: string;
    vouched_hosts: string;
    created_at: number;
    registration_url: string | null;
    sealed_registration_token: string | null;
    /** Failed attempts to remove the registration at the authorization server. */
    attempts: Generated<number>;
    next_attempt_at: Generated<number>;
  };
  upstream_connection: {
    id: string;
    access_id: string;
    target_id: string;
    /** The person who owns it or owned it; `person_id` is null once the connection has ended. */
    subject: string;
    person_id: string | null;
    organization_id: string | null;
    sealed_tokens: string;
    version: Generated<number>;
    claimed_until: Generated<number>;
    created_at: number;
    renewed_at: number;
    failed_at: number | null;
    /** Failed attempts to revoke the tokens at the authorization server. */
    attempts: Generated<number>;
    next_attempt_at: Generated<number>;
  };
  person_key: {
    target_id: string;
    person_id: string;
    organization_id: string;
    place: string;
    sealed_key: string;
    hint: string | null;
    set_at: number;
    proved_at: number | null;
    refused_at: number | null;
    last_used_at: number | null;
    previous_sealed_key: string | null;
    version: Generated<number>;
  };
  agent: OwnedColumns & {
    id: string;
    organization_id: string;
    name: string;
    created_at: number;
    revoked_at: number | null;
    online_until: number | null;
    /** JSON: the names of the servers that it runs as commands, as it reported when it was last connected. */
    commands: Generated<string | null>;
  };
}
