import type { IncomingHttpHeaders } from 'node:http';

import type { Message } from 'latchkey-mcp/message';
import type { Admission, ProvedCredential } from './admission.ts';
import type { Filter } from './filters.ts';
import type { HeldAnswers } from './held-answers.ts';
import type { AnsweredOutcome } from './metering.ts';
import type { Accepts } from './read-message.ts';
import type { ReplyOptions } from './reply.ts';
import type { PrincipalSeal } from './seal.ts';
import type { Upstream, UpstreamAnswer } from './upstream.ts';

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
  /** Whether another node passed it here. It is answered here then, whatever it names: no call is passed on twice. */
  readonly isPassedOn?: boolean;
  /**
   * The whole body, read once. `arrived` is told the length of each part, and ends the reading if it throws.
   *
   * @throws {GatewayRefusal} `too_large`, `cancelled`
   */
  readonly readBody: (arrived?: (bytes: number) => void) => Buffer | Promise<Buffer>;
  /** Reports that the caller disconnected before the answer was complete. */
  readonly gone: Departure;
}

/** Reports once that a caller disconnected. Like an `AbortSignal`, which costs more than most calls need. */
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
  /** The sender calls this once the body was sent or given up: until then its memory counts. Absent for a short one. */
  readonly sent?: (() => void) | undefined;
}

/**
 * Stands for the answer of the process that has what a call needs, to which the call must be forwarded: nothing of it has been
 * read. Who cannot forward it sends this.
 */
export const elsewhere: GatewayAnswer = { status: 503, headers: { 'Retry-After': '1' } };

/** An admitted request. */
export interface Call {
  readonly request: GatewayRequest;
  readonly admission: Admission;
  readonly upstream: Upstream;
  /** Ends the call and its answer: the caller cancelled, the credential was revoked, or the server stops. */
  readonly ending: AbortController;
  /** The owner of upstream sessions, links and cancellations: a principal and a server. */
  readonly owner: string;
  /** Binds to this owner what the upstream hands out. */
  readonly seal: PrincipalSeal;
  /** Counts a part of the request's body that has arrived. @throws {GatewayRefusal} `too_many_requests`, `cancelled` */
  readonly arrived: (bytes: number) => void;
  /** What it holds of its upstream's answers. */
  readonly held: HeldAnswers;
  /** Marks the answer as endless. */
  readonly endless: () => void;
  /** Run when the answer was sent to its end or abandoned. */
  readonly afterwards: (() => void)[];
  /**
   * Runs these once, and meters how the answer ended unless there is no outcome, in which case the caller of this
   * function does.
   */
  readonly finish: (outcome?: AnsweredOutcome) => void;
}

/** What an adapter between the eras needs of a call. */
export type AdaptedCall = Pick<Call, 'upstream' | 'owner' | 'admission'>;

/** A call whose body was read, parsed and authorized. */
export interface MessageCall extends Call, Message {}

/** An upstream's answer to a forwarded message, and how to turn it into the caller's. */
export interface Forwarded {
  readonly answer: UpstreamAnswer;
  readonly accepts: Accepts;
  /** The request that a result must belong to; absent if any result is right. */
  readonly ownId?: ReplyOptions['ownId'];
  /** Restores the caller's id. */
  readonly restore?: Filter | undefined;
  readonly stream?: ReplyOptions['stream'];
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether JSON is answered with 200, whatever status it came with. */
  readonly isAlways200?: boolean;
}
