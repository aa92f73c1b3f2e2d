import type { Target } from './endpoints.ts';
import { takesCredentials } from './upstream-kinds.ts';

/** How a call of Activity ended. `unknown`: the record has its beginning, but not, or not yet, its end. */
export const callEnds = [
  'ok',
  'tool_error',
  'protocol_error',
  'refused',
  'upstream_error',
  'cancelled',
  'unknown',
] as const;

/**
 * - `tool_error`: the tool answered with `isError`;
 * - `protocol_error`: the MCP server answered with a JSON-RPC error;
 * - `refused`: Latchkey answered with an error of its own;
 * - `upstream_error`: the MCP server did not answer, or what it answered could not be used.
 */
export type CallEnd = (typeof callEnds)[number];

/** The methods of requests that are always recorded, unless the operator wants no record. */
export const recordedMethods: ReadonlySet<string> = new Set([
  'tools/call',
  'resources/read',
  'prompts/get',
  'tasks/result',
  'tasks/cancel',
]);

/** How many days the calls of an organization are kept. */
export const callRetentionDays = { least: 1, most: 3650, default: 90 } as const;

/** What callers authenticate with: an OAuth client, an API key, or a browser session on our own pages. */
export const credentialTypes = ['client', 'key', 'person'] as const;
export type CredentialType = (typeof credentialTypes)[number];

/** The credentials that a call was sent to the MCP server with. */
export const upstreamAccounts = [
  'none',
  'fixed_headers',
  'server_account',
  'person_account',
  'person_key',
  'oauth_account',
] as const;

/**
 * - `none`: without credentials, or not sent at all;
 * - `fixed_headers`: with headers that an administrator entered;
 * - `server_account`: with a token of the OAuth account that the server has for all callers;
 * - `person_account`: with a token of the OAuth account that the person who called has connected;
 * - `person_key`: with the key that the person who called has entered;
 * - `oauth_account`: with a token of the server's or the person's OAuth account. The process was killed before it wrote down which.
 */
export type UpstreamAccount = (typeof upstreamAccounts)[number];

/** The application that called, as it describes itself. Not verified. */
export interface AnnouncedApplication {
  /** Name and version. */
  readonly text: string;
  /** `clientInfo` of MCP, or the `User-Agent` header of the request. */
  readonly source: 'client_info' | 'user_agent';
}

/** A call that ended, or that was refused, as the gateway reports it. Texts are as the caller sent them. */
export interface EndedCall {
  /** The same for all rounds of a call that needed input, and for a task; `undefined` if there is one round. */
  readonly callId: string | undefined;
  /** When the request arrived, in milliseconds since 1970. */
  readonly startedAtMs: number;
  /** From its arrival to the end of its answer. */
  readonly durationMs: number;
  readonly requestId: string;
  /** W3C Trace Context, 32 hexadecimal digits. */
  readonly traceId: string | undefined;
  /** The protocol era of the caller. */
  readonly era: 'legacy' | 'modern';
  readonly endpoint: { readonly id: string; readonly organization: string; readonly name: string };
  /** The server whose tool, prompt or resource it was. */
  readonly target: { readonly id: string; readonly name: string };
  readonly credential: { readonly type: CredentialType; readonly id: string };
  /** The person who calls, or for whom an application calls. */
  readonly userId: string | undefined;
  /** The grant by which an application calls for the person. */
  readonly grantId?: string | undefined;
  readonly application: AnnouncedApplication | undefined;
  readonly address: string | undefined;
  readonly account: UpstreamAccount;
  /** `undefined` when it was refused before its body was read. */
  readonly method: string | undefined;
  /** The tool or prompt by name, or the resource by URI. */
  readonly subject: string | undefined;
  readonly end: CallEnd;
  /** A code of JSON-RPC, such as `-32602`, or one of `RefusalCode`. */
  readonly error: string | undefined;
  /** The HTTP status of the answer. */
  readonly status: number | undefined;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/** The credentials that calls are sent to a target with, as far as its settings tell. */
export function accountOf({ upstream, personKey }: Target): UpstreamAccount {
  if (personKey) return 'person_key';
  if (!takesCredentials(upstream)) return 'none';
  if (upstream.accessId !== undefined) return 'oauth_account';
  return upstream.headers && upstream.headers.length > 0 ? 'fixed_headers' : 'none';
}

/** Whose credentials a call was sent with, named as at the time of the call; `undefined` if it had none, or if that is unknown. */
export function accountOwnerOf({
  account,
  person,
  target,
}: Pick<CallRecord, 'account' | 'person' | 'target'>): CallRecord['person'] {
  switch (account) {
    case 'none':
    case 'oauth_account':
      return undefined;
    case 'fixed_headers':
    case 'server_account':
      return target;
    case 'person_account':
    case 'person_key':
      return person;
  }
}

/** A stored call. It keeps the names from the time of the call, even if a server, credential or person is renamed or deleted. */
export interface CallRecord extends Omit<
  EndedCall,
  'endpoint' | 'credential' | 'userId' | 'grantId' | 'durationMs'
> {
  readonly organizationId: string;
  /** Sorts by the time at which the row was written; see `newCallRecordId`. */
  readonly id: string;
  readonly callId: string;
  /** `undefined` as long as the call has not ended. */
  readonly durationMs: number | undefined;
  /** The process that answered, by the name of its node. */
  readonly node: string;
  readonly endpoint: { readonly id: string; readonly name: string };
  readonly credential: {
    /** `unknown` for a type that a later version has stored. */
    readonly type: CredentialType | 'unknown';
    readonly id: string;
    readonly name: string;
  };
  /** The person who called, or for whom an application called, with the e-mail address or the pseudonym. */
  readonly person: { readonly id: string; readonly name: string } | undefined;
  /** The device on which the application runs, if our proxy named one. */
  readonly deviceId?: string | undefined;
  /** How often it happened: equal refusals of a minute are one row. */
  readonly times: number;
}

/**
 * The reasons why calls are missing.
 *
 * - `queue_full`: too many calls waited to be written;
 * - `ends_dropped`: too many ends of calls waited. The rows of the calls were written when they began, and their end stays `unknown`;
 * - `unknown`: a later version has stored another reason.
 */
export const gapReasons = ['queue_full', 'ends_dropped', 'unknown'] as const;
export type GapReason = (typeof gapReasons)[number];

/** Calls of an organization that were answered, but are not recorded, or without their end. */
export interface CallGap {
  readonly reason: GapReason;
  /** When the first and the last of them ended, in milliseconds since 1970. */
  readonly fromMs: number;
  readonly untilMs: number;
  readonly calls: number;
}

/** A person whose calls contain an id that belongs to no account, and a made-up name, instead of the person's id and address. */
interface Pseudonymous {
  readonly pseudonym: string;
}

const pseudonymPrefix = 'pseudonym_';

export const pseudonymId = ({ pseudonym }: Pseudonymous): string =>
  `${pseudonymPrefix}${pseudonym}`;
export const pseudonymName = ({ pseudonym }: Pseudonymous): string => `Person ${pseudonym}`;

/** Whether a person of a call has a pseudonym, so that the id belongs to no account. */
export const isPseudonym = (personId: string): boolean => personId.startsWith(pseudonymPrefix);
