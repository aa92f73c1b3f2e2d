import { z } from 'zod';

import type { EpochSeconds } from '#model/clock';
import { insertClient } from '#db/clients';
import type { ClientContext } from './client-authentication.ts';
import { selfRegisteredGrantTypes } from './grants.ts';
import { OAuthError } from './oauth-error.ts';
import { checkRedirectUri, isPrivateScheme, isWebAddress } from './redirect-uris.ts';
import { formatScopes, ordinaryScopes } from '#model/scopes';
import { hashSecret, mintSecret, randomBase62, secretHint } from '#secrets/secrets';

export type RegistrationEndpointPorts = Pick<ClientContext, 'db' | 'clock'>;

/** The response to a client that registered itself. RFC 7591 §3.2.1 */
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
  client_name: z.string().max(maxNameLength).default('Unnamed application'),
  grant_types: z.array(z.enum(selfRegisteredGrantTypes)).optional(),
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
 * `POST /api/oauth/register`: registers a client without authentication. It belongs to no server, gets the ordinary
 * scopes at most, and can do nothing until a person consents.
 *
 * RFC 7591 §3
 *
 * @throws {OAuthError} `invalid_client_metadata`, `invalid_redirect_uri`
 */
export async function registrationEndpoint(
  body: unknown,
  { db, clock }: RegistrationEndpointPorts,
): Promise<Registration> {
  const { success, data, error } = metadataSchema.safeParse(body);
  if (!success) {
    const [issue] = error.issues;
    const member = issue?.path[0];
    const where = typeof member === 'string' && /^\w{1,40}$/.test(member) ? `${member} ` : '';
    throw new OAuthError('invalid_client_metadata', `${where}is invalid`);
  }
  for (const uri of data.redirect_uris) {
    const problem =
      checkRedirectUri(uri) ??
      (isPrivateScheme(uri) ? 'must be https or http on loopback' : undefined);
    if (problem === undefined) continue;
    throw new OAuthError('invalid_redirect_uri', `a redirect URI ${problem}`);
  }
  const { client_name: name, redirect_uris: redirectUris } = data;
  const isPublic = data.token_endpoint_auth_method === 'none';
  const secret = isPublic ? undefined : mintSecret('secret_');
  const id = `client_${randomBase62(24)}`;
  const createdAt = clock.now();
  await insertClient(db, {
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
    grant_types: selfRegisteredGrantTypes,
    response_types: ['code'],
    token_endpoint_auth_method: data.token_endpoint_auth_method,
    scope: formatScopes(ordinaryScopes),
  };
}
