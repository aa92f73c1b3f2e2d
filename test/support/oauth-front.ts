import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bodyOf, countedServer, type CountedServer } from '#support/counted-server';

export type OAuthFront = CountedServer & {
  /** The guarded MCP endpoint. */
  url: string;
  client: { clientId: string; clientSecret: string; scopes: string[] };
  /** The form of every token request, in order. */
  tokenRequests: URLSearchParams[];
  /** Revokes every token issued so far. */
  revokeAll(): void;
};

export type OAuthFrontOptions = {
  expiresInSeconds?: number;
  /** Whether there is metadata; without it there is only the token endpoint at its unpublished place. */
  published?: boolean;
  authMethods?: string[];
};

/**
 * A small authorization server and the guard of one MCP endpoint behind it: metadata, the client
 * credentials grant, API keys, 401 with a challenge.
 */
export async function oauthFront(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
  options: OAuthFrontOptions = {},
): Promise<OAuthFront> {
  const {
    expiresInSeconds = 3600,
    published = true,
    authMethods = ['client_secret_basic'],
  } = options;
  const client = {
    clientId: 'client_0123456789abcdefghijABCD',
    clientSecret: `secret_${'s'.repeat(36)}`,
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
  };
  const apiKey = `mcp_${'k'.repeat(36)}`;
  const valid = new Set<string>();
  const tokenRequests: URLSearchParams[] = [];
  const path = '/mcp/acme/sales';

  const server = await countedServer(async (request, response) => {
    const { origin } = server;
    const send = (status: number, value: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(value));
    };
    const metadata = `${origin}/.well-known/oauth-protected-resource${path}`;
    if (published && request.url === new URL(metadata).pathname)
      return send(200, { resource: `${origin}${path}`, authorization_servers: [origin] });
    if (published && request.url === '/.well-known/oauth-authorization-server')
      return send(200, {
        issuer: origin,
        token_endpoint: `${origin}/api/oauth/token`,
        token_endpoint_auth_methods_supported: authMethods,
      });
    if (request.url === '/api/oauth/token') {
      const form = new URLSearchParams(await bodyOf(request));
      tokenRequests.push(form);
      const { clientId, clientSecret } = client;
      const basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`;
      const authenticated =
        request.headers.authorization === basic ||
        (form.get('client_id') === clientId && form.get('client_secret') === clientSecret);
      if (!authenticated) return send(401, { error: 'invalid_client', error_description: 'no' });
      const token = `token-${randomBytes(12).toString('hex')}`;
      valid.add(token);
      return send(200, {
        access_token: token,
        token_type: 'Bearer',
        expires_in: expiresInSeconds,
        scope: form.get('scope'),
      });
    }
    if (request.url !== path) return send(404, { error: 'not_found' });
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    if (!valid.has(token) && request.headers['x-api-key'] !== apiKey)
      return send(
        401,
        { error: 'invalid_token' },
        { 'www-authenticate': published ? `Bearer resource_metadata="${metadata}"` : 'Bearer' },
      );
    return handle(request, response);
  });

  return Object.assign(server, {
    url: `${server.origin}${path}`,
    client,
    tokenRequests,
    revokeAll: () => valid.clear(),
  });
}
