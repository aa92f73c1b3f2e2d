import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';

import { createRemoteJWKSet, jwtVerify, type JWTPayload } from 'jose';
import { errors, Provider } from 'oidc-provider';
import { z } from 'zod';

import { listen } from './loopback.ts';
import { consentAt } from './provider-consent.ts';

const clientId = 'latchkey-there';
const clientSecret = 'the secret of latchkey at the upstream';

export interface TokenUpstreamOptions {
  /** How long its access tokens live. */
  readonly tokenSeconds?: number;
  /** The redirect URIs of Latchkey's client. */
  readonly redirectUris?: readonly string[];
  /** Whether its authorization server refuses `resource`, as one that does not know RFC 8707 does. */
  readonly refusesResource?: boolean;
  /** Whether its authorization server takes registrations. RFC 7591 */
  readonly registers?: boolean;
  /** Whether a refresh token is valid once, and a second use revokes everything issued from it. RFC 9700 §4.14.2 */
  readonly rotates?: boolean;
  /** Whether its authorization server accepts authorization requests only if the client has pushed them. RFC 9126 */
  readonly requiresPushedRequests?: boolean;
}

/** A call as the MCP server saw it: who called what. */
export interface SeenCall {
  readonly method: string;
  readonly tool: string | undefined;
  readonly authorization: string | undefined;
  readonly caller: string | undefined;
  readonly subject: string | undefined;
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
}

/**
 * An MCP server that requires a token of its own, third-party authorization server: oidc-provider. Its tool `whoami`
 * says whose token the call had, `write` needs a scope that no account has; its one resource belongs to that account.
 */
export interface TokenUpstream extends AsyncDisposable {
  /** `http://127.0.0.1:PORT/mcp` */
  readonly url: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly seen: SeenCall[];
  /** The `POST` requests to `/token` and below, as they came. */
  readonly asked: { readonly path: string; readonly body: string; readonly answer: string }[];
  /** Every token that the authorization server has issued. */
  readonly issued: Set<string>;
  /** Registrations that were deleted: path and status. RFC 7592 */
  readonly deleted: string[];
  /** Runs `act` once, after the next answer of the token endpoint is made and before it is sent. */
  beforeAnswer(act: () => Promise<void>): void;
  /** Refuses a token from now on, as a server does after it revoked the token. */
  refuse(accessToken: string): void;
  /** Sets whether the token endpoint answers only 503. */
  breakTokens(isBroken: boolean): void;
  /** Signs in and consents at the authorization server as a person in a browser; the URL to which it redirects. */
  consent(page: string, login: string): Promise<URL>;
}

