import type { EpochSeconds } from '#clock/clock';
import type { AuthorizationServer } from './authorization-server.ts';
import type { OAuthClient } from './oauth-client.ts';
import { OAuthError } from './oauth-error.ts';

type Proof = { form: Record<string, string>; headers: Record<string, string> };

/**
 * What a request to an endpoint of `server` carries to say who asks. A secret goes where the server
 * wants it, and nowhere when it wants none.
 *
 * RFC 6749 §2.3.1, RFC 7523 §2.2
 *
 * @throws {OAuthError} `metadata` when the server takes nothing that this client has
 */
export async function authenticateClient(
  client: OAuthClient,
  server: Pick<AuthorizationServer, 'issuer' | 'tokenEndpoint' | 'tokenEndpointAuthMethods'>,
  now: EpochSeconds,
): Promise<Proof> {
  const { clientId, clientSecret } = client;
  switch (chooseMethod(client, server)) {
    case 'private_key_jwt': {
      const { clientAssertion } = await import('./client-assertion.ts');
      const key = await client.privateKey?.();
      if (!key) break;
      return {
        form: {
          client_id: clientId,
          client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
          client_assertion: clientAssertion({ clientId, key }, server.issuer, now),
        },
        headers: {},
      };
    }
    case 'client_secret_basic':
      return { form: {}, headers: { authorization: basic(clientId, clientSecret ?? '') } };
    case 'client_secret_post':
      return { form: { client_id: clientId, client_secret: clientSecret ?? '' }, headers: {} };
    case 'none':
      return { form: { client_id: clientId }, headers: {} };
    case undefined:
  }
  const endpoint = server.tokenEndpoint;
  const lacks = client.privateKey ? 'private key' : 'client secret';
  throw new OAuthError('metadata', `${endpoint} takes no ${lacks}`, { endpoint });
}

const secretMethods = ['client_secret_basic', 'client_secret_post'] as const;
type Method = (typeof secretMethods)[number] | 'private_key_jwt' | 'none';

function chooseMethod(
  { privateKey, clientSecret, authMethod }: OAuthClient,
  { tokenEndpointAuthMethods: methods }: Pick<AuthorizationServer, 'tokenEndpointAuthMethods'>,
): Method | undefined {
  // A server that names no such method may still take one that it was told of.
  if (privateKey) return 'private_key_jwt';
  if (clientSecret === undefined || authMethod === 'none') return 'none';
  const agreed = secretMethods.find((method) => method === authMethod);
  const announced = secretMethods.find((method) => methods.includes(method));
  return agreed ?? announced;
}

function basic(clientId: string, clientSecret: string): string {
  const encode = (text: string) => new URLSearchParams({ '': text }).toString().slice(1);
  return `Basic ${Buffer.from(`${encode(clientId)}:${encode(clientSecret)}`).toString('base64')}`;
}
