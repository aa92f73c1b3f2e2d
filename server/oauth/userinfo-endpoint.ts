import type { UserStore } from '#people/user';
import type { AccessTokenClaims, AccessTokens } from '#signing/access-token';
import type { GrantStore } from './grant-store.ts';

export interface UserinfoEndpointPorts {
  readonly tokens: AccessTokens;
  readonly grants: Pick<GrantStore, 'byId'>;
  readonly users: Pick<UserStore, 'byId'>;
  /** Whether the MCP endpoint that the token is for would let it in now. */
  readonly isAdmitted: (claims: AccessTokenClaims) => Promise<boolean>;
}

export interface Userinfo {
  readonly sub: string;
  readonly email?: string;
}

const ownComputer = new Set(['127.0.0.1', '[::1]', 'localhost']);

/**
 * `GET /api/oauth/userinfo`: who granted what this access token is for. A program on the person's own computer
 * gets their e-mail address, so that it can say who is signed in, and a swapped sign-in shows; an application
 * elsewhere was not promised it on the consent page. `undefined` when no person's valid token was sent.
 *
 * OpenID Connect Core 1.0 §5.3
 */
export async function userinfoEndpoint(
  authorization: string | undefined,
  { tokens, grants, users, isAdmitted }: UserinfoEndpointPorts,
): Promise<Userinfo | undefined> {
  const token = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) return undefined;
  const verdict = await tokens.verify(token);
  if (verdict.outcome === 'invalid' || verdict.claims.grantId === undefined) return undefined;
  const { claims } = verdict;
  if (!(await isAdmitted(claims))) return undefined;
  const [grant, user] = await Promise.all([
    grants.byId(verdict.claims.grantId),
    users.byId(claims.subject),
  ]);
  if (!grant || !user) return undefined;
  return { sub: user.id, ...(ownComputer.has(grant.redirectHost) && { email: user.email }) };
}
