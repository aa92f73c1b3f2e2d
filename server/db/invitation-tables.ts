/** The tables of invitations, and of the mail that an organization sends. */
export interface InvitationTables {
  invitation: {
    id: string;
    /** Of its newest link. */
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
}
