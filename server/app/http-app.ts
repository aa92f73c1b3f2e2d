import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { fastify, type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import type { Log } from '#log/log';
import type { RegistrationEndpointPorts } from '#oauth/registration';
import {
  agentRoute,
  type AgentRouteOptions,
  asksForWebSocket,
  type Upgrade,
  Upgrades,
} from '#http/agent-route';
import { Front, type FrontOptions } from '#http/front';
import {
  descriptions,
  framingGuard,
  isLongHeader,
  namedHost,
  ownHost,
  requestLine,
  type RequestName,
  type UnreadableRequests,
  unreadableRequests,
} from '#http/guards';
import { mcpRoute, type McpRouteOptions } from '#http/mcp-route';
import { oauthRoutes, type OAuthRoutesOptions, registrationRoute } from '#http/oauth-routes';

const defaultRequestTimeoutMs = 60_000;
const headersTimeoutMs = 20_000;
const keepAliveTimeoutMs = 72_000;
export const nothingHere = { error: 'not_found', error_description: 'not found' };

/** The log, and how requests are received. */
export interface ReceivingOptions {
  readonly log: Log;
  readonly trustedProxies: readonly string[];
  /** How long a request may take to arrive, in ms; default 60,000. */
  readonly requestTimeoutMs?: number;
}

interface AppOptions
  extends
    ReceivingOptions,
    OAuthRoutesOptions,
    Omit<McpRouteOptions, 'toPages'>,
    HealthOptions,
    Omit<AgentRouteOptions, 'upgrades'> {
  readonly gateway: McpRouteOptions['gateway'] & FrontOptions['gateway'];
  readonly log: Log;
  readonly ports: OAuthRoutesOptions['ports'] & RegistrationEndpointPorts;
  readonly dynamicRegistration?: boolean;
  /** Routes of other modules, each with its own settings. */
  readonly others?: readonly ((routes: FastifyInstance) => void)[];
  /** Answers the requests that no route here matches. */
  readonly pages: LatePages;
  /** Forwards the requests that `Front` does not answer, in a process that is not the owner. */
  readonly forwarder?: RequestForwarder | undefined;
}

interface RequestForwarder {
  forward(request: IncomingMessage, response: ServerResponse): void;
  forwardUpgrade(request: IncomingMessage, upgrade: Upgrade): void;
}

/** The names of requests for the log, as far as they are known. */
export const requestNames = new WeakMap<IncomingMessage, RequestName>();

/**
 * The routes that a start does not need: for people, and for administration. Evaluating their modules and registering them takes
 * a quarter of the time of a start.
 */
export class LatePages {
  readonly #make: () => Promise<FastifyInstance>;
  #made: Promise<FastifyInstance> | undefined;

  constructor(make: () => Promise<FastifyInstance>) {
    this.#make = make;
  }

  /** Makes the routes at the first call. Rejects if that fails, and tries again at the next call. */
  async app(): Promise<FastifyInstance> {
    this.#made ??= this.#make();
    try {
      return await this.#made;
    } catch (error) {
      this.#made = undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    const made = await this.#made?.catch(() => undefined);
    await made?.close();
  }
}

/** The HTTP server: limits, the checks that apply to every request, and the routes. */
export function createApp(options: AppOptions): FastifyInstance {
  const incoming = newIncoming(options);
  const app = newFastify(options, incoming.unreadable);
  receiveRequests(app, options, incoming);
  checkEveryRequest(app, options, incoming);
  const { pages } = options;
  app.setNotFoundHandler((_request, reply) => reply.code(404).send(nothingHere));
  const toPages: McpRouteOptions['toPages'] = async (request, reply) => {
    const routes = await pages.app();
    reply.hijack();
    routes.routing(request.raw, reply.raw);
  };
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) await toPages(request, reply);
  });
  app.addHook('preClose', () => pages.close());
  registerRoutes(app, { ...options, toPages }, incoming);
  return app;
}

/** The parts that handle requests before Fastify: unreadable requests, the first checks, and upgrades. */
function newIncoming({ base, log }: AppOptions) {
  return {
    unreadable: unreadableRequests(log),
    isAmbiguous: framingGuard(),
    isOwnHost: ownHost(base),
    upgrades: new Upgrades(),
  };
}

type Incoming = ReturnType<typeof newIncoming>;

