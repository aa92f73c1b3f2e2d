import type { CallContents } from '#model/call-contents';
import type { AnnouncedApplication, CallEnd, UpstreamAccount } from '#model/calls';
import type { Target } from '#model/endpoints';

/**
 * A call to a collection, which the collection passes on to one of its members. The caller made one call, so both are recorded as one: at
 * the endpoint of the collection, with the member's own name of the tool. A call that a member refuses before sending it is recorded at
 * the member, because the caller must not learn of the refusal.
 */
export interface WholeCall {
  /** The id of the caller's request. */
  readonly requestId: string;
  /** The application that calls. */
  readonly application: () => AnnouncedApplication | undefined;
  /**
   * Records a request that will be sent to a member as a part of this call; `undefined` if it is not a part. The returned function records that
   * the call begins, where that is required, and rejects if it cannot be recorded.
   */
  readonly join: (part: PassedPart) => (() => Promise<void> | undefined) | undefined;
}

/** The facts to record about a call that was passed on to a member. */
export interface PassedPart {
  readonly method: string | undefined;
  /** The tool or prompt by the member's own name, or the resource by URI. */
  readonly subject: string | undefined;
  readonly target: Target;
  /** The account that the member was called with, depending on how the call ended. */
  readonly account: (end: CallEnd, error: string | undefined) => UpstreamAccount;
  /** How the call ended at the member; `undefined` until it has ended. */
  readonly ended: () => PartEnd | undefined;
  /** The contents of the call that the member stores. The caller of this function must store them or let them go. */
  readonly takeContents: () => CallContents | undefined;
}

export interface PartEnd {
  readonly end: CallEnd;
  readonly error: string | undefined;
}

/** How a call that was passed on ended. A failure at the member says more, unless the caller did not wait for the answer. */
export function endOfBoth(own: PartEnd, part: PartEnd | undefined): PartEnd {
  return part && part.end !== 'ok' && own.end !== 'cancelled' ? part : own;
}
