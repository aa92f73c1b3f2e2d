import type { Generated } from 'kysely';

/** The tables of recorded calls, which `Schema` contains. */
export interface CallTables {
  /** The calls of Activity, in the order in which they were written. */
  call_record: {
    organization_id: string;
    id: string;
    call_id: string;
    started_at_ms: number;
    /** Null as long as the call has not ended. */
    duration_ms: number | null;
    node: string;
    request_id: string;
    trace_id: string | null;
    era: string;
    person_id: string | null;
    person_name: string | null;
    credential_type: string;
    credential_id: string;
    credential_name: string;
    application: string | null;
    application_source: string | null;
    address: string | null;
    endpoint_id: string;
    endpoint_name: string;
    target_id: string;
    target_name: string;
    /** The account that the request was sent to the upstream with. */
    account: string;
    method: string | null;
    /** The name of a tool or prompt, or the URI of a resource. */
    subject: string | null;
    outcome: string;
    error: string | null;
    status: number | null;
    bytes_in: number;
    bytes_out: number;
    times: number;
    /** The device that our proxy named, if the call was made through it. */
    device_id: Generated<string | null>;
  };
  /** The quarters of an hour whose calls are in `call_subject`, or will be soon: `db/call-index.ts`. */
  call_quarter: {
    organization_id: string;
    /** The number of the quarter since 1970. */
    quarter: number;
    /** When a process began to index it. */
    claimed_at_ms: number;
    /** How many rows it has; null as long as it is not indexed. */
    calls: number | null;
    /** How many of its seconds have rows. */
    seconds: number | null;
  };
  /** In which seconds of a quarter of an hour a subject has calls. */
  call_subject: {
    organization_id: string;
    quarter: number;
    kind: string;
    subject: string;
    /** See `secondsText`. */
    seconds: string;
  };
  /** People whose calls are getting a pseudonym. */
  call_pseudonym: {
    organization_id: string;
    person_id: string;
    pseudonym: string;
    requested_at_ms: number;
    /** How many rounds through all calls were completed. */
    rounds: number;
    due_at_ms: number;
  };
  /** Calls that were answered but not recorded, or whose end was not recorded. */
  call_gap: {
    organization_id: string;
    /** The minute in which the gap begins, since 1970. */
    minute: number;
    node: string;
    reason: string;
    from_ms: number;
    until_ms: number;
    calls: number;
  };
  /** Stored arguments and results of calls. */
  call_content: {
    organization_id: string;
    target_id: string;
    /** The id of the call. */
    id: string;
    kind: string;
    sealed: string;
    is_cut: number;
  };
}
