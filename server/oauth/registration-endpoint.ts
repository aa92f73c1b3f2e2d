import { z } from 'zod';

import type { Clock, EpochSeconds } from '#clock/clock';
import { checkRedirectUri, isPrivateScheme } from '#credentials/redirect-uri';
import { formatScopes, ordinaryScopes } from '#credentials/scope';
import { hashSecret, mintSecret, randomBase62, secretHint } from '#credentials/secret-format';
import type { OAuthClientStore } from '#credentials/oauth-client';
import { OAuthRefusal } from './oauth-refusal.ts';
import { isWebAddress } from './web-address.ts';

export interface RegistrationEndpointPorts {
  readonly clients: Pick<OAuthClientStore, 'add'>;
  readonly clock: Clock;
}

/** What a client that registered itself is told. RFC 7591 §3.2.1 */
export interface Registration {
  readonly client_id: string;
  readonly client_id_issued_at: EpochSeconds;
  readonly client_secret?: string;
  /** 0: the secret does not expire. */
  readonly client_secret_expires_at?: number;
  readonly client_name: string;
  readonly redirect_uris: readonly string[];
  readonly grant_types: readonly string[];
  readonly response_types: readonly string[];
  readonly token_endpoint_auth_method: string;
  readonly scope: string;
}

const maxNameLength = 200;
const webAddress = z.string().refine(isWebAddress, 'must be an https URL').optional();

const metadataSchema = z.looseObject({
  redirect_uris: z.array(z.string().max(2000)).min(1).max(20),
  client_name: z.string().max(maxNameLength).default('An application without a name'),
  grant_types: z.array(z.enum(['authorization_code', 'refresh_token'])).optional(),
  response_types: z.array(z.literal('code')).optional(),
  token_endpoint_auth_method: z
    .enum(['none', 'client_secret_basic', 'client_secret_post'])
    .default('client_secret_basic'),
  client_uri: webAddress,
  logo_uri: webAddress,
  tos_uri: webAddress,
  policy_uri: webAddress,
});

/**
 * `POST /api/oauth/register`: makes a client of whoever asks. It belongs to no server, may have the
 * ordinary scopes at most, and can do nothing before a person lets it.
 *
 * RFC 7591 §3
 *
 * @throws {OAuthRefusal} `invalid_client_metadata`, `invalid_redirect_uri`
 */
export async function registrationEndpoint(
  body: unknown,
  { clients, clock }: RegistrationEndpointPorts,
): Promise<Registration> {
  const { success, data, error } = metadataSchema.safeParse(body);
  if (!success) {
    const [issue] = error.issues;
    const member = issue?.path[0];
    const where = typeof member === 'string' && /^\w{1,40}$/.test(member) ? `${member} ` : '';
    throw new OAuthRefusal('invalid_client_metadata', `${where}is not what it must be`);
  }
  for (const uri of data.redirect_uris) {
    const problem =
      checkRedirectUri(uri) ??
      (isPrivateScheme(uri) ? 'must be https or http on loopback' : undefined);
    if (problem === undefined) continue;
    throw new OAuthRefusal('invalid_redirect_uri', `a redirect URI ${problem}`);
  }
  const { client_name: name, redirect_uris: redirectUris } = data;
  const isPublic = data.token_endpoint_auth_method === 'none';
  const secret = isPublic ? undefined : mintSecret('secret_');
  const id = `client_${randomBase62(24)}`;
  const createdAt = clock.now();
  await clients.add({
    id,
    name,
    serverId: undefined,
    scopes: ordinaryScopes,
    redirectUris,
    jwks: undefined,
    authenticationRequired: !isPublic,
    secretHash: secret === undefined ? undefined : hashSecret(secret),
    secretHint: secret === undefined ? undefined : secretHint(secret),
    createdAt,
  });
  return {
    client_id: id,
    client_id_issued_at: createdAt,
    ...(secret !== undefined && { client_secret: secret, client_secret_expires_at: 0 }),
    client_name: name,
    redirect_uris: redirectUris,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: data.token_endpoint_auth_method,
    scope: formatScopes(ordinaryScopes),
  };
}
