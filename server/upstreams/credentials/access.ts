// Access to upstreams that require OAuth tokens: the metadata of their authorization servers, and the purposes that secrets are
// encrypted for.
import { z } from 'zod';
import type { ServerRecord } from '#db/servers';
import { hostAndPort } from '#outbound/checked-addresses';

/** The members of an authorization server's metadata that this server uses. RFC 8414 §2, RFC 9207 §3, RFC 9126 §5, RFC 7591, OpenID Connect Discovery §3 */
export const serverMetadataSchema = z.object({
  issuer: z.string(),
  authorization_endpoint: z.string().optional(),
  token_endpoint: z.string(),
  pushed_authorization_request_endpoint: z.string().optional(),
  require_pushed_authorization_requests: z.boolean().optional(),
  revocation_endpoint: z.string().optional(),
  registration_endpoint: z.string().optional(),
  client_id_metadata_document_supported: z.boolean().optional(),
  jwks_uri: z.string().optional(),
  scopes_supported: z.array(z.string()).optional(),
  code_challenge_methods_supported: z.array(z.string()).optional(),
  token_endpoint_auth_methods_supported: z.array(z.string()).optional(),
  id_token_signing_alg_values_supported: z.array(z.string()).optional(),
  authorization_response_iss_parameter_supported: z.boolean().optional(),
});

export type ServerMetadata = z.infer<typeof serverMetadataSchema>;

/** The metadata of an upstream's authorization server, and the upstream's resource identifier. */
export interface Discovered {
  readonly metadata: ServerMetadata;
  /** The upstream's resource identifier. RFC 9728 §2 */
  readonly resource: string;
}

/** A server whose calls can contain credentials, all of which are for the URL of its upstream. */
export type CredentialedServer = ServerRecord & {
  readonly upstream: Extract<ServerRecord['upstream'], { readonly url: string }>;
};

/** The header for the assertion of the caller's identity when `Authorization` contains a token for the upstream or a fixed header. */
export const callerHeader = 'latchkey-caller';

/** The purpose that a client secret is encrypted for: one server and one authorization server. */
export function secretPurpose({
  serverId,
  id,
}: {
  readonly serverId: string;
  readonly id: string;
}): string {
  return `upstream client secret ${serverId} ${id}`;
}

/**
 * Returns the hosts that the operator vouched for, each with its port. A host stored without a port means the ports by
 * which the operator named it: those of the upstream and of its authorization server.
 */
export function vouchedHosts(
  stored: readonly string[],
  { url, metadata }: { readonly url: string; readonly metadata: ServerMetadata },
): string[] {
  const named = [url, metadata.issuer].map((one) => new URL(one));
  const all = stored.flatMap((host) =>
    /:\d+$/.test(host)
      ? [host]
      : named.filter(({ hostname }) => hostname === host).map((one) => hostAndPort(one)),
  );
  return [...new Set(all)];
}

/** The purpose that the token of a registration is encrypted for. */
export function registrationPurpose(of: {
  readonly serverId: string;
  readonly clientId: string;
}): string {
  return `upstream registration ${of.serverId} ${of.clientId}`;
}

/** The purpose that tokens are encrypted for: one server, one authorization server and one person. */
export function tokensPurpose(of: {
  readonly serverId: string;
  readonly accessId: string;
  readonly userId: string;
}): string {
  return `upstream tokens ${of.serverId} ${of.accessId} ${of.userId}`;
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
