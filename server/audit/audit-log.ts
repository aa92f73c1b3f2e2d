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
}

/** The append-only record of what happened. */
export interface AuditLog {
  append(event: AuditEvent): Promise<void>;

  /** The newest first, at most `limit`. */
  newest(limit: number): Promise<AuditEvent[]>;
}
