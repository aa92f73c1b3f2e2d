import type { AuditLog } from '#audit/audit-log';
import { hashSecret, isWellFormedSecret, mintSecret } from '#credentials/secret-format';
import type { Form } from './form.ts';
import { idleLifeSeconds, type GrantStore, type NamedGrant } from './grant-store.ts';
import { grantedToken, type GrantedTokenPorts } from './granted-token.ts';
import { notAuthenticated, type IdentifiedClient } from './identify-client.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { withoutOpenIdScopes } from './openid-scopes.ts';
import {
  notPermittedWords,
  permittedScopes,
  type PermittedScopesPorts,
} from './permitted-scopes.ts';
import type { RefreshTokenStore } from './refresh-token-store.ts';
import { requestedScopes } from './requested-scopes.ts';
import { openSuccessor, sealSuccessor } from './sealed-successor.ts';
import type { TokenResponse } from './token-response.ts';

const graceSeconds = 30;

export interface RefreshTokenGrantPorts extends GrantedTokenPorts, PermittedScopesPorts {
  readonly grants: Pick<GrantStore, 'revoke'>;
  readonly refreshTokens: RefreshTokenStore;
  readonly audit: Pick<AuditLog, 'append'>;
}

/**
 * Exchanges a refresh token for its successor. Asked again within `graceSeconds` it answers with the
 * same successor, as answers get lost; later it means theft, by whom we cannot tell, so every token of
 * the family dies.
 *
 * RFC 6749 §6, RFC 8707 §2.2, RFC 9700 §4.14.2
 *
 * @throws {OAuthRefusal} `invalid_request`, `invalid_client`, `invalid_grant`, `invalid_target`, `invalid_scope`
 */
export async function refreshTokenGrant(
  { client, authenticated }: IdentifiedClient,
  form: Form,
  ports: RefreshTokenGrantPorts,
): Promise<TokenResponse> {
  const { refreshTokens, clock, endpointUrl } = ports;
  const presented = form.get('refresh_token');
  if (presented === undefined) {
    throw new OAuthRefusal('invalid_request', 'refresh_token is missing');
  }
  if (!isWellFormedSecret('rt_', presented)) throw refused('not a refresh token of ours');
  const found = await refreshTokens.byHash(hashSecret(presented));
  if (!found) throw refused('unknown');
  const { grant } = found;
  if (grant.clientId !== client.id) throw refused('issued to another client');
  if (grant.authenticated && !authenticated) throw notAuthenticated();
  if (grant.revokedAt !== undefined) throw refused('revoked');
  if (Math.min(found.expiresAt, grant.expiresAt) <= clock.now()) throw refused('expired');
  const permitted = await permittedScopes(grant.scopes, { ...grant, client }, ports);
  if (permitted.outcome !== 'permitted') throw refused(notPermittedWords[permitted.outcome]);
  const resource = form.get('resource');
  if (resource !== undefined && resource !== endpointUrl(grant.serverPath)) {
    throw new OAuthRefusal('invalid_target', 'resource is not what was granted');
  }
  const asked = requestedScopes(withoutOpenIdScopes(form.get('scope')), grant.scopes);
  const scopes = asked.filter((scope) => permitted.scopes.includes(scope));
  if (scopes.length === 0) throw new OAuthRefusal('invalid_scope', 'the person may not grant this');

  const successor = mintSecret('rt_');
  const spending = await refreshTokens.spend(
    found.hash,
    {
      hash: hashSecret(successor),
      sealed: sealSuccessor(successor, presented),
      expiresAt: clock.now() + idleLifeSeconds,
    },
    clock.now(),
  );
  if (spending.outcome === 'spent') {
    return grantedToken(grant, { scopes, refreshToken: successor }, ports);
  }
  if (clock.now() - spending.at > graceSeconds) throw await replayed(grant, ports);
  if (spending.successorUsed) throw refused('its successor was used already');
  const refreshToken = openSuccessor(spending.sealedSuccessor, presented);
  return grantedToken(grant, { scopes, refreshToken }, ports);
}

async function replayed(
  { id, clientId, serverPath }: NamedGrant,
  { grants, clock, audit }: RefreshTokenGrantPorts,
): Promise<OAuthRefusal> {
  await grants.revoke(id, clock.now());
  await audit.append({
    at: clock.now(),
    actor: `client:${clientId}`,
    organization: serverPath.split('/')[0],
    action: 'refresh-token.reuse',
    target: id,
    address: undefined,
    requestId: undefined,
    outcome: 'refused',
  });
  return refused('used before');
}

function refused(why: string): OAuthRefusal {
  return new OAuthRefusal('invalid_grant', `this refresh token does not count: ${why}`);
}
