import { takeRawBodies } from './body.ts';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { networksOf } from '#model/networks';
import type { Clock } from '#model/clock';
import { SlidingWindow } from '#model/sliding-window';
import { ownClientDocument } from '#oauth/client-documents';
import {
  introspectionEndpoint,
  type IntrospectionEndpointPorts,
  userinfoEndpoint,
  type UserinfoEndpointPorts,
} from '#oauth/introspection';
import {
  authorizationServerMetadata,
  type MetadataOptions,
  protectedResourceMetadata,
  serverListMetadata,
  serverListMetadataUrl,
} from '#oauth/metadata';
import { parseJsonObject } from '#oauth/forms';
import { OAuthError } from '#oauth/oauth-error';
import { registrationEndpoint, type RegistrationEndpointPorts } from '#oauth/registration';
import { revocationEndpoint, type RevocationEndpointPorts } from '#oauth/revocation';
import { deviceList, signOutListed } from '#oauth/devices';
import { serverList, type ServerListPorts } from '#oauth/server-list';
import type { SigningKeys } from '#oauth/signing-keys';
import { deviceListPath, serverListPath } from '#model/server-list';
import { isSlug } from '#model/slug';
import { upstreamClientDocument } from '#upstreams/credentials/authorization-client';
import { oauthErrorAnswer } from './error-answers.ts';
import {
  guarded,
  maxFormBytes,
  tokenAnswer,
  type TokenAnswerOptions,
  tokenPath,
} from './token-answer.ts';

export interface OAuthRoutesOptions extends TokenAnswerOptions, MetadataOptions {
  readonly base: string;
  readonly keys: SigningKeys;
  readonly ports: TokenAnswerOptions['ports'] &
    Omit<RevocationEndpointPorts, 'source'> &
    IntrospectionEndpointPorts &
    ServerListPorts &
    UserinfoEndpointPorts;
}

/** The OAuth endpoints and the documents that describe them to clients. */
export function oauthRoutes(app: FastifyInstance, options: OAuthRoutesOptions): void {
  const { ports, failedAttempts } = options;
  oauthBodies(app);

  app.post(tokenPath, async (request, reply) => {
    const { status, headers, body } = await tokenAnswer(request, options);
    return reply.code(status).headers(headers).send(body);
  });

  app.post('/api/oauth/introspect', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    return guarded(request, failedAttempts, (form, proof) =>
      introspectionEndpoint(form, proof, ports),
    );
  });

  app.post('/api/oauth/revoke', async (request, reply) => {
    await guarded(request, failedAttempts, (form, proof) =>
      revocationEndpoint(form, proof, {
        ...ports,
        source: { address: request.ip, requestId: request.id },
      }),
    );
    // Some clients refuse an answer without a body. RFC 7009 §2.2 leaves it open.
    return reply.header('Cache-Control', 'no-store').send({});
  });

  app.get('/api/oauth/userinfo', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const claims = await userinfoEndpoint(request.headers.authorization, ports);
    if (claims) return claims;
    void reply.code(401).header('WWW-Authenticate', 'Bearer error="invalid_token"');
    return { error: 'invalid_token', error_description: 'no valid access token of a person' };
  });

  listRoutes(app, options);
  publicDocuments(app, options);
}

/** The lists that the proxy shows to people: their own servers and devices. */
function listRoutes(app: FastifyInstance, { base, ports }: OAuthRoutesOptions): void {
  app.get(serverListPath, { exposeHeadRoute: false }, async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const { authorization } = request.headers;
    const known = new URL(request.url, base).searchParams.getAll('known');
    const list = await serverList(authorization, known, ports);
    return list ?? noListToken(authorization, reply, base);
  });

  app.get(deviceListPath, { exposeHeadRoute: false }, async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const { authorization } = request.headers;
    return (await deviceList(authorization, ports)) ?? noListToken(authorization, reply, base);
  });

  app.delete<{ Params: { device: string } }>(
    `${deviceListPath}/:device`,
    async (request, reply) => {
      void reply.header('Cache-Control', 'no-store');
      const { authorization } = request.headers;
      const source = { address: request.ip, requestId: request.id };
      const done = await signOutListed(authorization, request.params.device, { ...ports, source });
      if (done === undefined) return noListToken(authorization, reply, base);
      if (done) return { id: request.params.device };
      void reply.code(404);
      return { error: 'not_found', error_description: 'you have no device with this id' };
    },
  );
}

