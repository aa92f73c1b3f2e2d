import type { EpochSeconds } from '#clock/clock';
import type { UpstreamAccess } from './upstream-access.ts';

/** Where an authorization server keeps us as a client that registered itself, and what it takes there. RFC 7592 §3 */
export interface ClientRegistration {
  readonly url: string;
  /** Sealed for `registrationPurpose`. */
  readonly sealedToken: string;
}

/** A registration that no access needs any more, and that its authorization server has not been told of. */
export interface EndedRegistration {
  readonly access: UpstreamAccess;
  readonly registration: ClientRegistration;
  /** `undefined` once it is gone. */
  readonly organization: string | undefined;
  /** The server's name; its id, once it is gone. */
  readonly server: string;
  readonly attempts: number;
}

/** Registrations of accesses that are over, once nobody's tokens are left to be revoked by that client. */
export interface EndedRegistrationStore {
  due(now: EpochSeconds, limit: number): Promise<EndedRegistration[]>;

  /** `true` for the first of many processes to try the next time; another try is due at `next`. */
  postpone(
    at: { readonly accessId: string; readonly attempts: number },
    next: EpochSeconds,
  ): Promise<boolean>;

  /** Nothing is to be told of it any more. */
  remove(accessId: string): Promise<void>;
}

/** What the token of a registration is sealed for. */
export function registrationPurpose(of: {
  readonly serverId: string;
  readonly clientId: string;
}): string {
  return `upstream registration ${of.serverId} ${of.clientId}`;
}
