import type { AuditLog } from '#audit/audit-log';
import { hashSecret, isWellFormedSecret } from '#credentials/secret-format';
import type { AccessTokens } from '#signing/access-token';
import type { Form } from './form.ts';
import type { GrantStore } from './grant-store.ts';
import {
  identifyClient,
  notAuthenticated,
  type IdentifiedClient,
  type IdentifyClientPorts,
} from './identify-client.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import type { RefreshTokenStore } from './refresh-token-store.ts';
import type { RevokedTokenStore } from './revoked-token-store.ts';

export interface RevocationEndpointPorts extends IdentifyClientPorts {
  readonly tokens: AccessTokens;
  readonly revokedTokens: RevokedTokenStore;
  readonly refreshTokens: Pick<RefreshTokenStore, 'byHash'>;
  readonly grants: Pick<GrantStore, 'byId' | 'revoke'>;
  readonly audit: Pick<AuditLog, 'append'>;
}

/**
 * `POST /api/oauth/revoke`: the token no longer counts once this resolves, and a refresh token takes its
 * access tokens along. A token that is unknown, expired or another client's changes nothing and is no
 * error: the caller learns nothing of it. What was granted to a client that proved itself, only a client
 * that proves itself can revoke.
 *
 * RFC 7009 §2
 *
 * @throws {OAuthRefusal} `invalid_request`, `invalid_client`
 */
export async function revocationEndpoint(
  form: Form,
  authorization: string | undefined,
  ports: RevocationEndpointPorts,
): Promise<void> {
  const from = await identifyClient(form, authorization, ports);
  const token = form.get('token');
  if (token === undefined) throw new OAuthRefusal('invalid_request', 'token is missing');
  if (isWellFormedSecret('rt_', token)) await revokeFamily(token, from, ports);
  else await revokeAccessToken(token, from, ports);
}

async function revokeFamily(
  refreshToken: string,
  { client, authenticated }: IdentifiedClient,
  { refreshTokens, grants, clock, audit }: RevocationEndpointPorts,
): Promise<void> {
  const found = await refreshTokens.byHash(hashSecret(refreshToken));
  if (!found || found.grant.clientId !== client.id) return;
  if (found.grant.authenticated && !authenticated) throw notAuthenticated();
  if (!(await grants.revoke(found.grant.id, clock.now()))) return;
  await audit.append({
    at: clock.now(),
    actor: `client:${client.id}`,
    organization: found.grant.serverPath.split('/')[0],
    action: 'grant.revoke',
    target: found.grant.id,
    address: undefined,
    requestId: undefined,
    outcome: 'done',
  });
}

async function revokeAccessToken(
  token: string,
  { client, authenticated }: IdentifiedClient,
  { tokens, grants, revokedTokens, clock }: RevocationEndpointPorts,
): Promise<void> {
  const verdict = await tokens.verify(token);
  const claims = verdict.outcome === 'valid' ? verdict.claims : undefined;
  const grant = claims?.grantId === undefined ? undefined : await grants.byId(claims.grantId);
  // A client that could prove itself and did not is no client that we know.
  const isPublic = grant !== undefined && !grant.authenticated;
  if (!authenticated && claims?.clientId === client.id && !isPublic) throw notAuthenticated();
  if (claims?.clientId !== client.id) return;
  await revokedTokens.revoke(claims, clock.now());
}
