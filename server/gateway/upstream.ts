import type { EndSignal } from '#model/ending';
import { type Message, readMessage } from 'latchkey-mcp/message';
import type { UpstreamAccount } from '#model/calls';
import type { GiveUp, HeldBody } from './body-memory.ts';
import type { AnswerMessage } from './filters.ts';
import type { WholeCall } from './whole-call.ts';

/** A request to an upstream MCP server over Streamable HTTP. Never carries a credential of a caller. */
export interface UpstreamRequest {
  readonly method: 'POST' | 'GET' | 'DELETE';
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The result of scanning `body`, if it was scanned. Steps read it with `messageIn`. */
  readonly message?: Message | undefined;
  /** The key of the person who calls, for an MCP server behind an agent. For other servers, the key is one of the headers. */
  readonly key?: { readonly name: string; readonly value: string } | undefined;
  /** The call that the request belongs to, for an upstream that calls others for the same caller: a collection. */
  readonly whole?: WholeCall;
  /** Ends the request and its answer, at any time. */
  readonly signal: EndSignal;
  /**
   * Ends the request when others need the memory of its answer. With it, the answer counts on its own until it has been
   * read, whatever happens to the call that the upstream belongs to. Default: that call is ended.
   */
  readonly giveUp?: GiveUp;
}

/** A POST of a message. */
export function post(
  message: Message,
  headers: UpstreamRequest['headers'],
  signal: EndSignal,
): UpstreamRequest {
  return { method: 'POST', headers, body: message.body, message, signal };
}

/**
 * The message of a POST, scanned only if its body was not scanned before; `undefined` for bytes that two parsers could read
 * differently.
 */
export function messageIn({ method, body, message }: UpstreamRequest): Message | undefined {
  if (method !== 'POST' || !body) return undefined;
  return message?.body === body ? message : readMessage(body);
}

/** An upstream's answer, whose body may still be arriving. */
export interface UpstreamAnswer {
  readonly status: number;
  /** The media type alone, lower case; empty when there is none. */
  readonly mediaType: string;
  readonly sessionId: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** `WWW-Authenticate`, for the code that sends Latchkey's own tokens. No caller ever gets it. */
  readonly challenge?: string | undefined;
  /** Whole if it was short, else in chunks as they arrive. */
  readonly body: Uint8Array | UpstreamBody;
  /** The message in `body`, if that was scanned, or written with a known result of the scan. The body is not scanned again. */
  readonly message?: Message | AnswerMessage | undefined;
}

/** The media type in a `Content-Type`, without its parameters. RFC 9110 §8.3.1 */
export function mediaTypeOf(contentType: string): string {
  if (contentType === 'application/json') return contentType;
  return contentType.split(';')[0]?.trim().toLowerCase() ?? '';
}

/** Whether an answer is a stream of events. One of another type, to a request to listen, means that there is none. */
export function isEventStream({ status, mediaType }: UpstreamAnswer): boolean {
  return status === 200 && mediaType === 'text/event-stream';
}

/** Reads status and headers of an answer. The header names are in lower case. A `Retry-After` that is a date is ignored. */
export function answerHead(
  status: number,
  headers: Readonly<Record<string, string | undefined>>,
): Omit<UpstreamAnswer, 'body'> {
  const retryAfter = /^[1-9]\d{0,5}$/.exec(headers['retry-after'] ?? '')?.[0];
  return {
    status,
    mediaType: mediaTypeOf(headers['content-type'] ?? ''),
    sessionId: headers['mcp-session-id'],
    retryAfterSeconds: retryAfter === undefined ? undefined : Number(retryAfter),
  };
}

/** A body that is read as it arrives. */
export interface UpstreamBody extends AsyncIterable<Uint8Array> {
  /** Called by a reader that no longer holds what it has read. */
  readonly letGo?: () => void;
}

/** Sends requests to one MCP server. Requests and answers carry raw JSON-RPC bytes. */
export interface Upstream {
  /** @throws {UpstreamError} {UpstreamRefusal} if there is no answer */
  send(request: UpstreamRequest): Promise<UpstreamAnswer>;

  /** Counts the parts of answers that are kept after they have been read, if these are limited. `giveUp` ends whatever keeps them. */
  readonly hold?: ((giveUp: GiveUp) => HeldBody) | undefined;

  /** Ends the call that the upstream belongs to, and cuts off what the caller does not read. */
  readonly giveUp?: GiveUp | undefined;

  /** The account that requests are sent with, if that is known only after the first of them. */
  readonly account?: (() => UpstreamAccount | undefined) | undefined;

  /** The secrets that were sent to the upstream to prove who calls. Nothing that is recorded may contain them. */
  readonly secrets?: (() => readonly string[]) | undefined;

  /** Whether open answers may go on. Checked as often as the caller's credential. */
  readonly isConnected?: () => Promise<boolean>;
}

/** Sends a request on: to the next step, or to the upstream. */
export type UpstreamSend = (request: UpstreamRequest) => Promise<UpstreamAnswer>;

/** A step on the way to the upstream. It may answer a request or send it on, and change the request and the answer. */
export type UpstreamStep = (
  request: UpstreamRequest,
  next: UpstreamSend,
) => Promise<UpstreamAnswer>;

/** Sends a request through the steps in their order, without those that are `undefined`. */
export function throughSteps(
  steps: readonly (UpstreamStep | undefined)[],
  send: UpstreamSend,
): UpstreamSend {
  return steps.reduceRight<UpstreamSend>(
    (next, step) => (step ? (request) => step(request, next) : next),
    send,
  );
}

export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly code:
    | 'unreachable'
    | 'unknown_host'
    /** The server may be in a private network, or its host name is unknown. */
    | 'not_public'
    | 'tls'
    /** The agent does not serve this server. */
    | 'not_served'
    | 'timeout'
    | 'broken'
    /** A message is larger than its agent allows. */
    | 'too_large'
    | 'encoded'
    | 'offline';
  /** The reason that an agent gave, for administrators: `connection refused at 127.0.0.1:3000`. */
  readonly detail: string | undefined;

  constructor(
    code: UpstreamError['code'],
    message: string,
    options: ErrorOptions & { readonly detail?: string } = {},
  ) {
    super(message, options);
    this.code = code;
    this.detail = options.detail;
  }
}

/** Why a request to an upstream that requires credentials from Latchkey is not sent, or is refused. */
export class UpstreamRefusal extends Error {
  override readonly name = 'UpstreamRefusal';
  readonly code:
    /** The caller's person has not connected an account. */
    | 'not_connected'
    /** The caller's person has not entered a key. */
    | 'key_missing'
    /** The upstream refuses the key of the caller's person. */
    | 'key_refused'
    /** The upstream acts for people, and the caller is not a person. */
    | 'no_person'
    /** The upstream refuses a token that was issued just now. */
    | 'token_refused'
    /** The account, or Latchkey, lacks a permission that the request requires. */
    | 'scope_missing'
    /** The upstream's authorization server issues no token to Latchkey. */
    | 'no_token';
  /** The URL where the caller's person connects an account or enters a key. */
  readonly page: string;

  constructor(code: UpstreamRefusal['code'], page: string, options?: ErrorOptions) {
    super(code, options);
    this.code = code;
    this.page = page;
  }
}
