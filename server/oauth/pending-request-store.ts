import type { EpochSeconds } from '#clock/clock';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { ConsentTerms } from './consent-terms.ts';

/** A request that waits for a person to decide, in the session in which they were asked. */
export interface PendingRequest {
  /** SHA-256 of the id that the page carries. */
  readonly idHash: string;
  readonly sessionId: string;
  readonly userId: string;
  readonly request: AuthorizationRequest;
  /** What the page showed, which the decision is about. */
  readonly shown: Pick<ConsentTerms, 'serverId' | 'scopes'>;
  readonly expiresAt: EpochSeconds;
}

/** Where authorization requests wait for the decision. */
export interface PendingRequestStore {
  /** Beyond twenty of one session, the oldest are forgotten. */
  add(pending: PendingRequest, now: EpochSeconds): Promise<void>;

  /** Hands it over, once, to the session that it belongs to. */
  take(idHash: string, sessionId: string, now: EpochSeconds): Promise<PendingRequest | undefined>;
}
