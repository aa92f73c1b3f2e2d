import { type Awaitable, whenReady } from '#model/awaitable';
import type { CredentialUse } from '#db/last-uses';
import type { EpochSeconds } from '#model/clock';
import { suspended } from '#model/suspension';
import { authorizationCodeGrant } from './authorization-code-grant.ts';
import {
  identifyClient,
  notAuthenticated,
  type IdentifiedClient,
} from './client-authentication.ts';
import { clientCredentialsGrant } from './client-credentials-grant.ts';
import { OAuthError } from './oauth-error.ts';
import { refreshTokenGrant } from './refresh-token-grant.ts';
import type { GrantContext, Issued, TokenRequest } from './token-response.ts';

interface Grant {
  /** Whether clients that registered or described themselves may use it. */
  readonly selfRegistered: boolean;
  /** Whether the client must authenticate. If not, a public client may identify itself by its `client_id` alone. */
  readonly authenticated: boolean;
  readonly exchange: (
    from: IdentifiedClient,
    request: TokenRequest,
    context: GrantContext,
  ) => Awaitable<Issued>;
}

/**
 * The grants by their `grant_type`. The token endpoint, the server's metadata and client registration follow from
 * this table.
 */
const grants = {
  authorization_code: {
    selfRegistered: true,
    authenticated: false,
    exchange: authorizationCodeGrant,
  },
  refresh_token: { selfRegistered: true, authenticated: false, exchange: refreshTokenGrant },
  client_credentials: {
    selfRegistered: false,
    authenticated: true,
    exchange: clientCredentialsGrant,
  },
} as const satisfies Readonly<Record<string, Grant>>;

export type GrantType = keyof typeof grants;

export const grantTypes = Object.keys(grants).filter(isGrantType);

/** The grants that self-registered clients may use. */
export const selfRegisteredGrantTypes = grantTypes.filter((name) => grants[name].selfRegistered);

export interface TokenEndpointContext extends GrantContext {
  readonly used: (use: CredentialUse, usedAt: EpochSeconds) => void;
}

/**
 * `POST /api/oauth/token`: exchanges a grant for tokens, for the client that the request names.
 *
 * RFC 6749 §3.2
 *
 * @throws {OAuthError} any of its codes
 */
export function tokenEndpoint(
  request: TokenRequest,
  context: TokenEndpointContext,
): Awaitable<Issued> {
  const { form, headers } = request;
  const grantType = form.get('grant_type');
  if (grantType === undefined) throw new OAuthError('invalid_request', 'grant_type is missing');
  if (!isGrantType(grantType)) {
    const known = grantTypes.join(', ');
    throw new OAuthError('unsupported_grant_type', `grant_type must be one of ${known}`);
  }
  const grant: Grant = grants[grantType];
  return whenReady(identifyClient(form, headers.authorization, context), (from) => {
    if (grant.authenticated && !from.authenticated) throw notAuthenticated();
    if (!grant.selfRegistered && from.client.serverId === undefined) {
      throw new OAuthError('unauthorized_client', 'this client can act only on behalf of people');
    }
    if (from.client.isSuspended) {
      // The proxy knows `invalid_grant` with these words, and keeps its refresh token.
      throw new OAuthError(
        grant.authenticated ? 'unauthorized_client' : 'invalid_grant',
        suspended('owner_left'),
      );
    }
    return whenReady(grant.exchange(from, request, context), (issued) => {
      context.used({ type: 'client', id: from.client.id }, context.clock.now());
      return issued;
    });
  });
}

function isGrantType(text: string): text is GrantType {
  return Object.hasOwn(grants, text);
}
