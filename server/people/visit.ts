/** Where a request came from, for sessions and the audit log. */
export interface Visit {
  readonly address: string;
  readonly userAgent: string;
  readonly requestId: string;
}
