/** The tables of notices about what needs attention, and of the hosts in private networks that requests may reach. */
export interface AttentionTables {
  /** The members who want notices by e-mail. Members without a row want none. */
  notice_choice: {
    person_id: string;
    organization_id: string;
    /** JSON: the kinds of things that the member wants notices about. */
    kinds: string;
    frequency: 'now' | 'daily';
    changed_at: number;
    /** Everything that was announced until this time was sent. */
    sent_at: number | null;
  };
  /** The things that were seen to need attention, so that each is announced once. */
  noticed_thing: {
    organization_id: string;
    kind: string;
    subject: string;
    first_seen_at: number;
    last_seen_at: number;
    /** Null until the thing has lasted long enough to be announced. */
    announced_at: number | null;
  };
  /** When to look at each organization next. Only one process claims each look. */
  notice_look: { organization_id: string; next_at: number };
  /** Hosts and ranges of addresses in private networks that the operator allowed while the server ran. */
  outbound_host: { host: string; note: string; created_by: string; created_at: number };
}
