import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { z } from 'zod';
import { bodyOf, countedServer, type CountedServer } from './counted-server.ts';

const idJagProfile = 'urn:ietf:params:oauth:grant-profile:id-jag';
const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

export interface ManagedFrontOptions {
  /** The provider whose assertions the front accepts, and the URL of that provider's keys. */
  readonly provider: { readonly issuer: string; readonly jwksUri: string };
  /** Whether the front announces and accepts assertions; `false`: it has no grant at all. */
  readonly accepts?: () => boolean;
  /** Whether a person gets no access. */
  readonly refuses?: (login: string) => boolean;
}

/** Endpoints behind one authorization server that knows people only from assertions of a company's provider. */
export interface ManagedFront extends CountedServer {
  url(name: string): string;
  readonly clientId: string;
  /** The people that got a token, each with the endpoint, in order. */
  readonly admitted: readonly { login: string; resource: string }[];
  /** Revokes every token issued so far. */
  revokeAll(): void;
}

export async function managedFront(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
  { provider, accepts = () => true, refuses = () => false }: ManagedFrontOptions,
): Promise<ManagedFront> {
  const keys = createRemoteJWKSet(new URL(provider.jwksUri));
  const valid = new Map<string, string>();
  const admitted: { login: string; resource: string }[] = [];
  const used = new Set<string>();

  /** Checks what the profile demands and issues a token; throws the reason for a refusal. */
  const grant = async (form: URLSearchParams) => {
    const resource = form.get('resource') ?? '';
    const { payload } = await jwtVerify(form.get('assertion') ?? '', keys, {
      issuer: provider.issuer,
      audience: server.origin,
      typ: 'oauth-id-jag+jwt',
    });
    const claims = claimsSchema.parse(payload);
    if (claims.client_id !== form.get('client_id') || claims.resource !== resource)
      throw new Error('another client or endpoint');
    if (used.has(claims.jti) || refuses(claims.sub)) throw new Error('not for you');
    used.add(claims.jti);
    admitted.push({ login: claims.sub, resource });
    const token = `token-${randomBytes(12).toString('hex')}`;
    valid.set(token, resource);
    return token;
  };

  const server = await countedServer(async (request, response) => {
    const { origin } = server;
    const path = request.url ?? '';
    const send = (status: number, value: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(value));
    };
    const metadata = '/.well-known/oauth-protected-resource';
    if (path.startsWith(metadata))
      return send(200, {
        resource: `${origin}${path.slice(metadata.length)}`,
        authorization_servers: [origin],
      });
    if (path === '/.well-known/oauth-authorization-server')
      return send(200, {
        issuer: origin,
        token_endpoint: `${origin}/token`,
        token_endpoint_auth_methods_supported: ['none'],
        code_challenge_methods_supported: ['S256'],
        client_id_metadata_document_supported: true,
        ...(accepts() && {
          grant_types_supported: [jwtBearer],
          authorization_grant_profiles_supported: [idJagProfile],
        }),
      });
    if (path === '/oauth/clients/latchkey.json')
      return send(200, {
        client_id: `${origin}${path}`,
        redirect_uris: ['http://127.0.0.1/callback'],
      });
    if (path === '/token') {
      const form = new URLSearchParams(await bodyOf(request));
      if (form.get('grant_type') !== jwtBearer || !accepts())
        return send(400, { error: 'unsupported_grant_type' });
      try {
        const token = await grant(form);
        return send(200, { access_token: token, token_type: 'Bearer', expires_in: 3600 });
      } catch (error) {
        const why = error instanceof Error ? error.message : '';
        return send(400, { error: 'invalid_grant', error_description: why });
      }
    }
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    if (valid.get(token) === `${origin}${path}`) return handle(request, response);
    const challenge = `Bearer resource_metadata="${origin}${metadata}${path}"`;
    return send(401, { error: 'invalid_token' }, { 'www-authenticate': challenge });
  });

  return Object.assign(server, {
    url: (name: string) => `${server.origin}/mcp/acme/${name}`,
    clientId: `${server.origin}/oauth/clients/latchkey.json`,
    admitted,
    revokeAll: () => valid.clear(),
  });
}

const claimsSchema = z.object({
  sub: z.string(),
  client_id: z.string(),
  resource: z.string(),
  jti: z.string(),
});
