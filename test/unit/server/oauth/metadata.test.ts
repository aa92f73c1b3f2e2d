import { expect, test } from 'vitest';
import {
  authorizationServerMetadata,
  protectedResourceMetadata,
  protectedResourceMetadataUrl,
} from '#server/oauth/metadata';

const base = 'https://latchkey.example.com';

test('the metadata of the authorization server names its endpoints under its own issuer', () => {
  expect(authorizationServerMetadata(base)).toMatchObject({
    issuer: base,
    token_endpoint: `${base}/api/oauth/token`,
    revocation_endpoint: `${base}/api/oauth/revoke`,
    jwks_uri: `${base}/.well-known/jwks.json`,
    token_endpoint_auth_methods_supported: expect.arrayContaining([
      'client_secret_basic',
      'client_secret_post',
    ]),
    grant_types_supported: expect.arrayContaining([
      'client_credentials',
      'urn:ietf:params:oauth:grant-type:jwt-bearer',
    ]),
    // Without this member, clients fall back to asking each person.
    authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
    scopes_supported: [
      'mcp:tools:read',
      'mcp:tools:execute',
      'mcp:resources:read',
      'mcp:server:read',
      'mcp:server:manage',
    ],
  });
});

test('the metadata of the authorization server announces client metadata documents unless they are turned off', () => {
  const isolated = { announcesClientDocuments: false, dynamicRegistration: true };

  expect(authorizationServerMetadata(base)).toMatchObject({
    client_id_metadata_document_supported: true,
  });
  expect(authorizationServerMetadata(base, isolated)).not.toHaveProperty(
    'client_id_metadata_document_supported',
  );
  expect(authorizationServerMetadata(base, isolated)).toMatchObject({
    registration_endpoint: `${base}/api/oauth/register`,
  });
});

test('the metadata of a resource names the one authorization server and its ordinary scopes', () => {
  expect(protectedResourceMetadata(base, 'acme/sales')).toEqual({
    resource: `${base}/mcp/acme/sales`,
    authorization_servers: [base],
    scopes_supported: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'],
    bearer_methods_supported: ['header'],
  });
});

test('the metadata of a resource is at the well-known path before its own', () => {
  expect(protectedResourceMetadataUrl(base, 'acme/sales')).toBe(
    `${base}/.well-known/oauth-protected-resource/mcp/acme/sales`,
  );
});
