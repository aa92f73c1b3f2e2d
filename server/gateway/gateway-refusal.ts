import type { RepeatableRefusal } from '#audit/counted-refusals';
import type { ServerRecord } from '#model/endpoints';
import type { Scope } from '#model/scopes';
import { type Suspension, type SuspensionCode, suspensionCodes } from '#model/suspension';

/** Why the MCP server did not answer, or why its answer could not be used. */
const upstreamFailures = [
  /** There is no connection. */
  'upstream_unreachable',
  'upstream_unknown_host',
  /** The host is in a private network, or unknown. The error does not say which, so as not to reveal which private names exist. */
  'upstream_not_public',
  'upstream_tls_failed',
  /** Its agent is connected, but does not have this server in its configuration. */
  'upstream_not_served',
  /** No answer before the timeout. */
  'upstream_timeout',
  /** The answer ended early. */
  'upstream_broke_off',
  /** HTTP 401 or 403. The record of the call names the account whose credentials the MCP server refused. */
  'upstream_refused_credentials',
  /** HTTP 404 or 410. */
  'upstream_not_found',
  /** HTTP 405. */
  'upstream_method_not_allowed',
  'upstream_redirected',
  /** HTTP 429. */
  'upstream_rate_limited',
  /** HTTP 503. */
  'upstream_busy',
  /** Any other HTTP status of 500 and more. */
  'upstream_server_error',
  'upstream_not_json',
  /** JSON that is not an MCP message, or not the answer to this request; or a compressed answer. */
  'upstream_unreadable',
  'upstream_too_large',
  'unreadable_tools',
  /** A list of prompts, resources, templates or skills that could be read in two ways. */
  'unreadable_list',
  /** Any other failure, such as a refused handshake. */
  'upstream_failed',
] as const;

/** The code of a failure of the MCP server. Callers get one of three messages for all of them. */
export type UpstreamFailure = (typeof upstreamFailures)[number];

export function isUpstreamFailure(code: RefusalCode): code is UpstreamFailure {
  return upstreamFailures.some((failure) => failure === code);
}

/** Codes for what a caller may not use, with their audit actions. Whatever the reason, the caller is told that it does not exist. */
const closedSubjects = {
  /** In no list that the gateway has accepted from the MCP server. */
  unknown_tool: 'call.unknown-tool',
  hidden_tool: 'call.unknown-tool',
  /** Withheld until an administrator accepts its changed definition. */
  withheld_tool: 'call.unknown-tool',
  /** Not open to this person, key, client or grant. */
  closed_tool: 'call.unknown-tool',
  unknown_prompt: 'call.unknown-prompt',
  /** Withheld, or not open to this caller. */
  closed_prompt: 'call.unknown-prompt',
  /** In no accepted list, or the MCP server answered with an error where rules restrict its resources. */
  unknown_resource: 'call.unknown-resource',
  /** A resource or resource template that is withheld, or not open to this caller. */
  closed_resource: 'call.unknown-resource',
} as const;

export type ClosedCode = keyof typeof closedSubjects;

function isClosed(code: string): code is ClosedCode {
  return Object.hasOwn(closedSubjects, code);
}

/** The code of what the caller was told: `unknown_tool` for every tool that they may not use, whatever the reason. */
export function toldCode(code: string): string {
  return isClosed(code) ? closedSubjects[code].slice('call.'.length).replaceAll('-', '_') : code;
}

/** All codes for which callers are told this code. */
export function codesTold(told: string): readonly string[] {
  const same = Object.keys(closedSubjects).filter((code) => toldCode(code) === told);
  return same.length > 0 || isClosed(told) ? same : [told];
}

/** Why the gateway refuses a request. `errors.ts` maps each code to a status and a message. */
export type RefusalCode =
  | UpstreamFailure
  | 'no_credential'
  | 'bad_credential'
  /** Valid, but suspended by a setting that an administrator can change back. */
  | 'suspended'
  | 'two_credentials'
  | 'insufficient_scope'
  | 'foreign_origin'
  | 'method_not_allowed'
  | 'unsupported_media_type'
  | 'not_acceptable'
  | 'too_large'
  | 'too_many_chunks'
  | 'not_json'
  | 'not_a_message'
  | 'header_mismatch'
  | 'unsupported_version'
  | 'unknown_method'
  | ClosedCode
  | 'bad_params'
  | 'bad_meta'
  | 'not_theirs'
  | 'unknown_session'
  | 'unknown_event'
  | 'unexpected_response'
  | 'cancelled'
  | 'too_many_requests'
  | 'too_slow'
  | 'agent_offline'
  | 'node_unreachable'
  | 'node_lost'
  | 'not_connected'
  | 'key_missing'
  | 'no_person'
  | 'upstream_scope'
  | 'upstream_token'
  | 'key_refused'
  | 'unavailable'
  /** The operator requires that calls are recorded before they are sent, and this one could not be. */
  | 'not_recorded'
  | 'fault';

