import { discoverAndRequestJwtAuthGrant } from '@modelcontextprotocol/client';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';

import { assertionProvider } from '#support/assertion-provider';

const audience = 'https://latchkey.example';
const resource = `${audience}/mcp/acme/sales`;

test('the provider of a company exchanges an ID token for an identity assertion, as the MCP SDK asks for it', async () => {
  await using company = await assertionProvider();
  company.register(audience, 'client_there');
  const { idToken } = await company.signIn('dana');
  const { jwtAuthGrant } = await discoverAndRequestJwtAuthGrant({
    idpUrl: company.issuer,
    audience,
    resource,
    idToken,
    clientId: company.clientId,
    clientSecret: company.clientSecret,
    scope: 'mcp:tools:read',
  });

  expect(decodeProtectedHeader(jwtAuthGrant).typ).toBe('oauth-id-jag+jwt');
  expect(decodeJwt(jwtAuthGrant)).toMatchObject({
    iss: company.issuer,
    sub: 'dana',
    aud: audience,
    client_id: 'client_there',
    email: 'dana@example.com',
    email_verified: true,
    resource,
    scope: 'mcp:tools:read',
  });
});

test('the provider of a company exchanges no subject token that it did not issue, and for no audience that it does not know', async () => {
  await using company = await assertionProvider();
  company.register(audience, 'client_there');
  const { idToken, refreshToken } = await company.signIn('dana');
  const exchange = async (but: Record<string, string>) => {
    const answer = await fetch(company.tokenEndpoint, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
        audience,
        resource,
        subject_token: idToken,
        subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
        client_id: company.clientId,
        client_secret: company.clientSecret,
        ...but,
      }),
    });
    return answer.json();
  };
  const refreshed = {
    subject_token: refreshToken,
    subject_token_type: 'urn:ietf:params:oauth:token-type:refresh_token',
  };

  expect(await exchange(refreshed)).toMatchObject({ token_type: 'N_A', expires_in: 300 });
  expect(await exchange({ subject_token: `${idToken}x` })).toMatchObject({
    error: 'invalid_grant',
  });
  expect(await exchange({ audience: 'https://other.example' })).toEqual({
    error: 'invalid_target',
  });
  company.refuse({ error: 'insufficient_user_authentication', max_age: 0 });
  expect(await exchange({})).toEqual({ error: 'insufficient_user_authentication', max_age: 0 });
  expect(company.exchanges).toHaveLength(4);
});
