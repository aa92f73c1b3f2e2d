import type { Clock } from '#clock/clock';
import type { HttpClient } from '#http/http-client';
import { clientCredentialsGrant, type OAuthClient } from './client-credentials-grant.ts';
import { discover } from './discover.ts';
import { OAuthError } from './oauth-error.ts';

/** A token and what has to be remembered of where it came from. */
export type FetchedToken = {
  accessToken: string;
  obtainedAt: number;
  expiresAt?: number;
  issuer: string;
  published: boolean;
};

export type FetchClientTokenInput = {
  /** The MCP server's URL, exactly as configured. */
  url: string;
  credentials: OAuthClient & { issuer?: string };
  challenge?: string | undefined;
  /** The token before this one. */
  previous?: Pick<FetchedToken, 'issuer' | 'published'> | undefined;
};

/**
 * From an MCP server's URL and a client's secret to an access token. The secret never goes to
 * another authorization server than the last time, unless the user names that one.
 *
 * MCP 2026-07-28 authorization
 *
 * @throws {OAuthError}
 */
export async function fetchClientToken(
  { url, credentials, challenge, previous }: FetchClientTokenInput,
  { http, clock }: { http: HttpClient; clock: Clock },
): Promise<FetchedToken> {
  const { issuer } = credentials;
  const discovery = await discover(
    {
      url,
      ...(challenge !== undefined && { challenge }),
      ...(issuer !== undefined && { issuer }),
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
  const { accessToken, expiresInSeconds } = await clientCredentialsGrant(
    credentials,
    discovery,
    http,
  );
  const obtainedAt = clock.now();
  return {
    accessToken,
    obtainedAt,
    ...(expiresInSeconds !== undefined && { expiresAt: obtainedAt + expiresInSeconds }),
    issuer: discovery.issuer,
    published: discovery.published,
  };
}
