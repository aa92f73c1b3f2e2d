import { assertionAlgorithms } from './client-authentication.ts';
import { grantTypes } from './grants.ts';
import { identityAssertionProfile } from './identity-assertion-grant.ts';
import { allScopes, ordinaryScopes } from '#model/scopes';
import { serverListPath, serverListUrl } from '#model/server-list';

/** How applications that no administrator created become clients. */
export interface MetadataOptions {
  readonly dynamicRegistration?: boolean;
  /** Applications that support client metadata documents register only where these are not announced. */
  readonly announcesClientDocuments?: boolean;
}

/** `/.well-known/oauth-authorization-server`. RFC 8414 §2 */
export function authorizationServerMetadata(
  base: string,
  { dynamicRegistration = false, announcesClientDocuments = true }: MetadataOptions = {},
): object {
  const proofs = ['client_secret_basic', 'client_secret_post', 'private_key_jwt'];
  return {
    issuer: base,
    authorization_endpoint: `${base}/oauth/consent`,
    token_endpoint: `${base}/api/oauth/token`,
    token_endpoint_auth_methods_supported: ['none', ...proofs],
    token_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
    revocation_endpoint: `${base}/api/oauth/revoke`,
    revocation_endpoint_auth_methods_supported: ['none', ...proofs],
    revocation_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
    introspection_endpoint: `${base}/api/oauth/introspect`,
    introspection_endpoint_auth_methods_supported: proofs,
    introspection_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
    userinfo_endpoint: `${base}/api/oauth/userinfo`,
    ...(dynamicRegistration && { registration_endpoint: `${base}/api/oauth/register` }),
    jwks_uri: `${base}/.well-known/jwks.json`,
    scopes_supported: allScopes,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: grantTypes,
    authorization_grant_profiles_supported: [identityAssertionProfile],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    // Only people who signed in may learn which servers exist. RFC 9728 §4
    protected_resources: [serverListUrl(base)],
    ...(announcesClientDocuments && { client_id_metadata_document_supported: true }),
  };
}

/** The URL of the metadata of the list of a person's servers. RFC 9728 §3.1 */
export function serverListMetadataUrl(base: string): string {
  return `${base}/.well-known/oauth-protected-resource${serverListPath}`;
}

/** The URL of the metadata of the resource at `{organization}/{server}`. RFC 9728 §3.1 */
export function protectedResourceMetadataUrl(base: string, serverPath: string): string {
  return `${base}/.well-known/oauth-protected-resource/mcp/${serverPath}`;
}

/**
 * `/.well-known/oauth-protected-resource/mcp/{organization}/{server}`. Built from the path alone, so that it does not
 * reveal which servers exist. RFC 9728 §2
 */
export function protectedResourceMetadata(base: string, serverPath: string): object {
  return resourceMetadata(base, `${base}/mcp/${serverPath}`);
}

/** `/.well-known/oauth-protected-resource/api/my/servers`. Its scopes are those at the servers that the person chooses. */
export function serverListMetadata(base: string): object {
  return resourceMetadata(base, serverListUrl(base));
}

function resourceMetadata(base: string, resource: string): object {
  return {
    resource,
    authorization_servers: [base],
    scopes_supported: ordinaryScopes,
    bearer_methods_supported: ['header'],
  };
}
