import { randomUUID } from 'node:crypto';

import {
  fastify,
  LogController,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
} from 'fastify';

import type { Logger } from '#log/log';
import { isOwnHost, namesHosts, requestedHost } from './host-guard.ts';
import { healthRoutes, type HealthOptions } from './health-routes.ts';
import { mcpRoute, type McpRouteOptions } from './mcp-route.ts';
import { oauthRoutes, type OAuthRoutesOptions } from './oauth-routes.ts';

const requestTimeoutMs = 60_000;
const headersTimeoutMs = 20_000;
const keepAliveTimeoutMs = 72_000;
const unreadablePath = { error: 'invalid_request', error_description: 'the path cannot be read' };
const twoHosts = { error: 'invalid_request', error_description: 'the header host is repeated' };

export interface AppOptions extends OAuthRoutesOptions, McpRouteOptions, HealthOptions {
  readonly log: Logger;
  readonly trustedProxies: readonly string[];
  /** How long a request may take to arrive, in ms; 60,000 unless given. */
  readonly requestTimeoutMs?: number;
}

/** The HTTP server: limits, the checks that hold for every request, and the routes. */
export function createApp(options: AppOptions): FastifyInstance {
  const { base, log, trustedProxies } = options;
  const app: FastifyInstance = fastify({
    // Pino's Logger lacks one member that fastify's own type asks for and never uses.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    loggerInstance: log as unknown as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUID(),
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    requestTimeout: options.requestTimeoutMs ?? requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    forceCloseConnections: 'idle',
    http: { headersTimeout: headersTimeoutMs, connectionsCheckingInterval: 1000 },
    // Its own words would repeat the path, and a secret in it.
    frameworkErrors: (error, request, reply: FastifyReply) => {
      log.info({ id: request.id, code: error.code }, 'request refused');
      void reply.code(400).header('X-Request-Id', request.id).send(unreadablePath);
    },
    routerOptions: { ignoreTrailingSlash: false, caseSensitive: true },
  });

  app.addHook('onRequest', async (request, reply) => {
    void reply.header('X-Request-Id', request.id);
    if (namesHosts(request.raw.rawHeaders)) return reply.code(400).send(twoHosts);
    const isProbe = request.url === '/healthz' || request.url === '/readyz';
    const host = requestedHost(request.url, request.headers.host);
    if (isProbe || isOwnHost(host, base)) return;
    return reply.code(421).send({
      error: 'misdirected_request',
      error_description: `the Host header must be ${new URL(base).host}: see --base-url`,
    });
  });
  app.addHook('onResponse', async (request, reply) => {
    const { method, routeOptions, id } = request;
    const ms = Math.round(reply.elapsedTime);
    log.info({ id, method, route: routeOptions.url, status: reply.statusCode, ms }, 'request');
  });
  app.setNotFoundHandler((_request, reply) =>
    reply
      .code(404)
      .send({ error: 'not_found', error_description: 'there is nothing at this path' }),
  );

  void app.register(async (routes) => oauthRoutes(routes, options));
  void app.register(async (routes) => mcpRoute(routes, options));
  void app.register(async (routes) => healthRoutes(routes, options));
  return app;
}
