import { createHash, randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bodyOf, countedServer, type CountedServer } from '#support/counted-server';

type Json = Record<string, unknown>;

/** The setup of the front, and its faults. Every option can change while the front runs. */
export type SignInFrontOptions = {
  published: boolean;
  expiresInSeconds: number;
  /** Merged over the authorization server's metadata. */
  metadata: Json;
  /** Merged over the redirect's query; `undefined` leaves a parameter out. */
  redirect: Record<string, string | undefined>;
  /** The URL to which the token endpoint redirects instead of answering. */
  tokenRedirect: string | undefined;
  /** The scope that `tools/call` needs, once it is set. */
  neededScope: string | undefined;
  registration: boolean;
  /** The issuer that the resource names; by default the front's own. */
  authorizationServer: string | undefined;
  /** API keys that the endpoint takes besides access tokens. */
  apiKeys: readonly string[];
  /** Clients that have to authenticate, each with its valid secrets. */
  clientSecrets: Readonly<Record<string, readonly string[]>>;
  /** Whether a second use of a refresh token gets the same answer, because responses get lost. */
  refreshesTwice: boolean;
};

export type SignInFront = CountedServer & {
  url: string;
  options: SignInFrontOptions;
  /** The query of every authorization request, and the form of every token and revocation request. */
  asked: URLSearchParams[];
  tokenRequests: URLSearchParams[];
  revocations: URLSearchParams[];
  registrations: Json[];
  /** Invalidates every access token issued so far. */
  expireAll(): void;
  /** Invalidates every refresh token issued so far. */
  endSignIns(): void;
  /** Remembers which tokens are valid; the function that it returns makes exactly those valid again. */
  remember(): () => void;
};

/**
 * A small authorization server whose person always consents, and the guard of one MCP endpoint behind
 * it: metadata, consent, registration, code with PKCE, rotating refresh tokens, revocation.
 */
