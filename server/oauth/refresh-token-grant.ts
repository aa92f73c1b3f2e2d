import { findRefreshToken, type NamedGrant } from '#db/grants';
import { endReusedGrant } from './audit-notes.ts';
import { bundleRefresh } from './bundle-grants.ts';
import { notAuthenticated, type IdentifiedClient } from './client-authentication.ts';
import { OAuthError } from './oauth-error.ts';
import { notPermittedWords, permittedScopes, requestedScopes } from './permitted-scopes.ts';
import { withoutOpenIdScopes } from '#model/scopes';
import { suspended, type Suspension } from '#model/suspension';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';
import { invalidRefreshToken as refused, successorOf } from './refresh-successors.ts';
import {
  grantedToken,
  type GrantContext,
  type Issued,
  type TokenRequest,
} from './token-response.ts';

/**
 * Exchanges a refresh token for its successor.
 *
 * Within 30 seconds of the first use the same successor is returned again, because responses get lost. After that
 * a second use means that the token was stolen. Because the thief and the client cannot be distinguished, every token of
 * the grant is revoked.
 *
 * RFC 6749 §6, RFC 8707 §2.2, RFC 9700 §4.14.2
 *
 * @throws {OAuthError} `invalid_request`, `invalid_client`, `invalid_grant`, `invalid_target`, `invalid_scope`
 */
export async function refreshTokenGrant(
  { client, authenticated }: IdentifiedClient,
  { form }: TokenRequest,
  ports: GrantContext,
): Promise<Issued> {
  const { db, clock, endpointUrl } = ports;
  const presented = form.get('refresh_token');
  if (presented === undefined) {
    throw new OAuthError('invalid_request', 'refresh_token is missing');
  }
  if (!isWellFormedSecret('rt_', presented)) throw refused('unknown token');
  const found = await findRefreshToken(db, hashSecret(presented));
  if (!found) return bundleRefresh({ client, authenticated }, { form, presented }, ports);
  const { grant } = found;
  if (grant.clientId !== client.id) throw refused('issued to another client');
  if (grant.authenticated && !authenticated) throw notAuthenticated();
  if (grant.revokedAt !== undefined) throw refused('revoked');
  if (Math.min(found.expiresAt, grant.expiresAt) <= clock.now()) throw refused('expired');
  if (found.isSuspended) throw suspendedGrant('server');
  const permitted = await permittedScopes(grant.scopes, { ...grant, client }, ports);
  if (permitted.outcome === 'closed') throw suspendedGrant('self_registered');
  if (permitted.outcome === 'proxy-closed') throw suspendedGrant('latchkey_proxy');
  if (permitted.outcome !== 'permitted') throw refused(notPermittedWords[permitted.outcome]);
  const resource = form.get('resource');
  if (resource !== undefined && resource !== endpointUrl(grant.serverPath)) {
    throw new OAuthError('invalid_target', 'resource does not match the grant');
  }
  const asked = requestedScopes(withoutOpenIdScopes(form.get('scope')), grant.scopes);
  const scopes = asked.filter((scope) => permitted.scopes.includes(scope));
  if (scopes.length === 0)
    throw new OAuthError('invalid_scope', 'the person cannot grant these scopes');

  const refreshToken = await successorOf(presented, ports);
  if (refreshToken === undefined) throw await replayed(grant, ports);
  return grantedToken(grant, { scopes, refreshToken }, ports);
}

async function replayed(grant: NamedGrant, ports: GrantContext): Promise<OAuthError> {
  const { clientId } = grant;
  await endReusedGrant(grant, { clientId, action: 'refresh-token.reuse' }, ports);
  return refused('already used');
}

/** The token is not spent: it is valid again when the setting is changed back. */
function suspendedGrant(by: Suspension): OAuthError {
  return new OAuthError('invalid_grant', suspended(by));
}
