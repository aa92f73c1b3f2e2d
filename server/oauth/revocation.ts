import { deleteConsents } from '#db/consents';
import { allowAssertedGrant } from '#db/assertion-grants';
import {
  findGrant,
  findRefreshToken,
  revokeGrant,
  setGrantTools,
  type NamedGrant,
} from '#db/grants';
import { findBundle, findBundleOfGrant, findBundleToken, revokeBundle } from '#db/grant-bundles';
import { revokeAccessToken } from '#db/revoked-tokens';
import { type Db, transaction } from '#db/transaction';
import type { ToolSelection } from '#model/tool-rights';
import type { AccessTokens } from './access-tokens.ts';
import { aboutGrant, note, type NotePorts } from './audit-notes.ts';
import {
  identifyClient,
  notAuthenticated,
  type IdentifiedClient,
  type ClientContext,
} from './client-authentication.ts';
import type { Form } from './forms.ts';
import { OAuthError } from './oauth-error.ts';
import { serverListUrl } from '#model/server-list';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';
import { partsOf } from '#model/slug';

export interface RevocationEndpointPorts extends ClientContext, NotePorts {
  readonly tokens: AccessTokens;
}

/**
 * `POST /api/oauth/revoke`: the token is invalid once this resolves. Revoking a refresh token revokes its access
 * tokens. A token that is unknown, expired or another client's changes nothing and is no error, so that the caller
 * learns nothing about it. A grant to a client that authenticated can only be revoked by that client, authenticated.
 *
 * RFC 7009 §2
 *
 * @throws {OAuthError} `invalid_request`, `invalid_client`
 */
export async function revocationEndpoint(
  form: Form,
  authorization: string | undefined,
  ports: RevocationEndpointPorts,
): Promise<void> {
  const from = await identifyClient(form, authorization, ports);
  const token = form.get('token');
  if (token === undefined) throw new OAuthError('invalid_request', 'token is missing');
  if (isWellFormedSecret('rt_', token)) await revokeFamily(token, from, ports);
  else await revokeJwt(token, from, ports);
}

async function revokeFamily(
  refreshToken: string,
  { client, authenticated }: IdentifiedClient,
  ports: RevocationEndpointPorts,
): Promise<void> {
  const { db, clock } = ports;
  const found = await findRefreshToken(db, hashSecret(refreshToken));
  if (!found) return revokeWholeBundle(refreshToken, { client, authenticated }, ports);
  if (found.grant.clientId !== client.id) return;
  if (found.grant.authenticated && !authenticated) throw notAuthenticated();
  await transaction(db, async (tx) => {
    if (!(await revokeGrant(tx, found.grant.id, clock.now()))) return;
    await note({ ...revokedBy(client), ...aboutGrant(found.grant) }, { ...ports, db: tx });
  });
}

/** Revokes the grants at all servers that a refresh token is for. */
async function revokeWholeBundle(
  refreshToken: string,
  { client, authenticated }: IdentifiedClient,
  ports: RevocationEndpointPorts,
): Promise<void> {
  const { db, clock } = ports;
  const found = await findBundleToken(db, hashSecret(refreshToken));
  if (!found || found.bundle.clientId !== client.id) return;
  if (found.bundle.authenticated && !authenticated) throw notAuthenticated();
  await transaction(db, async (tx) => {
    const revoked = await revokeBundle(tx, found.bundle.id, clock.now());
    for (const { id, organization } of revoked ?? []) {
      await note({ ...revokedBy(client), organization, target: id }, { ...ports, db: tx });
    }
  });
}

function revokedBy({ id }: IdentifiedClient['client']) {
  return { actor: `client:${id}`, action: 'grant.revoke', outcome: 'done' } as const;
}

/**
 * Revokes an access token. For one of a bundle, this also revokes the grant at its server, as RFC 7009 §2.1 permits: nothing else
 * would end access there alone, because the refresh token is also for other servers.
 */
async function revokeJwt(
  token: string,
  { client, authenticated }: IdentifiedClient,
  ports: RevocationEndpointPorts,
): Promise<void> {
  const { tokens, base, db, clock } = ports;
  const verdict = await tokens.verify(token);
  const claims = verdict.outcome === 'valid' ? verdict.claims : undefined;
  const grantId = claims?.grantId;
  const isList = claims?.audience === serverListUrl(base);
  const bundle =
    grantId === undefined
      ? undefined
      : isList
        ? await findBundle(db, grantId)
        : await findBundleOfGrant(db, grantId);
  const grant = bundle ?? (grantId === undefined ? undefined : await findGrant(db, grantId));
  // A confidential client that did not authenticate is treated as unknown.
  const isPublic = grant !== undefined && !grant.authenticated;
  if (!authenticated && claims?.clientId === client.id && !isPublic) throw notAuthenticated();
  if (claims?.clientId !== client.id) return;
  const serverPath = isList ? undefined : claims.audience.slice(`${base}/mcp/`.length);
  await transaction(db, async (tx) => {
    const endsGrant = bundle && !isList && (await revokeGrant(tx, grantId ?? '', clock.now()));
    if (!(await revokeAccessToken(tx, claims, clock.now())) && !endsGrant) return;
    const about = {
      ...revokedBy(client),
      organization: serverPath && partsOf(serverPath).organization,
    };
    const revoked = endsGrant
      ? { target: grantId }
      : { action: 'access-token.revoke', target: serverPath ?? claims.audience };
    await note({ ...about, ...revoked }, { ...ports, db: tx });
  });
}

/**
 * Revokes a person's grant. Its tokens become invalid, and the application has to request consent again.
 *
 * @returns `false` when the person has no such active grant
 */
export async function withdrawGrant(
  grantId: string,
  userId: string,
  ports: NotePorts,
): Promise<boolean> {
  return changeOwnGrant({ grantId, userId, action: 'grant.withdraw' }, ports, async (tx, grant) => {
    await deleteConsents(tx, grant);
    return revokeGrant(tx, grantId, ports.clock.now());
  });
}

/**
 * Allows an application whose access the person withdrew to get access through an identity provider again.
 *
 * @returns `false` when the person has no such withdrawn grant
 */
export async function allowGrant(
  grantId: string,
  userId: string,
  ports: NotePorts,
): Promise<boolean> {
  return changeOwnGrant({ grantId, userId, action: 'grant.allow' }, ports, (tx) =>
    allowAssertedGrant(tx, grantId),
  );
}

/**
 * Changes which tools an application may use for a person.
 *
 * @returns `false` when the person has no such active grant
 */
export async function limitGrant(
  grantId: string,
  userId: string,
  tools: ToolSelection,
  ports: NotePorts,
): Promise<boolean> {
  return changeOwnGrant({ grantId, userId, action: 'grant.update' }, ports, (tx) =>
    setGrantTools(tx, grantId, tools),
  );
}

/** Changes a grant of the person, and records that in the audit log if there was something to change. */
async function changeOwnGrant(
  {
    grantId,
    userId,
    action,
  }: { grantId: string; userId: string; action: 'grant.withdraw' | 'grant.allow' | 'grant.update' },
  ports: NotePorts,
  change: (tx: Db, grant: NamedGrant) => Promise<boolean>,
): Promise<boolean> {
  const grant = await findGrant(ports.db, grantId);
  if (!grant || grant.userId !== userId) return false;
  const about = { actor: `user:${userId}`, ...aboutGrant(grant), action };
  return transaction(ports.db, async (tx) => {
    if (!(await change(tx, grant))) return false;
    await note({ ...about, outcome: 'done' }, { ...ports, db: tx });
    return true;
  });
}
