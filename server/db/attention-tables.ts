/** The tables of what needs attention, and of the hosts in private networks that requests may reach. */
export interface AttentionTables {
  /** Who wants notices by e-mail; no row for those who want none. */
  notice_choice: {
    person_id: string;
    organization_id: string;
    /** JSON: the kinds of things. */
    kinds: string;
    frequency: 'now' | 'daily';
    changed_at: number;
    /** What was announced until then was sent. */
    sent_at: number | null;
  };
  /** What was seen, so that it is announced once. */
  noticed_thing: {
    organization_id: string;
    kind: string;
    subject: string;
    first_seen_at: number;
    last_seen_at: number;
    /** Null until it has lasted long enough. */
    announced_at: number | null;
  };
  /** When each organization is looked at next; of several processes, one does. */
  notice_look: { organization_id: string; next_at: number };
  /** Hosts and ranges of addresses in private networks that the operator allowed while the server ran. */
  outbound_host: { host: string; note: string; created_by: string; created_at: number };
}
