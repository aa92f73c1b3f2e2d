import type { EndSignal } from '#model/ending';
import type { IncomingHttpHeaders } from 'node:http';

import type { Message } from 'latchkey-mcp/message';
import type { AccessTokenClaims } from '#oauth/access-tokens';
import type { AnswerMessage } from './filters.ts';
import type { RefusalMeaning } from './gateway-refusal.ts';
import type { WholeCall } from './whole-call.ts';

/** The facts that a caller's own credential proved, without the credential. */
export type OwnCredential =
  | { readonly type: 'key'; readonly keyHash: string }
  | { readonly type: 'token'; readonly claims: AccessTokenClaims }
  /** A person whose browser session was looked up just now. */
  | { readonly type: 'person'; readonly userId: string };

/** Tells who calls, but not what the caller may do, which is looked up for every request. */
export type ProvedCredential =
  | OwnCredential
  /** For a call to a member of a collection: the collection, and what its caller proved there. */
  | { readonly type: 'member'; readonly collection: string; readonly proved: OwnCredential };

/** An HTTP request to an MCP endpoint, as the gateway sees it. */
export interface GatewayRequest {
  /** The `X-Request-Id` of its response, and of its log lines. */
  readonly id: string;
  readonly method: string;
  readonly organization: string;
  readonly server: string;
  /** The caller's network address. */
  readonly address?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn, as received, so that repeated headers are visible. */
  readonly rawHeaders: readonly string[];
  /**
   * Who calls, if Latchkey's own pages, a collection or another node proved it. Never taken from a header: such a request
   * carries no credential.
   */
  readonly proved?: ProvedCredential;
  /** The call to a collection that this request is a part of. */
  readonly whole?: WholeCall | undefined;
  /**
   * Whether a page of Latchkey sends the request, to show what a person can use. The request passes all checks, but is not a call of
   * that person: it is neither counted nor recorded.
   */
  readonly isForPage?: boolean | undefined;
  /**
   * Whether another node passed the request on. It is then answered here, whatever session it names: no call is passed
   * on twice.
   */
  readonly isPassedOn?: boolean;
  /**
   * The whole body, read once. `arrived` is called with the length of each part; reading ends if it throws, or if
   * `signal` aborts.
   *
   * @throws {GatewayRefusal} `too_large`, `cancelled`
   */
  readonly readBody: (
    arrived?: (bytes: number) => void,
    signal?: EndSignal,
  ) => Buffer | Promise<Buffer>;
  /** The result of scanning the body, if this process did that already. The body is not scanned again. */
  readonly message?: Message;
  /** The headers that `modernHeaders` made for `message`, so that they are not made again. */
  readonly messageHeaders?: Readonly<Record<string, string>>;
  /** Reports that the caller disconnected before the answer was complete. */
  readonly gone: Departure;
}

/** Reports once that a caller disconnected. Used instead of an `AbortSignal`, which would cost more than most calls need. */
export interface Departure {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
}

/** Calls `act` when the caller disconnects, or immediately if that has already happened. */
export function whenGone({ gone }: Pick<GatewayRequest, 'gone'>, act: () => void): void {
  if (gone.aborted) act();
  else gone.addEventListener('abort', act);
}

/** The response to send. An iterable body is sent as it arrives. */
export interface GatewayAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** The message in the body, if the body is one message. */
  readonly message?: AnswerMessage;
  /** The JSON-RPC code of an error that the gateway itself answers with. */
  readonly errorCode?: number | undefined;
  /**
   * The meaning of an error that the gateway itself answers with. Senders in Latchkey decide by this alone: an MCP server can answer
   * with the same status, code and message, but never with this.
   */
  readonly refused?: RefusalMeaning | undefined;
  /**
   * The sender calls this once the body has been sent or given up. Until then, the body's memory counts. Absent for a
   * short body.
   */
  readonly sent?: (() => void) | undefined;
  /** Whether another process has to answer: the request can be forwarded to it whole, because nothing of it was read. */
  readonly isElsewhere?: boolean;
  /** The sender passes a function that cuts the body off, in case others need the memory of what the caller does not read. */
  readonly whenGivenUp?: ((cut: () => void) => void) | undefined;
}
