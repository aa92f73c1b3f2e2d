import {
  beginBundle,
  findBundleCode,
  findBundleToken,
  listBundledGrants,
  revokeBundle,
  spendBundleCode,
  type BundledGrant,
  type GrantBundle,
  type IssuedBundleCode,
} from '#db/grant-bundles';
import { grantLifeSeconds, refreshTokenLifeSeconds } from '#model/lifetimes';
import { type Scope, withoutOpenIdScopes } from '#model/scopes';
import { serverListUrl } from '#model/server-list';
import { suspended } from '#model/suspension';
import { hashSecret, mintSecret } from '#secrets/secrets';
import { endReusedBundle } from './audit-notes.ts';
import { notAuthenticated, type IdentifiedClient } from './client-authentication.ts';
import { invalidCode, provesChallenge } from './code-proof.ts';
import type { Form } from './forms.ts';
import { OAuthError } from './oauth-error.ts';
import {
  notPermittedWords,
  permittedScopes,
  requestedScopes,
  type Permitted,
} from './permitted-scopes.ts';
import { invalidRefreshToken, successorOf } from './refresh-successors.ts';
import {
  grantedToken,
  grantOf,
  issuedFor,
  type GrantContext,
  type Issued,
} from './token-response.ts';

/*
 * Tokens for several servers that a person allowed at once. Each access token is for one of them, which the token request names with
 * `resource`. If access to one server has ended, the error is `invalid_target`, so that the client keeps the refresh token for the others:
 * after `invalid_grant`, the client would delete it.
 */

/**
 * Exchanges the code of a bundle for a grant at each server, and for the first tokens. The caller has found no code of a single grant.
 *
 * RFC 6749 §4.1.3, RFC 8707 §2.2
 *
 * @throws {OAuthError} `invalid_grant`, `invalid_target`
 */
export async function bundleCodeGrant(
  { client, authenticated }: IdentifiedClient,
  form: Form,
  ports: GrantContext,
): Promise<Issued> {
  const { db, clock } = ports;
  const code = await findBundleCode(db, hashSecret(form.get('code') ?? ''));
  if (!code) throw invalidCode('unknown code');
  if (code.redeemedAt !== undefined) throw await reused(code, client.id, ports);
  if (code.clientId !== client.id) throw invalidCode('issued to another client');
  if (code.expiresAt <= clock.now()) throw invalidCode('expired');
  if (code.redirectUri !== form.get('redirect_uri'))
    throw invalidCode('redirect_uri does not match');
  if (!provesChallenge(form.get('code_verifier'), code.codeChallenge)) {
    await spendBundleCode(db, code.hash, clock.now());
    throw invalidCode('code_verifier does not match');
  }
  const target = requestedPart(form, code, code.parts, ports);
  const grants = await permittedGrants(code, { client, authenticated }, ports);
  if (grants.length === 0) throw invalidCode(notPermittedWords.stranger);
  const narrowed = target && grants.find(({ id }) => id === target.grantId);
  if (target && !narrowed) throw refusedTarget(notPermittedWords.stranger);

  const createdAt = clock.now();
  const bundle = {
    id: code.bundleId,
    userId: code.userId,
    clientId: client.id,
    listsServers: code.listsServers,
    authenticated,
    expiresAt: createdAt + grantLifeSeconds,
    revokedAt: undefined,
  };
  const refreshToken = mintSecret('rt_');
  const first = {
    hash: hashSecret(refreshToken),
    createdAt,
    expiresAt: createdAt + refreshTokenLifeSeconds,
  };
  const begun = await beginBundle(db, code.hash, bundle, grants, first);
  if (!begun) throw await reused(code, client.id, ports);
  if (begun.length === 0 || (narrowed && !begun.includes(narrowed.id))) {
    await revokeBundle(db, bundle.id, clock.now());
    throw invalidCode('access ended meanwhile');
  }
  if (!narrowed) return listToken(bundle, refreshToken, ports);
  return grantedToken(narrowed, { scopes: narrowed.scopes, refreshToken }, ports);
}

/** The grants that the person may still give. */
async function permittedGrants(
  { parts, userId, redirectUri }: IssuedBundleCode,
  from: IdentifiedClient,
  ports: GrantContext,
) {
  const createdAt = ports.clock.now();
  const grants: ReturnType<typeof grantOf>[] = [];
  for (const part of parts) {
    const about = { userId, serverPath: part.serverPath, client: from.client };
    const permitted = await permittedScopes(part.scopes, about, ports);
    if (permitted.outcome !== 'permitted') continue;
    const code = { ...part, userId, redirectUri };
    grants.push(grantOf(code, from, permitted.scopes, createdAt));
  }
  return grants;
}

