import { findClient, type OAuthClient } from '#db/clients';
import { findBundleToken, listBundledGrants } from '#db/grant-bundles';
import { findRefreshToken, findGrant } from '#db/grants';
import { findUser } from '#db/people';
import { listUsableServers } from '#db/server-access';
import { findServer } from '#db/servers';
import { listNamedProviders } from '#db/vouching-providers';
import type { AccessTokenClaims, AccessTokens } from './access-tokens.ts';
import { identifyClient, provedClient, type ClientContext } from './client-authentication.ts';
import type { Form } from './forms.ts';
import { covers, mayUse } from './identity-assertion-grant.ts';
import { OAuthError } from './oauth-error.ts';
import { permittedScopes } from './permitted-scopes.ts';
import { isOwnComputer } from './redirect-uris.ts';
import { formatScopes, type Scope } from '#model/scopes';
import { serverListUrl } from '#model/server-list';
import { parseServerPath } from '#model/slug';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';

export interface IntrospectionEndpointPorts extends ClientContext {
  readonly tokens: AccessTokens;
  /** Whether the MCP endpoint that the token is for would accept it now. */
  readonly isAdmitted: (claims: AccessTokenClaims) => Promise<boolean>;
}

type Introspection = Readonly<Record<string, string | number | boolean | readonly string[]>>;

const inactive: Introspection = { active: false };

/**
 * `POST /api/oauth/introspect`: describes a token to the client that it was issued to. Every other client only learns
 * that the token is not active.
 *
 * RFC 7662 §2
 *
 * @throws {OAuthError} `invalid_request`, `invalid_client`
 */
export async function introspectionEndpoint(
  form: Form,
  authorization: string | undefined,
  ports: IntrospectionEndpointPorts,
): Promise<Introspection> {
  const client = provedClient(await identifyClient(form, authorization, ports));
  const token = form.get('token');
  if (token === undefined) throw new OAuthError('invalid_request', 'token is missing');
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
    ...(claims.scopes.length > 0 && { scope: formatScopes(claims.scopes) }),
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
  const { base, db, clock } = ports;
  const found = await findRefreshToken(db, hashSecret(token));
  if (!found) return bundleToken(token, client, ports);
  if (found.grant.clientId !== client.id || found.spentAt !== undefined) return inactive;
  const expiresAt = Math.min(found.expiresAt, found.grant.expiresAt);
  if (found.isSuspended || client.isSuspended) return inactive;
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

/** A refresh token for several servers: `aud` lists those that it is still for, `scope` the scopes that are permitted at any of them. */
async function bundleToken(
  token: string,
  client: OAuthClient,
  { base, db, clock }: IntrospectionEndpointPorts,
): Promise<Introspection> {
  const found = await findBundleToken(db, hashSecret(token));
  if (!found || found.bundle.clientId !== client.id || found.spentAt !== undefined) return inactive;
  const { bundle } = found;
  const expiresAt = Math.min(found.expiresAt, bundle.expiresAt);
  if (client.isSuspended || bundle.revokedAt !== undefined || expiresAt <= clock.now())
    return inactive;
  const audience: string[] = [];
  const scopes = new Set<Scope>();
  for (const grant of await listBundledGrants(db, bundle.id)) {
    const permitted = await permittedScopes(grant.scopes, { ...grant, client }, { db });
    if (permitted.outcome !== 'permitted' || grant.isSuspended) continue;
    audience.push(`${base}/mcp/${grant.serverPath}`);
    for (const scope of permitted.scopes) scopes.add(scope);
  }
  if (audience.length === 0) return inactive;
  if (bundle.listsServers) audience.push(serverListUrl(base));
  return {
    active: true,
    iss: base,
    sub: bundle.userId,
    aud: audience,
    client_id: client.id,
    scope: formatScopes(scopes),
    exp: expiresAt,
  };
}

export type UserinfoEndpointPorts = Omit<IntrospectionEndpointPorts, 'clock'>;

export interface Userinfo {
  readonly sub: string;
  readonly email?: string;
  /** A member of our own: the provider at which the proxy of this person signs in once for several servers. */
  readonly identity_provider?: NamedProvider;
}

interface NamedProvider {
  readonly issuer: string;
  readonly client_id: string;
  /** The URLs of the servers where its assertions are accepted, or the URL below which all accept them. */
  readonly servers: readonly string[];
}

/**
 * `GET /api/oauth/userinfo`: the person who granted this access token. A program on the person's own computer also
 * gets their e-mail address, to show who is signed in and to expose a swapped sign-in, and the identity provider of the
 * organization, if it vouches for people to this client. A web application gets neither,
 * because the consent page did not mention it. `undefined` unless a person's valid token was sent.
 *
 * OpenID Connect Core 1.0 §5.3
 */
export async function userinfoEndpoint(
  authorization: string | undefined,
  { base, tokens, db, isAdmitted }: UserinfoEndpointPorts,
): Promise<Userinfo | undefined> {
  const token = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) return undefined;
  const verdict = await tokens.verify(token);
  if (verdict.outcome === 'invalid' || verdict.claims.grantId === undefined) return undefined;
  const { claims } = verdict;
  if (!(await isAdmitted(claims))) return undefined;
  const [grant, user] = await Promise.all([
    findGrant(db, verdict.claims.grantId).then(
      async (one) => one ?? (await listBundledGrants(db, claims.grantId ?? ''))[0],
    ),
    findUser(db, claims.subject),
  ]);
  if (!grant || !user) return undefined;
  if (!isOwnComputer(grant.redirectHost)) return { sub: user.id };
  const { id: sub, email } = user;
  const place = parseServerPath(grant.serverPath);
  const client = await findClient(db, claims.clientId);
  const named = place && client && (await namedProvider(user, client, place, { base, db }));
  return { sub, email, ...(named && { identity_provider: named }) };
}

/** How many servers of a person are looked at, and how many the proxy remembers. */
const mostUsable = 1000;
const mostServers = 20;

/** The provider that vouches for this person to this client at this server, and the servers of the person where it does so. */
async function namedProvider(
  user: { readonly id: string; readonly email: string },
  client: OAuthClient,
  { organization, server }: { readonly organization: string; readonly server: string },
  { base, db }: Pick<UserinfoEndpointPorts, 'base' | 'db'>,
): Promise<NamedProvider | undefined> {
  const providers = await listNamedProviders(db, organization, user);
  const candidates = providers.filter((provider) => mayUse(client, provider));
  if (candidates.length === 0) return undefined;
  const here = await findServer(db, organization, server);
  const provider = here && candidates.find((candidate) => covers(candidate, here.id));
  if (!provider) return undefined;
  const { issuer, nativeClientId: client_id, assertionServers } = provider;
  const under = `${base}/mcp/${organization}`;
  if (assertionServers.length === 0) return { issuer, client_id, servers: [under] };
  const usable = await listUsableServers(db, user.id, organization, mostUsable);
  const others = usable.filter(({ id }) => id !== here.id && assertionServers.includes(id));
  const names = [here, ...others].slice(0, mostServers).map(({ name }) => name);
  return { issuer, client_id, servers: names.map((name) => `${under}/${name}`) };
}