/** Metadata, keys and descriptions of clients. */
function publicDocuments(app: FastifyInstance, options: OAuthRoutesOptions): void {
  const { base, keys } = options;
  publicDocument(app, '/.well-known/oauth-authorization-server', () =>
    authorizationServerMetadata(base, options),
  );
  publicDocument(app, new URL(serverListMetadataUrl(base)).pathname, () =>
    serverListMetadata(base),
  );
  publicDocument(app, '/.well-known/jwks.json', () => keys.jwks);
  app.get('/oauth/clients/latchkey.json', async (_request, reply) => {
    void reply.header('Cache-Control', 'public, max-age=3600');
    return ownClientDocument(base);
  });
  publicDocument(
    app,
    '/oauth/clients/upstream/:organization/:server',
    ({ organization = '', server = '' }) =>
      isSlug(organization) && isSlug(server)
        ? upstreamClientDocument(base, { organization, name: server })
        : undefined,
  );
  publicDocument(
    app,
    '/.well-known/oauth-protected-resource/mcp/:organization/:server',
    ({ organization = '', server = '' }) =>
      isSlug(organization) && isSlug(server)
        ? protectedResourceMetadata(base, `${organization}/${server}`)
        : undefined,
  );
}

/** Refuses a request without a valid token for the list of servers. RFC 6750 §3 */
function noListToken(authorization: string | undefined, reply: FastifyReply, base: string) {
  const invalid = authorization === undefined ? '' : 'error="invalid_token", ';
  const metadata = `resource_metadata="${serverListMetadataUrl(base)}"`;
  void reply.code(401).header('WWW-Authenticate', `Bearer ${invalid}${metadata}`);
  return { error: 'invalid_token', error_description: 'no valid access token for this list' };
}

/** A document that any web page may read, because it is the same for everyone and not private. */
function publicDocument(
  app: FastifyInstance,
  path: string,
  document: (params: Record<string, string | undefined>) => object | undefined,
): void {
  const cors = (reply: FastifyReply) => reply.header('Access-Control-Allow-Origin', '*');
  app.get<{ Params: Record<string, string | undefined> }>(path, async (request, reply) => {
    const body = document(request.params);
    void cors(reply).header('Cache-Control', 'public, max-age=300');
    return body ?? reply.code(404).send({ error: 'not_found' });
  });
  app.options(path, async (_request, reply) =>
    cors(reply)
      .headers({
        'Access-Control-Allow-Methods': 'GET',
        'Access-Control-Allow-Headers': '*',
        'Access-Control-Max-Age': '86400',
      })
      .code(204)
      .send(),
  );
}

const maxPerHour = 30;
const hour = { seconds: 3600, maxNames: 10_000 };

/**
 * `POST {base}/api/oauth/register`, at most thirty an hour for each network, twice as many for the IPv6 network of 56 bits
 * around it, and four times as many for that of 48 bits. RFC 7591 §3
 */
export function registrationRoute(
  app: FastifyInstance,
  ports: RegistrationEndpointPorts & { readonly clock: Clock },
): void {
  const registrations = new SlidingWindow(ports.clock, hour);
  oauthBodies(app);

  app.post('/api/oauth/register', async (request, reply) => {
    const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
    if (type !== 'application/json') {
      throw new OAuthError('invalid_client_metadata', 'the body must be application/json');
    }
    const networks = networksOf(request.ip).map(
      (network, wider) => [network, maxPerHour * 2 ** wider] as const,
    );
    for (const [network, most] of networks) {
      const retryAfterSeconds = registrations.secondsUntilFree(network, most);
      if (retryAfterSeconds === 0) continue;
      const words = 'too many registrations from this address';
      throw new OAuthError('slow_down', words, { retryAfterSeconds });
    }
    for (const [network, most] of networks) registrations.count(network, most);
    const registration = await registrationEndpoint(
      parseJsonObject(request.body, 'invalid_client_metadata'),
      ports,
    );
    return reply.code(201).header('Cache-Control', 'no-store').send(registration);
  });
}

/** Settings of all OAuth endpoints: a small body, read as bytes, and errors in the form of RFC 6749 §5.2. */
function oauthBodies(app: FastifyInstance): void {
  takeRawBodies(app, maxFormBytes);
  app.setErrorHandler((error, request, reply) => {
    const { status, headers, body } = oauthErrorAnswer(error);
    if (status >= 500) request.log.error({ err: error }, 'request failed');
    else request.log.info({ code: body.error, reason: body.error_description }, 'request refused');
    return reply.code(status).headers(headers).header('Cache-Control', 'no-store').send(body);
  });
}
