import type { Clock } from '#clock/clock';
import type { PersonCredentials } from '#config/connection';
import type { HttpClient } from '#transport/http-client';
import { discover } from './discover.ts';
import { tokenOf } from './fetched-token.ts';
import type { OAuthClient } from './oauth-client.ts';
import { OAuthError } from './oauth-error.ts';
import { refreshTokenGrant } from './refresh-token-grant.ts';
import type { Known } from './stored-token-source.ts';
import { TokenError } from './token-source.ts';
import type { Granted, TokenVault } from './token-vault.ts';
import { configuredClient, type ConfiguredClientPorts } from './configured-client.ts';
import type { RegisteredClients } from './registered-clients.ts';

export type PersonGrantPorts = ConfiguredClientPorts & {
  http: HttpClient;
  clock: Clock;
  vault: TokenVault;
  clients: RegisteredClients;
};

/**
 * The next token of a person who has signed in, by the refresh token. It goes to the issuer that gave
 * it and to no other. Called with the lock held.
 *
 * @throws {TokenError} `signed_out` when that person has to sign in anew
 * @throws {OAuthError}
 */
export async function personGrant(
  { url, credentials }: { url: string; credentials: PersonCredentials },
  { challenge, previous, wider }: Known,
  ports: PersonGrantPorts,
): Promise<Granted> {
  const { vault, http, clock } = ports;
  const kept = previous && (await vault.refresh(previous.issuer));
  if (!previous || !kept) throw new TokenError('signed_out', 'nobody is signed in');
  // A refresh token never brings more than it was given. RFC 6749 §6
  if (wider) throw new TokenError('signed_out', 'the sign-in does not cover what the server wants');
  const discovery = await discover(
    {
      url,
      ...(challenge !== undefined && { challenge }),
      ...(credentials.issuer !== undefined && { issuer: credentials.issuer }),
      ...(credentials.resource !== undefined && { resource: credentials.resource }),
      publishedBefore: previous.published,
    },
    http,
  );
  const { issuer } = discovery;
  if (issuer !== previous.issuer)
    throw new TokenError('signed_out', `${url} now trusts ${issuer}, not ${previous.issuer}`);

  let { refreshToken, clientId } = kept;
  for (;;) {
    try {
      const client = await clientNamed(clientId, issuer, url, credentials, ports);
      const granted = await refreshTokenGrant({ client, refreshToken }, discovery, ports);
      const refresh = { refreshToken: granted.refreshToken ?? refreshToken, clientId };
      const scope = granted.scope ?? previous.scope;
      const { signedInAs } = previous;
      return {
        ...tokenOf(granted, discovery, clock.now()),
        ...(scope !== undefined && { scope }),
        ...(signedInAs !== undefined && { signedInAs }),
        refresh,
      };
    } catch (error) {
      if (!(error instanceof OAuthError && error.details.error === 'invalid_grant')) throw error;
      // Somebody without our lock may have been quicker; then ours is not the one that counts.
      const now = await vault.refresh(issuer);
      if (!now || now.refreshToken === refreshToken) {
        await vault.dropRefresh(issuer, refreshToken);
        throw new TokenError('signed_out', `${issuer} has ended the sign-in`, { cause: error });
      }
      ({ refreshToken, clientId } = now);
    }
  }
}

/** The client that a refresh token was given to; the token is worth nothing to another. */
export async function clientNamed(
  clientId: string,
  issuer: string,
  url: string,
  credentials: PersonCredentials,
  ports: ConfiguredClientPorts & { clients: RegisteredClients },
): Promise<OAuthClient> {
  if (credentials.clientId === clientId) {
    const configured = await configuredClient(url, credentials, ports);
    if (configured?.boundIssuer !== undefined && configured.boundIssuer !== issuer)
      throw new OAuthError('issuer', `the stored secret belongs to ${configured.boundIssuer}`, {
        endpoint: issuer,
      });
    if (configured) return configured;
  }
  const registered = await ports.clients.of(issuer);
  return registered?.clientId === clientId ? registered : { clientId };
}
