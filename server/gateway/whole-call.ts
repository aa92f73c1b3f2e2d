import type { CallContents } from '#model/call-contents';
import type { AnnouncedApplication, CallEnd, UpstreamAccount } from '#model/calls';
import type { Target } from '#model/endpoints';

/**
 * A call to a collection, which passes it on to one of its members. Its caller made one call, so both are recorded as one: with the member's own
 * name of the tool, at the endpoint of the collection. What a member refuses before it is sent is recorded at the member, because the
 * caller must not learn of it.
 */
export interface WholeCall {
  /** The id of the caller's request. */
  readonly requestId: string;
  /** The application that calls. */
  readonly application: () => AnnouncedApplication | undefined;
  /**
   * Records what is about to be sent to a member as a part of this call; `undefined` if it is none. The returned function records that
   * the call begins, where that is required, and rejects if it cannot be recorded.
   */
  readonly join: (part: PassedPart) => (() => Promise<void> | undefined) | undefined;
}

/** What is recorded of a call that was passed on to a member. */
export interface PassedPart {
  readonly method: string | undefined;
  /** The tool or prompt by the member's own name, or the resource by URI. */
  readonly subject: string | undefined;
  readonly target: Target;
  /** What the member was called with, if the call ended like this. */
  readonly account: (end: CallEnd, error: string | undefined) => UpstreamAccount;
  /** How it ended at the member; `undefined` as long as it has not. */
  readonly ended: () => PartEnd | undefined;
  /** What the member stores of it. The caller of this function has to store it or let it go. */
  readonly takeContents: () => CallContents | undefined;
}

export interface PartEnd {
  readonly end: CallEnd;
  readonly error: string | undefined;
}

/** How a call ended that was passed on. What happened at the member says more, unless its caller did not wait for it. */
export function endOfBoth(own: PartEnd, part: PartEnd | undefined): PartEnd {
  return part && part.end !== 'ok' && own.end !== 'cancelled' ? part : own;
}