/**
 * Exchanges a refresh token of a bundle for its successor and an access token for one server. The caller has found no refresh token
 * of a single grant. A replayed one revokes the grants at all servers.
 *
 * RFC 6749 §6, RFC 8707 §2.2, RFC 9700 §4.14.2
 *
 * @throws {OAuthError} `invalid_client`, `invalid_grant`, `invalid_target`, `invalid_scope`
 */
export async function bundleRefresh(
  { client, authenticated }: IdentifiedClient,
  { form, presented }: { readonly form: Form; readonly presented: string },
  ports: GrantContext,
): Promise<Issued> {
  const { db, clock } = ports;
  const found = await findBundleToken(db, hashSecret(presented));
  if (!found) throw invalidRefreshToken('unknown token');
  const { bundle } = found;
  if (bundle.clientId !== client.id) throw invalidRefreshToken('issued to another client');
  if (bundle.authenticated && !authenticated) throw notAuthenticated();
  if (bundle.revokedAt !== undefined) throw invalidRefreshToken('revoked');
  if (Math.min(found.expiresAt, bundle.expiresAt) <= clock.now())
    throw invalidRefreshToken('expired');
  const grants = await listBundledGrants(db, bundle.id);
  if (grants.length === 0) throw invalidRefreshToken('revoked');
  const grant = requestedPart(form, bundle, grants, ports);
  const scopes = grant && (await narrowedScopes(grant, { client, grants, form }, ports));

  const refreshToken = await successorOf(presented, ports);
  if (refreshToken === undefined) throw await replayed(bundle, ports);
  return grant && scopes
    ? grantedToken(grant, { scopes, refreshToken }, ports)
    : listToken(bundle, refreshToken, ports);
}

/**
 * The scopes at one server: those that the request names, limited to what was granted there. The request may name any scope that
 * was granted at some server, so that a client can send one list for all servers.
 */
async function narrowedScopes(
  grant: BundledGrant,
  {
    client,
    grants,
    form,
  }: Pick<IdentifiedClient, 'client'> & {
    readonly grants: readonly BundledGrant[];
    readonly form: Form;
  },
  ports: GrantContext,
): Promise<readonly Scope[]> {
  if (grant.isSuspended) throw refusedTarget(suspended('server'));
  const permitted = await permittedScopes(grant.scopes, { ...grant, client }, ports);
  if (permitted.outcome !== 'permitted') throw refusedTarget(wordsOf(permitted));
  const anywhere = [...new Set(grants.flatMap(({ scopes }) => scopes))];
  const asked = requestedScopes(withoutOpenIdScopes(form.get('scope')), anywhere);
  const scopes = asked.filter((scope) => permitted.scopes.includes(scope));
  if (scopes.length > 0) return scopes;
  throw new OAuthError('invalid_scope', 'the person cannot grant these scopes at this server');
}

function wordsOf({ outcome }: Exclude<Permitted, { outcome: 'permitted' }>): string {
  // These grants are valid again when the setting is changed back.
  if (outcome === 'closed') return suspended('self_registered');
  if (outcome === 'proxy-closed') return suspended('latchkey_proxy');
  return notPermittedWords[outcome];
}

/**
 * The part of the bundle that the access token is for; `undefined` for the list of servers.
 *
 * RFC 8707 §2.2
 *
 * @throws {OAuthError} `invalid_target`
 */
function requestedPart<Part extends { readonly serverPath: string }>(
  form: Form,
  { listsServers }: { readonly listsServers: boolean },
  parts: readonly Part[],
  { base, endpointUrl }: GrantContext,
): Part | undefined {
  const resource = form.get('resource');
  if (resource === undefined) {
    throw refusedTarget('name one of the granted resources with resource: a token is for one only');
  }
  if (listsServers && resource === serverListUrl(base)) return undefined;
  const part = parts.find(({ serverPath }) => endpointUrl(serverPath) === resource);
  if (part) return part;
  throw refusedTarget('resource is not among those that are granted');
}

function refusedTarget(why: string): OAuthError {
  return new OAuthError('invalid_target', why);
}

/** The tokens for the list of servers, which needs no scope. */
function listToken(bundle: GrantBundle, refreshToken: string, ports: GrantContext): Issued {
  const audience = serverListUrl(ports.base);
  return issuedFor(bundle, { refreshToken, audience }, ports);
}

async function reused(
  { bundleId }: IssuedBundleCode,
  clientId: string,
  ports: GrantContext,
): Promise<OAuthError> {
  await endReusedBundle(bundleId, { clientId, action: 'authorization-code.reuse' }, ports);
  return invalidCode('already used');
}

async function replayed({ id, clientId }: GrantBundle, ports: GrantContext): Promise<OAuthError> {
  await endReusedBundle(id, { clientId, action: 'refresh-token.reuse' }, ports);
  return invalidRefreshToken('already used');
}
