import type { Clock } from '#clock/clock';
import type { ClientCredentials } from '#config/connection';
import type { HttpClient } from '#transport/http-client';
import { fetchClientToken } from './fetch-client-token.ts';
import { OAuthError } from './oauth-error.ts';
import type { Known } from './stored-token-source.ts';
import type { Granted } from './token-vault.ts';
import { bindSecret, configuredClient, type ConfiguredClientPorts } from './configured-client.ts';

export type ClientGrantPorts = ConfiguredClientPorts & { http: HttpClient; clock: Clock };

/**
 * A token for the client itself. A secret from the keychain goes to the issuer that it went to the
 * first time; `rebind` is the user's word that another one is right.
 *
 * @throws {OAuthError}
 */
export async function clientGrant(
  { url, credentials }: { url: string; credentials: ClientCredentials },
  { challenge, previous, wider }: Known,
  ports: ClientGrantPorts,
  rebind = false,
): Promise<Granted> {
  const client = await configuredClient(url, credentials, ports);
  if (!client) throw new OAuthError('client', 'there is no client id', { endpoint: url });
  const { boundIssuer, ...plain } = client;
  const { scopes, issuer, resource } = credentials;
  const bound =
    boundIssuer === undefined || rebind
      ? previous
      : { published: false, ...previous, issuer: boundIssuer };
  const token = await fetchClientToken(
    {
      url,
      credentials: {
        ...plain,
        ...(scopes && { scopes }),
        ...(issuer && { issuer }),
        ...(resource !== undefined && { resource }),
      },
      challenge,
      previous: bound,
      wider,
    },
    ports,
  );
  if (credentials.clientSecret === 'keychain')
    await bindSecret(url, client, token.issuer, ports.store);
  return token;
}
