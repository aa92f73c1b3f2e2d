import type { OAuthClient } from '#db/clients';
import {
  beginGrant,
  findAuthorizationCode,
  isAuthorizationCodeStored,
  spendAuthorizationCode,
  type AuthorizationCode,
} from '#db/authorization-codes';
import { refreshTokenLifeSeconds } from '#model/lifetimes';
import { endReusedGrant } from './audit-notes.ts';
import { bundleCodeGrant } from './bundle-grants.ts';
import type { IdentifiedClient } from './client-authentication.ts';
import { invalidCode as refused, provesChallenge } from './code-proof.ts';
import { OAuthError } from './oauth-error.ts';
import { notPermittedWords, permittedScopes } from './permitted-scopes.ts';
import { hashSecret, isWellFormedSecret, mintSecret } from '#secrets/secrets';
import {
  grantedToken,
  grantOf,
  type GrantContext,
  type Issued,
  type TokenRequest,
} from './token-response.ts';

/**
 * Exchanges an authorization code for the first tokens of a grant. A code can be used once. A second use means that it was
 * stolen. Because the thief and the client cannot be distinguished, everything issued for the code is revoked.
 *
 * RFC 6749 §4.1.3, RFC 7636 §4.6, RFC 8707 §2.2, RFC 9700 §2.1.1
 *
 * @throws {OAuthError} `invalid_request`, `invalid_client`, `invalid_grant`, `invalid_target`
 */
export async function authorizationCodeGrant(
  { client, authenticated }: IdentifiedClient,
  { form }: TokenRequest,
  ports: GrantContext,
): Promise<Issued> {
  const { db, clock, endpointUrl } = ports;
  const presented = form.get('code');
  if (presented === undefined) throw new OAuthError('invalid_request', 'code is missing');
  if (!isWellFormedSecret('code_', presented)) throw refused('unknown code');
  const code = await findAuthorizationCode(db, hashSecret(presented));
  if (!code) return bundleCodeGrant({ client, authenticated }, form, ports);
  if (code.spentAt !== undefined) throw await reused(code, client, ports);
  if (code.clientId !== client.id) throw refused('issued to another client');
  if (code.expiresAt <= clock.now()) throw refused('expired');
  if (code.redirectUri !== form.get('redirect_uri')) throw refused('redirect_uri does not match');
  if (!provesChallenge(form.get('code_verifier'), code.codeChallenge)) {
    await spendAuthorizationCode(db, code.hash, clock.now());
    throw refused('code_verifier does not match');
  }
  const resource = form.get('resource');
  if (resource !== undefined && resource !== endpointUrl(code.serverPath)) {
    throw new OAuthError('invalid_target', 'resource does not match the grant');
  }
  const permitted = await permittedScopes(code.scopes, { ...code, client }, ports);
  if (permitted.outcome !== 'permitted') throw refused(notPermittedWords[permitted.outcome]);
  const { scopes } = permitted;

  const createdAt = clock.now();
  const grant = grantOf(code, { client, authenticated }, scopes, createdAt);
  const refreshToken = mintSecret('rt_');
  const first = { hash: hashSecret(refreshToken), expiresAt: createdAt + refreshTokenLifeSeconds };
  if (await beginGrant(db, code.hash, grant, first)) {
    return grantedToken(grant, { scopes, refreshToken }, ports);
  }
  // The access has just ended, and the code was deleted with it. That is no sign of a thief.
  if (!(await isAuthorizationCodeStored(db, code.hash))) throw refused('access ended meanwhile');
  throw await reused(code, client, ports);
}

async function reused(
  { grantId: id, serverPath }: AuthorizationCode & { serverPath: string },
  { id: clientId }: OAuthClient,
  ports: GrantContext,
): Promise<OAuthError> {
  const reuse = { clientId, action: 'authorization-code.reuse' } as const;
  await endReusedGrant({ id, serverPath }, reuse, ports);
  return refused('already used');
}
