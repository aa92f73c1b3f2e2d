import type { EpochSeconds } from '#clock/clock';

/** One thing that happened, for good. Holds no secret. */
export interface AuditEvent {
  readonly at: EpochSeconds;
  /** `user:…`, `client:…`, `key:…`, `operator` for the command line, or `nobody`. */
  readonly actor: string;
  readonly organization: string | undefined;
  /** As `sign-in`, `consent.allow`, `refresh-token.reuse`. */
  readonly action: string;
  readonly target: string | undefined;
  readonly address: string | undefined;
  readonly requestId: string | undefined;
  readonly outcome: 'done' | 'refused';
  /** How often it happened, where repetitions are counted; once unless given. */
  readonly times?: number;
}

/** The append-only record of what happened. */
export interface AuditLog {
  /**
   * What a person does without naming an organization, as signing in, stands in the record of each that they
   * belong to at that moment.
   */
  append(event: AuditEvent): Promise<void>;

  /** The newest first, at most `limit`. */
  newest(limit: number): Promise<AuditEvent[]>;
}

/** An event as it is kept; `id` orders those of one second. */
export interface KeptEvent extends AuditEvent {
  readonly id: string;
}

/** Which events are wanted; what is left out is not asked for. */
export interface AuditQuery {
  /** `undefined` for every organization and what belongs to none. */
  readonly organization: string | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly target?: string | undefined;
  readonly outcome?: 'done' | 'refused' | undefined;
  /** Not before. */
  readonly from?: EpochSeconds | undefined;
  /** Before. */
  readonly until?: EpochSeconds | undefined;
  /** Only those older than this one. */
  readonly after?: { readonly at: EpochSeconds; readonly id: string } | undefined;
  readonly limit: number;
}

/** Reads the record. */
export interface AuditReader {
  /** The newest first. As quick at the end of a long record as at its beginning. */
  read(query: AuditQuery): Promise<KeptEvent[]>;

  /** The actions that occur in an organization's record, in order. */
  actions(organization: string | undefined): Promise<string[]>;
}
