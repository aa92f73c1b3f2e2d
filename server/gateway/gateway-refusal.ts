import type { Scope } from '#credentials/scope';

/** Why the gateway turns a request down. Each becomes words and a status in `errors.ts`, nowhere else. */
export type RefusalCode =
  | 'no_credential'
  | 'bad_credential'
  | 'two_credentials'
  | 'insufficient_scope'
  | 'foreign_origin'
  | 'method_not_allowed'
  | 'unsupported_media_type'
  | 'not_acceptable'
  | 'too_large'
  | 'not_json'
  | 'not_a_message'
  | 'header_mismatch'
  | 'unsupported_version'
  | 'unknown_method'
  | 'unknown_tool'
  | 'bad_params'
  | 'bad_meta'
  | 'not_theirs'
  | 'unknown_session'
  | 'unknown_event'
  | 'unexpected_response'
  | 'cancelled'
  | 'too_many_requests'
  | 'too_slow'
  | 'upstream_unreachable'
  | 'upstream_failed'
  | 'upstream_busy'
  | 'unreadable_tools'
  | 'agent_offline'
  | 'not_connected'
  | 'no_person'
  | 'upstream_scope'
  | 'upstream_token'
  | 'unavailable'
  | 'fault';

export interface RefusalDetails {
  /** What exactly, in words fit for the caller. */
  readonly detail?: string;
  /** For `insufficient_scope`: granted and needed together. */
  readonly scopes?: readonly Scope[];
  /** For `unsupported_version`: the version that was asked for. */
  readonly requested?: string;
  readonly retryAfterSeconds?: number;
  /** For `not_connected`, `upstream_scope`, `upstream_token`: the page where a person connects their account. */
  readonly page?: string;
  /** Whether the caller said that it can show a person a URL. MCP "URL mode elicitation" */
  readonly showsUrls?: boolean;
  /** For the log only. */
  readonly cause?: unknown;
}

/** The one error that the gateway room throws on purpose. */
export class GatewayRefusal extends Error {
  override readonly name = 'GatewayRefusal';
  readonly code: RefusalCode;
  readonly details: RefusalDetails;

  constructor(code: RefusalCode, details: RefusalDetails = {}) {
    super(details.detail ?? code, { cause: details.cause });
    this.code = code;
    this.details = details;
  }
}
