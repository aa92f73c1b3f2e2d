import type { AuditLog } from '#audit/audit-log';
import type { OAuthClient } from '#credentials/oauth-client';
import { hashSecret, isWellFormedSecret, mintSecret } from '#credentials/secret-format';
import type { AuthorizationCode, AuthorizationCodeStore } from './authorization-code-store.ts';
import { provesChallenge } from './code-verifier.ts';
import type { Form } from './form.ts';
import { grantLifeSeconds, idleLifeSeconds, type GrantStore } from './grant-store.ts';
import { grantedToken, type GrantedTokenPorts } from './granted-token.ts';
import type { IdentifiedClient } from './identify-client.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import {
  notPermittedWords,
  permittedScopes,
  type PermittedScopesPorts,
} from './permitted-scopes.ts';
import { redirectPlace } from './redirect-match.ts';
import type { TokenResponse } from './token-response.ts';

export interface AuthorizationCodeGrantPorts extends GrantedTokenPorts, PermittedScopesPorts {
  readonly codes: AuthorizationCodeStore;
  readonly grants: GrantStore;
  readonly audit: Pick<AuditLog, 'append'>;
}

/**
 * Exchanges an authorization code for the first tokens of a grant. The code counts once: whoever brings
 * it again shows that it was stolen, by whom we cannot tell, so all that it gave is taken back.
 *
 * RFC 6749 §4.1.3, RFC 7636 §4.6, RFC 8707 §2.2, RFC 9700 §2.1.1
 *
 * @throws {OAuthRefusal} `invalid_request`, `invalid_client`, `invalid_grant`, `invalid_target`
 */
export async function authorizationCodeGrant(
  { client, authenticated }: IdentifiedClient,
  form: Form,
  ports: AuthorizationCodeGrantPorts,
): Promise<TokenResponse> {
  const { codes, grants, clock, endpointUrl } = ports;
  const presented = form.get('code');
  if (presented === undefined) throw new OAuthRefusal('invalid_request', 'code is missing');
  if (!isWellFormedSecret('code_', presented)) throw refused('not a code of ours');
  const code = await codes.byHash(hashSecret(presented));
  if (!code) throw refused('unknown');
  if (code.spentAt !== undefined) throw await reused(code, client, ports);
  if (code.clientId !== client.id) throw refused('issued to another client');
  if (code.expiresAt <= clock.now()) throw refused('expired');
  if (code.redirectUri !== form.get('redirect_uri')) throw refused('redirect_uri is not the same');
  if (!provesChallenge(form.get('code_verifier'), code.codeChallenge)) {
    await codes.spend(code.hash, clock.now());
    throw refused('code_verifier is not the one');
  }
  const resource = form.get('resource');
  if (resource !== undefined && resource !== endpointUrl(code.serverPath)) {
    throw new OAuthRefusal('invalid_target', 'resource is not what was granted');
  }
  const { grantId: id, userId, serverId, serverPath } = code;
  const about = { userId, serverPath, client };
  const permitted = await permittedScopes(code.scopes, about, ports);
  if (permitted.outcome !== 'permitted') throw refused(notPermittedWords[permitted.outcome]);
  const { scopes } = permitted;

  const createdAt = clock.now();
  const grant = {
    id,
    userId,
    clientId: client.id,
    serverId,
    serverPath,
    scopes,
    redirectHost: redirectPlace(code.redirectUri).host,
    authenticated,
    createdAt,
    expiresAt: createdAt + grantLifeSeconds,
  };
  const refreshToken = mintSecret('rt_');
  const first = { hash: hashSecret(refreshToken), expiresAt: createdAt + idleLifeSeconds };
  if (!(await grants.begin(code.hash, grant, first))) throw await reused(code, client, ports);
  return grantedToken(grant, { scopes, refreshToken }, ports);
}

async function reused(
  { grantId, serverPath }: AuthorizationCode & { serverPath: string },
  by: OAuthClient,
  { grants, clock, audit }: AuthorizationCodeGrantPorts,
): Promise<OAuthRefusal> {
  await grants.revoke(grantId, clock.now());
  await audit.append({
    at: clock.now(),
    actor: `client:${by.id}`,
    organization: serverPath.split('/')[0],
    action: 'authorization-code.reuse',
    target: grantId,
    address: undefined,
    requestId: undefined,
    outcome: 'refused',
  });
  return refused('used before');
}

function refused(why: string): OAuthRefusal {
  return new OAuthRefusal('invalid_grant', `this authorization code does not count: ${why}`);
}
