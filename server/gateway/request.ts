import type { EndSignal } from '#model/ending';
import type { IncomingHttpHeaders } from 'node:http';

import type { Message } from 'latchkey-mcp/message';
import type { AccessTokenClaims } from '#oauth/access-tokens';
import type { AnswerMessage } from './filters.ts';
import type { RefusalMeaning } from './gateway-refusal.ts';
import type { WholeCall } from './whole-call.ts';

/** What a caller's own credential proved, without the credential. */
export type OwnCredential =
  | { readonly type: 'key'; readonly keyHash: string }
  | { readonly type: 'token'; readonly claims: AccessTokenClaims }
  /** A person whose browser session was looked up just now. */
  | { readonly type: 'person'; readonly userId: string };

/** It says who calls, not what they may do: that is looked up for every request. */
export type ProvedCredential =
  | OwnCredential
  /** What the caller of a collection, which this names, proved there. For calls to its members. */
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
   * Who calls, where our own pages or another node proved it. Never taken from a header: such a request carries no
   * credential.
   */
  readonly proved?: ProvedCredential;
  /** The call of a collection's caller that it is a part of. */
  readonly whole?: WholeCall | undefined;
  /**
   * Whether a page of ours asks, to show what a person can use. It passes all checks, but is no call of that person: it is neither
   * counted nor recorded.
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
  /** What the body was scanned as, if this process scanned it. It is not scanned again. */
  readonly message?: Message;
  /** The headers that `modernHeaders` made for `message`. They are not made again. */
  readonly messageHeaders?: Readonly<Record<string, string>>;
  /** Reports that the caller disconnected before the answer was complete. */
  readonly gone: Departure;
}

/** Reports once that a caller disconnected. Used instead of an `AbortSignal`, which would cost more than most calls need. */
export interface Departure {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
}

/** Calls `act` when the caller has disconnected, at once if that has happened. */
export function whenGone({ gone }: Pick<GatewayRequest, 'gone'>, act: () => void): void {
  if (gone.aborted) act();
  else gone.addEventListener('abort', act);
}

/** The response to send. An iterable body is sent as it arrives. */
export interface GatewayAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** What the body was read as, if it is one message. */
  readonly message?: AnswerMessage;
  /** The JSON-RPC code of an error answer of ours. */
  readonly errorCode?: number | undefined;
  /**
   * What an error answer of ours means. Senders in Latchkey decide by this alone: an MCP server can answer with our statuses, codes and
   * words, but never with this.
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
