import { allScopes, ordinaryScopes } from '#credentials/scope';

/** `/.well-known/oauth-authorization-server`. RFC 8414 §2 */
export function authorizationServerMetadata(base: string): object {
  const authMethods = ['client_secret_basic', 'client_secret_post'];
  return {
    issuer: base,
    token_endpoint: `${base}/api/oauth/token`,
    token_endpoint_auth_methods_supported: authMethods,
    revocation_endpoint: `${base}/api/oauth/revoke`,
    revocation_endpoint_auth_methods_supported: authMethods,
    jwks_uri: `${base}/.well-known/jwks.json`,
    scopes_supported: allScopes,
    response_types_supported: [],
    grant_types_supported: ['client_credentials'],
  };
}

/** Where the metadata of the resource at `{organization}/{server}` is. RFC 9728 §3.1 */
export function protectedResourceMetadataUrl(base: string, serverPath: string): string {
  return `${base}/.well-known/oauth-protected-resource/mcp/${serverPath}`;
}

/**
 * `/.well-known/oauth-protected-resource/mcp/{organization}/{server}`, built from the path alone, so
 * that it tells nobody which servers there are. RFC 9728 §2
 */
export function protectedResourceMetadata(base: string, serverPath: string): object {
  return {
    resource: `${base}/mcp/${serverPath}`,
    authorization_servers: [base],
    scopes_supported: ordinaryScopes,
    bearer_methods_supported: ['header'],
  };
}