export async function tokenUpstream({
  tokenSeconds = 3600,
  redirectUris = ['http://127.0.0.1/callback'],
  refusesResource = false,
  registers = false,
  rotates = false,
  requiresPushedRequests = false,
}: TokenUpstreamOptions = {}): Promise<TokenUpstream> {
  const seen: SeenCall[] = [];
  const asked: { path: string; body: string; answer: string }[] = [];
  const issued = new Set<string>();
  const deleted: string[] = [];
  let atAnswer: (() => Promise<void>) | undefined;
  const refused = new Set<string>();
  let isBroken = false;

  let listener: (request: IncomingMessage, response: ServerResponse) => void = () => {};
  const authorization = createServer((request, response) => listener(request, response));
  const issuer = `http://127.0.0.1:${await listen(authorization)}`;
  const mcp = createServer((request, response) => void answer(request, response));
  const origin = `http://127.0.0.1:${await listen(mcp)}`;
  const url = `${origin}/mcp`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [...redirectUris],
        grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
        response_types: ['code'],
      },
    ],
    scopes: ['offline_access', 'read', 'write'],
    ttl: { RefreshToken: 86_400, Grant: 86_400, Session: 86_400, Interaction: 3600 },
    features: {
      clientCredentials: { enabled: true },
      revocation: { enabled: true },
      ...(requiresPushedRequests && {
        pushedAuthorizationRequests: { enabled: true, requirePushedAuthorizationRequests: true },
      }),
      ...(registers && {
        registration: { enabled: true },
        registrationManagement: { enabled: true },
      }),
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        defaultResource: () => url,
        getResourceServerInfo: (context: Asking, resource: string) => {
          const { oidc, href } = context;
          const named = oidc.body?.['resource'] ?? new URL(href).searchParams.get('resource');
          if (refusesResource && named !== null) throw new errors.InvalidTarget();
          return {
            scope: 'read write',
            audience: resource,
            accessTokenTTL: tokenSeconds,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          };
        },
      },
    },
    pkce: { required: () => true },
    ...(rotates && { rotateRefreshToken: true }),
    findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
  });
  provider.use(async (context, next) => {
    await next();
    const { path, method, oidc, body } = context;
    if (method === 'DELETE') deleted.push(`${path} ${context.status}`);
    if (method !== 'POST' || !path.startsWith('/token')) return;
    const answered = JSON.stringify(body ?? '');
    asked.push({ path, body: new URLSearchParams(oidc?.body).toString(), answer: answered });
    const hold = atAnswer;
    atAnswer = undefined;
    await hold?.();
    for (const [, token = ''] of answered.matchAll(/"(?:access|refresh)_token":"([^"]+)"/g)) {
      issued.add(token);
    }
  });
  const serveAuthorization = provider.callback();
  listener = (request, response) => {
    if (isBroken && request.url?.startsWith('/token')) return void response.writeHead(503).end();
    return serveAuthorization(request, response);
  };
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));
  const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;
  const challenge = `Bearer resource_metadata="${metadata}", scope="read"`;

  async function claimsOf(token: string | undefined): Promise<JWTPayload | undefined> {
    if (token === undefined || refused.has(token)) return undefined;
    try {
      return (await jwtVerify(token, keys, { issuer, audience: url })).payload;
    } catch {
      return undefined;
    }
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const json = (status: number, body: object, headers: Record<string, string> = {}) =>
      response
        .writeHead(status, { 'content-type': 'application/json', ...headers })
        .end(JSON.stringify(body));
    if (request.url === '/.well-known/oauth-protected-resource/mcp') {
      const scopes = ['read', 'write'];
      const about = { resource: url, authorization_servers: [issuer], scopes_supported: scopes };
      return void json(200, about);
    }
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = messageSchema.parse(JSON.parse(await text(request)));
    const { authorization: header, 'latchkey-caller': caller } = request.headers;
    const claims = await claimsOf(header?.replace(/^Bearer /, ''));
    const tool = params?.name;
    const status = !claims ? 401 : tool === 'write' ? 403 : 200;
    const subject = claims?.sub ?? (claims && String(claims['client_id']));
    const { headers } = request;
    const called = { method, tool, authorization: header, subject, status, headers };
    seen.push({ ...called, caller: typeof caller === 'string' ? caller : undefined });
    const refusal = { error: 'no' };
    if (status === 401) return void json(401, refusal, { 'www-authenticate': challenge });
    if (status === 403) {
      const insufficient = `${challenge}, error="insufficient_scope"`;
      return void json(403, refusal, { 'www-authenticate': insufficient });
    }
    if (id === undefined) return void response.writeHead(202).end();
    const result = resultOf(method, subject ?? '');
    const error = { code: -32601, message: 'unknown' };
    json(200, { jsonrpc: '2.0', id, ...(result ? { result } : { error }) });
  }

  return {
    url,
    issuer,
    clientId,
    clientSecret,
    seen,
    asked,
    issued,
    deleted,
    beforeAnswer: (act) => {
      atAnswer = act;
    },
    refuse: (token) => void refused.add(token),
    breakTokens: (broken) => {
      isBroken = broken;
    },
    consent: (page, login) => consentAt(page, { issuer, login }),
    async [Symbol.asyncDispose]() {
      await Promise.all([authorization, mcp].map(closed));
    },
  };
}

interface Asking {
  readonly href: string;
  readonly oidc: { readonly body?: Record<string, string> };
}

const messageSchema = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.looseObject({ name: z.string().optional() }).optional(),
});

function resultOf(method: string, subject: string): object | undefined {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {}, resources: {} },
        serverInfo: { name: 'token-upstream', version: '1' },
      };
    case 'tools/list':
      return {
        tools: ['whoami', 'write'].map((name) => ({ name, inputSchema: { type: 'object' } })),
      };
    case 'resources/list':
      return { resources: [{ uri: `account://${subject}`, name: subject }] };
    case 'resources/read':
      return { contents: [{ uri: `account://${subject}`, text: `of ${subject}` }] };
    case 'tools/call':
      return { content: [{ type: 'text', text: `you are ${subject}` }] };
    default:
      return undefined;
  }
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
