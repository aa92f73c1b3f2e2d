import { expect, test } from 'vitest';
import { registerClient } from '#proxy/auth/client-registration';
import type { Discovery } from '#proxy/auth/discovery';
import { words } from '#proxy/errors';
import { web } from '#support/web';

const issuer = 'https://cloud.example.com';
const registrationEndpoint = `${issuer}/register`;
const asked = { redirectUri: 'http://127.0.0.1:1234/callback', scopes: undefined };
const discovery: Discovery = {
  issuer,
  parameters: { resource: `${issuer}/mcp` },
  within: 'public',
  registrationEndpoint,
  authorizationEndpoint: issuer,
  tokenEndpoint: issuer,
  tokenEndpointAuthMethods: ['none'],
  takesS256: true,
  sendsIssuer: false,
  takesMetadataUrls: false,
  published: true,
};

test('client registration: a refusal contains the server’s reason, and suggests to request a client ID', async () => {
  const json = { error: 'invalid_redirect_uri', error_description: 'only https here' };
  const { http } = web({ [registrationEndpoint]: { status: 400, json } });
  const refused: unknown = await registerClient(asked, discovery, http).catch(
    (error: unknown) => error,
  );

  const { message, hint } = words(refused);
  expect(message).toContain(
    `${registrationEndpoint} answered 400 (invalid_redirect_uri: only https here)`,
  );
  expect(hint).toContain('ask the administrator of the server for it');
});
