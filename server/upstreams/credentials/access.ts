import type { UpstreamAccess } from '#db/upstream-access';
import type { UpstreamConnection } from '#db/upstream-connections';
import type { Target } from '#model/endpoints';

// Access to upstreams that require OAuth tokens: the metadata of their authorization servers, and the purposes that secrets are
// encrypted for.

/** A target whose calls can contain credentials, all of which are for the URL of its upstream. */
export type CredentialedTarget = Target & {
  readonly upstream: Extract<Target['upstream'], { readonly url: string }>;
};

/** The purpose that a client secret is encrypted for: one server and one authorization server. */
export function secretPurpose({ targetId, id }: Pick<UpstreamAccess, 'targetId' | 'id'>): string {
  return `upstream client secret ${targetId} ${id}`;
}

/** The purpose that the token of a registration is encrypted for. */
export function registrationPurpose(of: Pick<UpstreamAccess, 'targetId' | 'clientId'>): string {
  return `upstream registration ${of.targetId} ${of.clientId}`;
}

/** The purpose that tokens are encrypted for: one server, one authorization server and one person. */
export function tokensPurpose(
  of: Pick<UpstreamConnection, 'targetId' | 'accessId' | 'userId'>,
): string {
  return `upstream tokens ${of.targetId} ${of.accessId} ${of.userId}`;
}

/**
 * Why there is no token for an upstream. `message` contains no secret and nothing from the body of a response, so it may be
 * displayed to administrators. There is no `cause`, because the errors of the library contain responses.
 */
export class UpstreamAccessError extends Error {
  override readonly name = 'UpstreamAccessError';
  readonly code:
    /** The person has not connected an account, or the connection has ended. */
    | 'not_connected'
    /** The authorization server no longer accepts a code or a refresh token. */
    | 'ended'
    /** The authorization server refuses the request. */
    | 'refused'
    /** The person denied consent. */
    | 'denied'
    /** The authorization server cannot be reached at the moment. */
    | 'unreachable'
    /** Its metadata or a response is invalid. */
    | 'unusable'
    /** It is in a private network that the operator has not named. */
    | 'forbidden';

  constructor(code: UpstreamAccessError['code'], message: string) {
    super(message);
    this.code = code;
  }
}
