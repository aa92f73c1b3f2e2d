import type { Ending } from '#model/ending';
import type { Message } from 'latchkey-mcp/message';
import type { Era } from 'latchkey-mcp/headers';
import type { GatewayRequest, ProvedCredential } from './request.ts';
import type { Upstream, UpstreamAnswer } from './upstream.ts';
import type { Admission } from './admission.ts';
import type { BodyHolder } from './body-memory.ts';
import type { OpenAnswer } from './open-answers.ts';
import type { HeldAnswers } from './held-answers.ts';
import type { PrincipalSeal } from './seal.ts';
import type { Accepts } from './read-message.ts';
import type { AnsweredOutcome, AnswerFacts, Metering } from './metering.ts';
import type { Filter, Presentation } from './filters.ts';
import type { ChangingLists } from './list-changes.ts';
import type { Target } from '#model/endpoints';
import type { ReplyOptions } from './reply.ts';

/** A request that arrived. Each step of `callPath` adds its findings. */
export interface Arrived {
  readonly request: GatewayRequest;
  readonly metering: Metering;
}

/** A request with a credential that proved who sent it. */
export interface Proved extends Arrived {
  readonly proved: ProvedCredential;
}

/** A request whose caller may use the endpoint. */
export interface Admitted extends Proved {
  readonly admission: Admission;
  /** The headers of the request, with the trace context of the gateway's span, if there is one. */
  readonly headers: GatewayRequest['headers'];
  /** The other node that has the session of the call, and must answer it. */
  readonly node: string | undefined;
}

/** The values that depend on an admission alone, created once for all calls that share the admission. */
export interface Caller {
  /** The owner of upstream sessions, links and cancellations: a principal and a server. */
  readonly owner: string;
  /** Binds the ids and states of the upstream to this owner. */
  readonly seal: PrincipalSeal;
  readonly upstream: Upstream;
  /** An admission that also ends when the account at the upstream is disconnected. */
  readonly connected: Admission;
  readonly holder: BodyHolder;
}

/** An admitted request that counts as open until `finish` is called. */
export interface Call extends Admitted, Pick<Caller, 'owner' | 'seal' | 'upstream'> {
  /** The MCP server that the call is for. */
  readonly target: Target;
  /** Ends the call and its answer: the caller cancelled, the credential was revoked, or the server stops. */
  readonly ending: Ending;
  /** Counts a part of the request's body that has arrived. @throws {GatewayRefusal} `too_many_requests`, `cancelled` */
  readonly arrived: (bytes: number) => void;
  /** The memory that the call holds of its upstream's answers. */
  readonly held: HeldAnswers;
  /** The entry of the call in `OpenAnswers`. */
  readonly opened: OpenAnswer;
  /** Functions to run once the answer has been sent completely or abandoned. */
  readonly afterwards: (() => void)[];
  /**
   * Runs `afterwards`, once, and meters the outcome. Without an outcome, the caller of this function has to meter it.
   */
  readonly finish: (outcome?: AnsweredOutcome, facts?: AnswerFacts) => void;
}

/** The parts of a call that an adapter between the eras uses. */
export type AdaptedCall = Pick<Call, 'upstream' | 'owner' | 'admission' | 'target'>;

/** A call whose body was read and scanned. Until the message is unsealed, `body` equals `received`. */
export interface MessageCall extends Call, Message {
  /** The body as the caller sent it. */
  readonly received: Buffer;
  /** Whether the body arrived later than the head, so that the caller's permissions may have changed in the meantime. */
  readonly isLate: boolean;
  readonly era: Era;
  /** The title and instructions that the operator set, for a client that connects. */
  readonly presentation?: Presentation;
}

/** A call that the upstream has begun to answer. */
export interface ForwardedCall extends MessageCall {
  readonly forwarded: Forwarded;
}

/** An upstream's answer to a forwarded message, and how to turn it into the caller's. */
export interface Forwarded {
  readonly answer: UpstreamAnswer;
  readonly accepts: Accepts;
  /** The request that a result must belong to; absent if any result is right. */
  readonly ownId?: ReplyOptions['ownId'];
  /** Restores the caller's id. */
  readonly restore?: Filter | undefined;
  readonly stream?: ReplyOptions['stream'];
  /** Notes the lists whose changes are announced in the answer, for the session that the answer opens. */
  readonly announced?: (lists: ChangingLists) => void;
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the session that the upstream opened with this answer, because the caller gets a refusal instead. */
  readonly abandon?: () => void;
  /** Whether JSON is answered with 200, whatever status it came with. */
  readonly isAlways200?: boolean;
}