export function newFastify(
  { log, trustedProxies, requestTimeoutMs: arrivalMs = defaultRequestTimeoutMs }: ReceivingOptions,
  unreadable: Pick<UnreadableRequests, 'answer'>,
): FastifyInstance {
  return fastify({
    // Fastify's type asks for one member of Pino's logger that ours lacks and fastify never uses.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    loggerInstance: log as unknown as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: (request: IncomingMessage) => requestNames.get(request)?.id ?? randomUUID(),
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    requestTimeout: arrivalMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    forceCloseConnections: 'idle',
    http: {
      // With a header timeout above the request timeout, Node would never end a slow body.
      headersTimeout: Math.min(headersTimeoutMs, arrivalMs),
      connectionsCheckingInterval: 1000,
      requireHostHeader: false,
      // A request to upgrade to any other protocol is answered like an ordinary request.
      shouldUpgradeCallback: asksForWebSocket,
    },
    routerOptions: { ignoreTrailingSlash: false, caseSensitive: true },
    clientErrorHandler: unreadable.answer,
    frameworkErrors: (_error, { id, raw: request }, { raw }) => {
      requestNames.set(request, { id });
      const headers = { 'Content-Type': 'application/json', 'X-Request-Id': id };
      raw.writeHead(404, headers).end(JSON.stringify(nothingHere));
    },
  });
}

/** Passes requests to `Front` first, then to another process or to the routes. */
function receiveRequests(
  app: FastifyInstance,
  options: AppOptions,
  { unreadable, isAmbiguous, isOwnHost, upgrades }: Incoming,
): void {
  const { log, forwarder } = options;
  const isRefused = (request: IncomingMessage) => isAmbiguous(request) || isLongHeader(request);
  // `Front` replaces fastify's listener. With `serverFactory`, fastify would listen on only one address of `localhost`.
  app.server.removeAllListeners('request');
  // By default, older versions of Node drop all lines of a header after the first thousand without a word, so that our
  // checks would not see them. `isLongHeader` limits them.
  app.server.maxHeadersCount = 0;
  const route = (request: IncomingMessage, response: ServerResponse) => {
    // Not forwarded but refused here: a request that could be framed differently, or whose header is too long.
    if (forwarder && !isRefused(request)) {
      const upgrade = upgrades.take(request);
      if (upgrade) return forwarder.forwardUpgrade(request, upgrade);
      return forwarder.forward(request, response);
    }
    requestLine(request, response, { log, name: () => requestNames.get(request) });
    app.routing(request, response);
  };
  const isStateless = forwarder !== undefined;
  const front = new Front({ ...options, isRefused, isOwnHost, framework: route, isStateless });
  app.server.on('request', (request, response) => front.receive(request, response));
  unreadable.watch(app.server);
  upgrades.listen(app.server, route);
  app.addHook('preClose', async () => front.close());
}

/** Names requests, and refuses those that other programs could read differently or that are for another host. */
function checkEveryRequest(
  app: FastifyInstance,
  { base, log, trustedProxies }: AppOptions,
  { isAmbiguous, isOwnHost }: Incoming,
): void {
  let isWarned = trustedProxies.length > 0;
  app.addHook('onRequest', async (request, reply) => {
    requestNames.set(request.raw, { id: request.id, route: request.routeOptions.url });
    void reply.header('X-Request-Id', request.id);
    if (!isWarned && request.headers['x-forwarded-for'] !== undefined) {
      isWarned = true;
      const from = request.raw.socket.remoteAddress;
      log.warn(
        { from },
        'requests come through an untrusted reverse proxy, so all callers share one address: set --trust-proxy',
      );
    }
    const isProbe = request.url === '/healthz' || request.url === '/readyz';
    if (isAmbiguous(request.raw)) {
      return reply.code(400).header('Connection', 'close').send({
        error: 'invalid_request',
        error_description: 'send exactly one Host header, and no transfer coding except chunked',
      });
    }
    if (isLongHeader(request.raw)) {
      return reply.code(431).header('Connection', 'close').send({
        error: 'invalid_request',
        error_description: descriptions[431],
      });
    }
    if (isProbe || isOwnHost(namedHost(request.raw))) return;
    return reply.code(421).send({
      error: 'misdirected_request',
      error_description: `the public URL of this server is ${base}, so the Host header must be ${new URL(base).host}: see --base-url`,
      public_url: base,
    });
  });
}

function registerRoutes(
  app: FastifyInstance,
  options: AppOptions & McpRouteOptions,
  { upgrades }: Incoming,
): void {
  const all: ((routes: FastifyInstance) => void)[] = [
    (routes) => oauthRoutes(routes, options),
    (routes) => options.dynamicRegistration && registrationRoute(routes, options.ports),
    (routes) => mcpRoute(routes, options),
    (routes) => agentRoute(routes, { ...options, upgrades }),
    ...(options.others ?? []),
    (routes) => healthRoutes(routes, options),
  ];
  for (const add of all) void app.register(async (routes) => add(routes));
}

interface HealthOptions {
  /** Resolves if a request could be served, rejects if not. */
  readonly ready: () => Promise<void>;
}

/** `/healthz`: the process is alive. `/readyz`: it can serve requests. Neither reveals details. */
function healthRoutes(app: FastifyInstance, { ready }: HealthOptions): void {
  app.get('/healthz', async () => ({ status: 'ok' }));

  app.get('/readyz', async (request, reply) => {
    try {
      await ready();
      return { status: 'ready' };
    } catch (error) {
      request.log.error({ err: error }, 'not ready');
      return reply.code(503).send({ status: 'unavailable' });
    }
  });
}
