import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import {
  fastify,
  LogController,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyRequest,
} from 'fastify';

import type { Logger } from '#log/log';
import { errorPage } from '#pages/error-page';
import { framingGuard } from './framing-guard.ts';
import { namedHost, ownHost } from './host-guard.ts';
import type { RegistrationEndpointPorts } from '#oauth/registration-endpoint';
import { adminApiRoutes, type AdminApiRoutesOptions } from './admin-api-routes.ts';
import { agentRoute, type AgentRouteOptions } from './agent-route.ts';
import { accountGrantRoutes, type AccountGrantRoutesOptions } from './account-grants.ts';
import { CallFront } from './call-front.ts';
import { assetRoutes } from './asset-routes.ts';
import { downloadRoutes, type DownloadRoutesOptions } from './download-routes.ts';
import { consentRoutes, type ConsentRoutesOptions } from './consent-routes.ts';
import { nowherePage } from './nowhere-page.ts';
import { healthRoutes, type HealthOptions } from './health-routes.ts';
import { mcpRoute, type McpRouteOptions } from './mcp-route.ts';
import { peopleRoutes } from './people-routes.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { oauthRoutes, type OAuthRoutesOptions } from './oauth-routes.ts';
import { requestLine, type RequestName } from './request-line.ts';
import { sendPage } from './send-page.ts';
import { unreadableRequests } from './unreadable-request.ts';
import { registrationRoute } from './registration-route.ts';
import { asksForWebSocket, Upgrades } from './upgrades.ts';

const requestTimeoutMs = 60_000;
const headersTimeoutMs = 20_000;
const keepAliveTimeoutMs = 72_000;
const nothingHere = { error: 'not_found', error_description: 'there is nothing at this path' };

export interface AppOptions
  extends
    OAuthRoutesOptions,
    McpRouteOptions,
    HealthOptions,
    PeopleRoutesOptions,
    AdminApiRoutesOptions,
    AgentRouteOptions,
    DownloadRoutesOptions {
  readonly log: Logger;
  readonly ports: OAuthRoutesOptions['ports'] &
    ConsentRoutesOptions['ports'] &
    AccountGrantRoutesOptions['ports'] &
    RegistrationEndpointPorts;
  readonly trustedProxies: readonly string[];
  /** Routes of other rooms, each with settings of its own. */
  readonly others?: readonly ((routes: FastifyInstance) => void)[];
  /** How long a request may take to arrive, in ms; 60,000 unless given. */
  readonly requestTimeoutMs?: number;
}

/** The HTTP server: limits, the checks that hold for every request, and the routes. */
export function createApp(options: AppOptions): FastifyInstance {
  const { base, log, trustedProxies } = options;
  const arrivalMs = options.requestTimeoutMs ?? requestTimeoutMs;
  const unreadable = unreadableRequests(log);
  const isAmbiguous = framingGuard();
  const isOwnHost = ownHost(base);
  const upgrades = new Upgrades();
  const front = new CallFront({ ...options, isAmbiguous, isOwnHost });
  const names = new WeakMap<IncomingMessage, RequestName>();
  const app: FastifyInstance = fastify({
    // Pino's Logger lacks one member that fastify's own type asks for and never uses.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    loggerInstance: log as unknown as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUID(),
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    requestTimeout: arrivalMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    forceCloseConnections: 'idle',
    http: {
      // Node never ends a slow body when this is the longer one.
      headersTimeout: Math.min(headersTimeoutMs, arrivalMs),
      connectionsCheckingInterval: 1000,
      requireHostHeader: false,
      // Others ask for protocols that are not spoken here, and mean to be answered all the same.
      shouldUpgradeCallback: asksForWebSocket,
    },
    routerOptions: { ignoreTrailingSlash: false, caseSensitive: true },
    clientErrorHandler: unreadable.answer,
    frameworkErrors: (_error, { id, raw: request }, { raw }) => {
      names.set(request, { id });
      const headers = { 'Content-Type': 'application/json', 'X-Request-Id': id };
      raw.writeHead(404, headers).end(JSON.stringify(nothingHere));
    },
  });

  let isWarned = trustedProxies.length > 0;
  // Instead of a server of our own, with which the framework would listen on one address of `localhost` only.
  app.server.removeAllListeners('request');
  const route = (request: IncomingMessage, response: ServerResponse) => {
    requestLine(request, response, { log, name: () => names.get(request) });
    app.routing(request, response);
  };
  app.server.on('request', (request, response) => {
    if (!front.takes(request, response)) route(request, response);
  });
  unreadable.watch(app.server);
  upgrades.listen(app.server, route);
  app.addHook('onRequest', async (request, reply) => {
    names.set(request.raw, { id: request.id, route: request.routeOptions.url });
    void reply.header('X-Request-Id', request.id);
    if (!isWarned && request.headers['x-forwarded-for'] !== undefined) {
      isWarned = true;
      const from = request.raw.socket.remoteAddress;
      log.warn({ from }, 'a proxy stands in front, and everybody counts as one: see --trust-proxy');
    }
    const isProbe = request.url === '/healthz' || request.url === '/readyz';
    if (isAmbiguous(request.raw)) {
      return reply.code(400).header('Connection', 'close').send({
        error: 'invalid_request',
        error_description: 'one Host, and no transfer coding but chunked',
      });
    }
    if (isProbe || isOwnHost(namedHost(request.raw))) return;
    return reply.code(421).send({
      error: 'misdirected_request',
      error_description: `the Host header must be ${new URL(base).host}: see --base-url`,
    });
  });
  app.addHook('preClose', async () => front.close());
  app.setNotFoundHandler((request, reply) => {
    void reply.header('Vary', 'Accept');
    return asksForPage(request)
      ? sendPage(reply, errorPage, nowherePage(), { status: 404 })
      : reply.code(404).send(nothingHere);
  });

  void app.register(async (routes) => assetRoutes(routes));
  void app.register(async (routes) => downloadRoutes(routes, options));
  void app.register(async (routes) => peopleRoutes(routes, options));
  void app.register(async (routes) => accountGrantRoutes(routes, options));
  void app.register(async (routes) => consentRoutes(routes, options));
  void app.register(async (routes) => oauthRoutes(routes, options));
  void app.register(async (routes) => adminApiRoutes(routes, options));
  if (options.dynamicRegistration) {
    void app.register(async (routes) => registrationRoute(routes, options.ports));
  }
  void app.register(async (routes) => mcpRoute(routes, options));
  void app.register(async (routes) => agentRoute(routes, { ...options, upgrades }));
  for (const other of options.others ?? []) void app.register(async (routes) => other(routes));
  void app.register(async (routes) => healthRoutes(routes, options));
  return app;
}

/** Whether a browser shows the answer to a person: only they name HTML as what they take. */
function asksForPage({ method, headers }: FastifyRequest): boolean {
  return method === 'GET' && /\btext\/html\b/i.test(headers.accept ?? '');
}
