import type { OAuthClient } from '#credentials/oauth-client';
import { formatScopes } from '#credentials/scope';
import { hashSecret, isWellFormedSecret } from '#credentials/secret-format';
import type { AccessTokenClaims, AccessTokens } from '#signing/access-token';
import type { Form } from './form.ts';
import { identifyClient, provedClient, type IdentifyClientPorts } from './identify-client.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { permittedScopes, type PermittedScopesPorts } from './permitted-scopes.ts';
import type { RefreshTokenStore } from './refresh-token-store.ts';

export interface IntrospectionEndpointPorts extends IdentifyClientPorts, PermittedScopesPorts {
  readonly tokens: AccessTokens;
  readonly refreshTokens: Pick<RefreshTokenStore, 'byHash'>;
  /** Whether the MCP endpoint that the token is for would let it in now. */
  readonly isAdmitted: (claims: AccessTokenClaims) => Promise<boolean>;
}

type Introspection = Readonly<Record<string, string | number | boolean>>;

const inactive: Introspection = { active: false };

/**
 * `POST /api/oauth/introspect`: what a token is good for, told only to the client that it was issued to.
 * Of any other token nobody learns more than that it is not active.
 *
 * RFC 7662 §2
 *
 * @throws {OAuthRefusal} `invalid_request`, `invalid_client`
 */
export async function introspectionEndpoint(
  form: Form,
  authorization: string | undefined,
  ports: IntrospectionEndpointPorts,
): Promise<Introspection> {
  const client = provedClient(await identifyClient(form, authorization, ports));
  const token = form.get('token');
  if (token === undefined) throw new OAuthRefusal('invalid_request', 'token is missing');
  return isWellFormedSecret('rt_', token)
    ? refreshToken(token, client, ports)
    : accessToken(token, client.id, ports);
}

async function accessToken(
  token: string,
  clientId: string,
  { base, tokens, isAdmitted }: IntrospectionEndpointPorts,
): Promise<Introspection> {
  const verdict = await tokens.verify(token);
  if (verdict.outcome === 'invalid') return inactive;
  const { claims } = verdict;
  if (claims.clientId !== clientId || !(await isAdmitted(claims))) return inactive;
  return {
    active: true,
    token_type: 'Bearer',
    iss: base,
    sub: claims.subject,
    aud: claims.audience,
    client_id: clientId,
    scope: formatScopes(claims.scopes),
    iat: claims.issuedAt,
    exp: claims.expiresAt,
    jti: claims.id,
  };
}

async function refreshToken(
  token: string,
  client: OAuthClient,
  ports: IntrospectionEndpointPorts,
): Promise<Introspection> {
  const { base, refreshTokens, clock } = ports;
  const found = await refreshTokens.byHash(hashSecret(token));
  if (!found || found.grant.clientId !== client.id || found.spentAt !== undefined) return inactive;
  const expiresAt = Math.min(found.expiresAt, found.grant.expiresAt);
  if (found.grant.revokedAt !== undefined || expiresAt <= clock.now()) return inactive;
  const permitted = await permittedScopes(found.grant.scopes, { ...found.grant, client }, ports);
  if (permitted.outcome !== 'permitted') return inactive;
  return {
    active: true,
    iss: base,
    sub: found.grant.userId,
    client_id: client.id,
    scope: formatScopes(permitted.scopes),
    exp: expiresAt,
  };
}
