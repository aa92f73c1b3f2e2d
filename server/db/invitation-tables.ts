import type { Generated } from 'kysely';

/** The tables of invitations, and of the mail that an organization sends. */
export interface InvitationTables {
  invitation: {
    id: string;
    /** The hash of the token in its newest link. */
    token_hash: string;
    organization_id: string;
    role: string;
    group_ids: string;
    note: string;
    created_by: string;
    created_at: number;
    expires_at: number;
    /** The address that it is for; `null` if its author named none. */
    email: string | null;
  };
  /** Earlier links of an invitation that are still valid. */
  invitation_link: { token_hash: string; invitation_id: string; created_at: number };
  mail_server: {
    organization_id: string;
    host: string;
    port: number;
    security: 'starttls' | 'tls' | 'none';
    user_name: string | null;
    sealed_password: string | null;
    from_address: string;
    changed_at: number;
    /** Grows with each change by a person. */
    revision: Generated<number>;
    attempts: Generated<number>;
    next_attempt_at: Generated<number>;
    last_success_at: number | null;
    last_failure_at: number | null;
    last_failure: string | null;
  };
  mail: {
    id: string;
    organization_id: string;
    kind: 'invitation' | 'reminder' | 'notice';
    recipient: string;
    invitation_id: string | null;
    /** `null` once the mail is no longer waiting. */
    sealed_content: string | null;
    status: 'waiting' | 'sent' | 'refused';
    /** The last answer of the mail server. */
    answer: string | null;
    attempts: Generated<number>;
    next_attempt_at: number;
    claimed_until: Generated<number>;
    /** Grows with each claim. */
    version: Generated<number>;
    created_at: number;
    ended_at: number | null;
  };
}