/** A call with a credential that a setting suspends. */
export interface SuspendedCall {
  readonly by: Suspension;
  readonly endpoint: ServerRecord;
  readonly principal: string;
  readonly credential: { readonly type: 'client' | 'key' | 'person'; readonly id: string };
  /** The person who calls, or for whom an application calls. */
  readonly userId?: string | undefined;
  readonly grantId?: string | undefined;
}

export interface RefusalDetails {
  /** Details that the caller may see. */
  readonly detail?: string;
  /** For `insufficient_scope`: granted and required scopes together. */
  readonly scopes?: readonly Scope[];
  /** For `unsupported_version`: the requested version. */
  readonly requested?: string;
  readonly retryAfterSeconds?: number;
  /** For `not_connected`, `upstream_scope`, `upstream_token`, `key_missing`, `key_refused`: the page of a person's own account or key. */
  readonly page?: string;
  /** Whether the caller declared that it can show URLs to a person. MCP "URL mode elicitation" */
  readonly showsUrls?: boolean;
  /** The MCP server may have executed the request, or a part of it. */
  readonly isOutcomeUnknown?: boolean;
  /** For `suspended`: the caller. */
  readonly principal?: string;
  /** For `suspended`: which credential calls which endpoint, and what suspends it. */
  readonly suspended?: SuspendedCall;
  /** For the log only. */
  readonly cause?: unknown;
}

/** Why the gateway refuses or fails a call. `errors.ts` turns it into the caller's answer. */
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

/** The code that is recorded: for a suspended credential, what suspends it. */
export function recordedCode({ code, details }: GatewayRefusal): RefusalCode | SuspensionCode {
  return details.suspended ? suspensionCodes[details.suspended.by] : code;
}

/** The connection to the MCP server, or to its agent, was lost during the answer. */
export function answerBrokeOff(cause: unknown): GatewayRefusal {
  return new GatewayRefusal('upstream_broke_off', {
    detail: 'its response ended early, so it is unknown whether the request took effect',
    isOutcomeUnknown: true,
    cause,
  });
}

/**
 * Refusals that deny access, rather than report a mistake or a fault. Usage counts them as denied, and the audit log
 * records them.
 */
const denials: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'bad_credential',
  'suspended',
  'two_credentials',
  'insufficient_scope',
  'foreign_origin',
  'not_theirs',
  'too_many_requests',
  'not_connected',
  'key_missing',
  'no_person',
]);

export function isDenial({ code }: GatewayRefusal): boolean {
  return denials.has(code) || isClosed(code);
}

/** The meaning of a refusal to a sender that is a part of Latchkey, such as a collection that calls its members. */
export const refusalMeanings = [
  /** The caller is told that the tool, prompt or resource does not exist. */
  'unknown',
  /** The caller may not use the server. */
  'no_access',
  /** Latchkey did not send the call, and can send it later. */
  'not_sent',
  'failed',
] as const;

export type RefusalMeaning = (typeof refusalMeanings)[number];

const noAccess: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'no_credential',
  'bad_credential',
  'suspended',
]);

const notSent: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'unavailable',
  'not_recorded',
  'node_unreachable',
]);

export function meaningOf({ code }: GatewayRefusal): RefusalMeaning {
  if (isClosed(code)) return 'unknown';
  if (noAccess.has(code)) return 'no_access';
  return notSent.has(code) ? 'not_sent' : 'failed';
}

/** Whether the person who calls must open a page first. */
export function needsPage({ code }: GatewayRefusal): boolean {
  return code === 'not_connected' || code === 'key_missing';
}

/** The parts of a refused call that the audit log names. */
interface RefusedCall {
  readonly id: string;
  readonly organization: string;
  readonly server: string;
  readonly address?: string | undefined;
}

/** Refusals that the audit log records because something may be hidden from administrators. */
const unreadable: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'unreadable_tools',
  'unreadable_list',
]);

/**
 * The audit action of a refused call; `undefined` if it is not recorded. A missing credential is not, because that is how a
 * client discovers where to get one.
 */
export function auditedRefusal(
  refusal: GatewayRefusal,
  { id, organization, server, address }: RefusedCall,
  principal: string | undefined,
): RepeatableRefusal | undefined {
  const { code, details } = refusal;
  if (!isDenial(refusal) && !unreadable.has(code)) return undefined;
  return {
    actor: principal ?? details.principal ?? 'anonymous',
    organization,
    action: isClosed(code)
      ? closedSubjects[code]
      : `call.${recordedCode(refusal).replaceAll('_', '-')}`,
    target: `${organization}/${server}`,
    address,
    requestId: id,
  };
}
