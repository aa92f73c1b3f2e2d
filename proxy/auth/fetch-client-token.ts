import type { Clock } from '#clock/clock';
import type { HttpClient } from '#transport/http-client';
import { clientCredentialsGrant } from './client-credentials-grant.ts';
import { discover } from './discover.ts';
import type { OAuthClient } from './oauth-client.ts';
import { OAuthError } from './oauth-error.ts';
import { tokenOf, type FetchedToken } from './fetched-token.ts';

export type FetchClientTokenInput = {
  /** The MCP server's URL, exactly as configured. */
  url: string;
  credentials: OAuthClient & {
    scopes?: readonly string[];
    issuer?: string;
    resource?: string;
  };
  challenge?: string | undefined;
  /** The token before this one. */
  previous?: Pick<FetchedToken, 'issuer' | 'published' | 'scope'> | undefined;
  /** Ask for what the challenge names besides what there was. */
  wider?: boolean;
};

/**
 * From an MCP server's URL and a client's secret or key to an access token. The secret never goes to
 * another authorization server than the last time, unless the user names that one.
 *
 * MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function fetchClientToken(
  { url, credentials, challenge, previous, wider = false }: FetchClientTokenInput,
  { http, clock }: { http: HttpClient; clock: Clock },
): Promise<FetchedToken> {
  const { issuer, scopes, resource, ...client } = credentials;
  const discovery = await discover(
    {
      url,
      ...(challenge !== undefined && { challenge }),
      ...(issuer !== undefined && { issuer }),
      ...(resource !== undefined && { resource }),
      publishedBefore: previous?.published ?? false,
    },
    http,
  );
  if (previous && issuer === undefined && previous.issuer !== discovery.issuer)
    throw new OAuthError(
      'issuer',
      `${url} now trusts ${discovery.issuer}, until now it was ${previous.issuer}`,
      { endpoint: url },
    );
  const before = [...(scopes ?? []), ...(previous?.scope?.split(' ') ?? [])];
  const asked = wider ? [...new Set([...before, ...(discovery.challengedScopes ?? [])])] : scopes;
  const granted = await clientCredentialsGrant({ client, scopes: asked }, discovery, {
    http,
    clock,
  });
  return tokenOf(granted, discovery, clock.now());
}