export async function signInFront(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
  given: Partial<SignInFrontOptions> = {},
): Promise<SignInFront> {
  const options: SignInFrontOptions = {
    published: true,
    expiresInSeconds: 3600,
    metadata: {},
    redirect: {},
    tokenRedirect: undefined,
    neededScope: undefined,
    registration: true,
    authorizationServer: undefined,
    apiKeys: [],
    clientSecrets: {},
    refreshesTwice: false,
    ...given,
  };
  const path = '/mcp/acme/sales';
  const asked: URLSearchParams[] = [];
  const tokenRequests: URLSearchParams[] = [];
  const revocations: URLSearchParams[] = [];
  const registrations: Json[] = [];
  const codes = new Map<string, URLSearchParams>();
  const scopes = new Map<string, string>();
  const refreshable = new Map<string, string>();
  const successors = new Map<string, Json>();
  const fresh = (kind: string) => `${kind}-${randomBytes(12).toString('hex')}`;

  const server = await countedServer(async (request, response) => {
    const { origin } = server;
    const url = new URL(request.url ?? '/', origin);
    const send = (status: number, value: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(value === undefined ? '' : JSON.stringify(value));
    };
    const prm = `${origin}/.well-known/oauth-protected-resource${path}`;
    const accessFor = (scope: string) => {
      const accessToken = fresh('access');
      scopes.set(accessToken, scope);
      const { expiresInSeconds: expires_in } = options;
      return { access_token: accessToken, token_type: 'Bearer', expires_in, scope };
    };
    const tokens = (scope: string, refreshToken: string) => {
      refreshable.set(refreshToken, scope);
      return { ...accessFor(scope), refresh_token: refreshToken };
    };

    if (options.published && url.href === prm)
      return send(200, {
        resource: `${origin}${path}`,
        authorization_servers: [options.authorizationServer ?? origin],
        scopes_supported: ['mcp:tools:read'],
      });
    if (options.published && url.pathname === '/.well-known/oauth-authorization-server')
      return send(200, {
        issuer: origin,
        authorization_endpoint: `${origin}/oauth/consent`,
        token_endpoint: `${origin}/api/oauth/token`,
        revocation_endpoint: `${origin}/api/oauth/revoke`,
        ...(options.registration && { registration_endpoint: `${origin}/register` }),
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none', 'client_secret_post'],
        authorization_response_iss_parameter_supported: true,
        ...options.metadata,
      });
    if (url.pathname === '/register') {
      const document: Json = JSON.parse(await bodyOf(request));
      registrations.push(document);
      return send(201, { ...document, client_id: `registered-${registrations.length}` });
    }
    if (url.pathname === '/oauth/consent') {
      const query = url.searchParams;
      asked.push(query);
      const code = fresh('code');
      codes.set(code, query);
      const back = new URL(query.get('redirect_uri') ?? '');
      const answer = { code, state: query.get('state') ?? '', iss: origin, ...options.redirect };
      for (const [name, value] of Object.entries(answer))
        if (value !== undefined) back.searchParams.set(name, value);
      return response.writeHead(303, { location: back.href }).end();
    }
    if (url.pathname === '/api/oauth/token') {
      const form = new URLSearchParams(await bodyOf(request));
      tokenRequests.push(form);
      if (options.tokenRedirect !== undefined)
        return response.writeHead(307, { location: options.tokenRedirect }).end();
      const refused = (error: string) => send(400, { error, error_description: 'no' });
      const secrets = options.clientSecrets[form.get('client_id') ?? ''];
      if (secrets && !secrets.includes(form.get('client_secret') ?? ''))
        return refused('invalid_client');
      if (form.get('grant_type') === 'client_credentials')
        return secrets
          ? send(200, accessFor(form.get('scope') ?? 'all'))
          : refused('unauthorized_client');
      if (form.get('grant_type') === 'refresh_token') {
        const old = form.get('refresh_token') ?? '';
        const scope = refreshable.get(old);
        refreshable.delete(old);
        const again = options.refreshesTwice ? successors.get(old) : undefined;
        if (scope === undefined && again === undefined) return refused('invalid_grant');
        const answer = again ?? tokens(scope ?? '', fresh('refresh'));
        successors.set(old, answer);
        return send(200, answer);
      }
      const query = codes.get(form.get('code') ?? '');
      codes.delete(form.get('code') ?? '');
      const digest = createHash('sha256').update(form.get('code_verifier') ?? '');
      const good =
        query?.get('code_challenge') === digest.digest('base64url') &&
        query.get('redirect_uri') === form.get('redirect_uri') &&
        query.get('client_id') === form.get('client_id');
      if (!good) return refused('invalid_grant');
      return send(200, tokens(query.get('scope') ?? 'all', fresh('refresh')));
    }
    if (url.pathname === '/api/oauth/revoke') {
      const form = new URLSearchParams(await bodyOf(request));
      revocations.push(form);
      refreshable.delete(form.get('token') ?? '');
      scopes.delete(form.get('token') ?? '');
      return send(200, undefined);
    }
    if (url.pathname !== path) return send(404, { error: 'not_found' });
    const challenge = options.published ? `Bearer resource_metadata="${prm}"` : 'Bearer';
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    const { 'x-api-key': key } = request.headers;
    if (typeof key === 'string' && options.apiKeys.includes(key)) return handle(request, response);
    const granted = scopes.get(token);
    if (granted === undefined)
      return send(401, { error: 'invalid_token' }, { 'www-authenticate': challenge });
    const { neededScope } = options;
    if (neededScope !== undefined && !granted.split(' ').includes(neededScope))
      return send(
        403,
        { error: 'insufficient_scope' },
        { 'www-authenticate': `${challenge}, error="insufficient_scope", scope="${neededScope}"` },
      );
    return handle(request, response);
  });

  return Object.assign(server, {
    url: `${server.origin}${path}`,
    options,
    asked,
    tokenRequests,
    revocations,
    registrations,
    expireAll: () => scopes.clear(),
    endSignIns: () => refreshable.clear(),
    remember() {
      const before = [[...scopes], [...refreshable]] as const;
      return () => {
        scopes.clear();
        refreshable.clear();
        successors.clear();
        for (const [token, scope] of before[0]) scopes.set(token, scope);
        for (const [token, scope] of before[1]) refreshable.set(token, scope);
      };
    },
  });
}
