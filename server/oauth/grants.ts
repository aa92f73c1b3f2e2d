import { type Awaitable, whenReady } from '#model/awaitable';
import type { CredentialUse } from '#db/last-uses';
import type { EpochSeconds } from '#model/clock';
import { suspended } from '#model/suspension';
import type { OAuthClient } from '#db/clients';
import { authorizationCodeGrant } from './authorization-code-grant.ts';
import {
  identifyClient,
  notAuthenticated,
  type IdentifiedClient,
} from './client-authentication.ts';
import { clientCredentialsGrant } from './client-credentials-grant.ts';
import type { AssertionPorts } from './identity-assertion-grant.ts';
import type { jwtBearerGrant } from './jwt-bearer-grant.ts';
import { OAuthError } from './oauth-error.ts';
import { refreshTokenGrant } from './refresh-token-grant.ts';
import type { GrantContext, Issued, TokenRequest } from './token-response.ts';

interface Grant {
  /** The kinds of clients that may use it: of a server, of a whole organization, and those that registered or described themselves. */
  readonly clients: readonly ClientKind[];
}

type ClientKind = 'server' | 'organization' | 'self-registered';

interface GrantOfClient extends Grant {
  /** Whether the client must authenticate. If not, a public client may identify itself by its `client_id` alone. */
  readonly authenticated: boolean;
  readonly exchange: (
    from: IdentifiedClient,
    request: TokenRequest,
    context: TokenEndpointContext,
  ) => Awaitable<Issued>;
}

/** A grant that identifies the client itself. */
interface GrantOfAssertion extends Grant {
  readonly redeem: (
    request: TokenRequest,
    context: TokenEndpointContext,
  ) => Awaitable<Issued & { readonly client: OAuthClient }>;
}

/** The grant for assertions, once it is loaded. */
let assertions: { readonly jwtBearerGrant: typeof jwtBearerGrant } | undefined;

/**
 * The grants by their `grant_type`. The token endpoint, the server's metadata and client registration follow from
 * this table.
 */
const grants = {
  authorization_code: {
    clients: ['server', 'self-registered'],
    authenticated: false,
    exchange: authorizationCodeGrant,
  },
  refresh_token: {
    clients: ['server', 'self-registered'],
    authenticated: false,
    exchange: refreshTokenGrant,
  },
  client_credentials: {
    clients: ['server'],
    authenticated: true,
    exchange: clientCredentialsGrant,
  },
  'urn:ietf:params:oauth:grant-type:jwt-bearer': {
    clients: ['server', 'organization', 'self-registered'],
    // Loaded at the first request, because few servers need it.
    redeem: (request, context) =>
      assertions
        ? assertions.jwtBearerGrant(request, context)
        : import('./jwt-bearer-grant.ts').then((loaded) => {
            assertions = loaded;
            return loaded.jwtBearerGrant(request, context);
          }),
  },
} as const satisfies Readonly<Record<string, GrantOfClient | GrantOfAssertion>>;

export type GrantType = keyof typeof grants;

export const grantTypes = Object.keys(grants).filter(isGrantType);

/** The grants that self-registered clients may use. */
export const selfRegisteredGrantTypes = grantTypes.filter((name) => {
  const { clients }: Grant = grants[name];
  return clients.includes('self-registered');
});

export interface TokenEndpointContext extends GrantContext, AssertionPorts {
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
  const used = (client: OAuthClient) =>
    context.used({ type: 'client', id: client.id }, context.clock.now());
  const grant: GrantOfClient | GrantOfAssertion = grants[grantType];
  if ('redeem' in grant) {
    return whenReady(grant.redeem(request, context), ({ client, ...issued }) => {
      used(client);
      return issued;
    });
  }
  return whenReady(identifyClient(form, headers.authorization, context), (from) => {
    if (grant.authenticated && !from.authenticated) throw notAuthenticated();
    if (!grant.clients.includes(kindOf(from.client))) {
      throw new OAuthError('unauthorized_client', 'this client can act only on behalf of people');
    }
    if (from.client.isSuspended) {
      // The proxy recognizes `invalid_grant` with this description, and keeps its refresh token.
      throw new OAuthError(
        grant.authenticated ? 'unauthorized_client' : 'invalid_grant',
        suspended('owner_left'),
      );
    }
    return whenReady(grant.exchange(from, request, context), (issued) => {
      used(from.client);
      return issued;
    });
  });
}

function kindOf({ serverId, organization }: OAuthClient): ClientKind {
  if (serverId !== undefined) return 'server';
  return organization === undefined ? 'self-registered' : 'organization';
}

function isGrantType(text: string): text is GrantType {
  return Object.hasOwn(grants, text);
}
