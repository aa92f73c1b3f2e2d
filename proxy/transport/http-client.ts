import type {
  Agent,
  IncomingMessage,
  OutgoingHttpHeaders,
  ClientRequest,
  RequestOptions,
} from 'node:http';
import type http from 'node:http';
import { createRequire } from 'node:module';
import type { LookupFunction } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { ProxyRoute } from './company-proxy.ts';
import { HttpError, platformCode } from './http-error.ts';
import { namesProxy, type NetworkSettings } from './network-settings.ts';
import type { AddressLookup, Network } from './networks.ts';

export type HttpRequest = {
  url: URL;
  method: 'GET' | 'POST' | 'DELETE';
  headers: OutgoingHttpHeaders;
  body?: Buffer;
  signal?: AbortSignal;
  /** The network of the server that named the URL. The request may not go further inside. */
  within?: Network;
};

type Platform = Route['platform'];

/** Shorter than the limit of load balancers, so that a request rarely uses a connection that is closing. */
const idleTimeoutMs = 30_000;

/**
 * Keep-alive connections over `node:http`, and `node:https` from the first https URL on. Both are loaded with `require`:
 * importing `node:http` reads all its exports, including WebSocket, which loads undici and would double the start time of this
 * program. Support for proxies and additional authorities is also loaded by the first request that needs it.
 *
 * After the computer has `slept`, idle connections are not used again: a device on the path may have forgotten them, and a
 * request over one would wait for a quarter of an hour.
 */
export function httpClient(
  settings: () => NetworkSettings,
  slept: () => boolean = () => false,
  resolve?: AddressLookup,
) {
  const routes = new Routes(settings, resolve);
  return {
    /**
     * Sends a request and resolves to the response, whose body is a stream. Redirects are not followed, because a credential for
     * one host must not reach another.
     *
     * @throws {HttpError}
     */
    async request(asked: HttpRequest): Promise<IncomingMessage> {
      if (slept()) routes.dropIdle();
      const { url, within } = asked;
      try {
        return await exchange(asked, routes.known(url, within) ?? (await routes.find(url, within)));
      } catch (error) {
        if (!(error instanceof HttpError) || error.code !== 'certificate') throw error;
        const { isUnknownIssuer } = await import('./tls.ts');
        if (!isUnknownIssuer(error.cause)) throw error;
        // The TLS handshake failed, so nothing was sent. The system may trust the issuer; reading its authorities takes too
        // long for every start.
        await routes.trustMore('system');
        return exchange(asked, await routes.find(url, within));
      }
    },
    /**
     * The network of the server of `url`: of its host if that is an address, otherwise of the last connection; `undefined` before
     * the first connection. Behind a proxy the address is unknown and counts as `public`, which has the fewest rights.
     */
    async networkOf(url: URL): Promise<Network | undefined> {
      const { networkOfAddress, networkOfHost } = await import('./networks.ts');
      const named = networkOfHost(url.hostname);
      if (named !== undefined) return named;
      const { proxied, address } = routes.known(url) ?? {};
      if (proxied) return 'public';
      return address === undefined ? undefined : networkOfAddress(address);
    },
    /** Ends idle and open connections. */
    close: () => routes.close(),
  };
}

export type HttpClient = ReturnType<typeof httpClient>;

/** How requests reach their servers, and the agents that keep the connections. */
class Routes {
  readonly #require = createRequire(import.meta.url);
  readonly #settings: () => NetworkSettings;
  readonly #resolve: AddressLookup | undefined;
  readonly #agents = new Map<string, Agent>();
  /** By origin and network limit, because all such requests take the same route. */
  readonly #routes = new Map<string, Route>();
  readonly #trusting = new Map<'own' | 'system', Promise<void>>();
  #secureContext: SecureContext | undefined;

  constructor(settings: () => NetworkSettings, resolve: AddressLookup | undefined) {
    this.#settings = settings;
    this.#resolve = resolve;
  }

  known(url: URL, within?: Network): Route | undefined {
    return this.#routes.get(routeKey(url, within));
  }

  async find(url: URL, within: Network | undefined): Promise<Route> {
    const confined = within === undefined ? undefined : await import('./networks.ts');
    if (within !== undefined) confined?.refuseInside(url, within);
    const { caFile, clientCertificateFile } = this.#settings();
    const secure = url.protocol === 'https:';
    if (secure && (caFile ?? clientCertificateFile) !== undefined) await this.trustMore('own');
    const viaProxy = await routeTo(url, this.#settings());
    const platform: Platform = this.#require(
      (viaProxy && !secure ? viaProxy.secretUrl.protocol : url.protocol) === 'https:'
        ? 'node:https'
        : 'node:http',
    );
    const key = `${url.protocol} ${viaProxy?.secretUrl.href ?? ''} ${within ?? ''}`;
    const lookup =
      within === undefined ? undefined : confined?.confinedLookup(within, this.#resolve);
    const agent =
      this.#agents.get(key) ??
      (await this.#agentFor(secure ? viaProxy : undefined, platform, lookup));
    this.#agents.set(key, agent);
    const route: Route = {
      platform,
      agent,
      proxied: viaProxy !== undefined,
      ...(viaProxy && !secure && { forwarding: viaProxy }),
    };
    this.#routes.set(routeKey(url, within), route);
    return route;
  }

  /** Makes new connections trust more authorities. Idle connections are not used again. An unreadable file is read again. */
  async trustMore(authorities: 'own' | 'system'): Promise<void> {
    const known = this.#trusting.get(authorities);
    if (known) return known;
    const reading = this.#readAuthorities(authorities === 'system');
    this.#trusting.set(authorities, reading);
    reading.catch(() => this.#trusting.delete(authorities));
    return reading;
  }

  dropIdle(): void {
    for (const { freeSockets } of this.#agents.values())
      for (const socket of Object.values(freeSockets).flat()) socket?.destroy();
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
  }

  async #readAuthorities(system: boolean): Promise<void> {
    const { trust } = await import('./tls.ts');
    this.#secureContext = trust(this.#settings(), system);
    this.#agents.clear();
    this.#routes.clear();
  }

  async #agentFor(
    viaProxy: ProxyRoute | undefined,
    platform: Platform,
    lookup: LookupFunction | undefined,
  ): Promise<Agent> {
    const secureContext = this.#secureContext;
    if (!viaProxy)
      return new platform.Agent({
        keepAlive: true,
        timeout: idleTimeoutMs,
        ...(secureContext && { secureContext }),
        ...(lookup && { lookup }),
      });
    const { tunnelAgent } = await import('./company-proxy.ts');
    return tunnelAgent(viaProxy, { secureContext, idleTimeoutMs, connectTimeoutMs });
  }
}

function routeKey({ origin }: URL, within: Network | undefined): string {
  return within === undefined ? origin : `${within} ${origin}`;
}

async function routeTo(url: URL, settings: NetworkSettings): Promise<ProxyRoute | undefined> {
  if (!namesProxy(settings)) return undefined;
  const { proxyRoute } = await import('./company-proxy.ts');
  return proxyRoute(url, settings);
}

/** How a request reaches its server. */
type Route = {
  platform: Pick<typeof http, 'Agent' | 'request'>;
  agent: Agent;
  /** Whether it goes through a proxy, which then resolves the name. */
  proxied: boolean;
  /** The server's address after the first connection; with a proxy, the proxy's. */
  address?: string;
  /** A proxy for plain http, whose requests contain the whole URL. RFC 9112 §3.2.2 */
  forwarding?: ProxyRoute;
};

const connectTimeoutMs = 20_000;
const shortBytes = 16 * 1024;

/**
 * Sends one request and returns the response.
 *
 * @throws {HttpError}
 */
async function exchange(request: HttpRequest, route: Route): Promise<IncomingMessage> {
  const { url, signal, body } = request;
  const { forwarding } = route;
  if (signal?.aborted) throw new HttpError('aborted', 'aborted');
  const refusals = forwarding && (await import('./company-proxy.ts'));
  const headers = {
    host: url.host,
    'user-agent': 'latchkey',
    ...request.headers,
    ...(body && { 'content-length': body.length }),
    ...(forwarding && refusals?.proxyAuthorization(forwarding)),
  };
  const progress = { sent: false };
  try {
    const response = await respond(request, route, headers, progress);
    if (!forwarding || response.statusCode !== 407) return response;
    response.destroy();
    throw refusals?.refusedByProxy(forwarding, url.host, response);
  } catch (error) {
    if (error instanceof HttpError) throw error;
    const { sent } = progress;
    if (signal?.aborted) throw new HttpError('aborted', 'aborted', { sent, cause: error });
    const reason = error instanceof Error ? error.message : '';
    const known = notTls.test(reason)
      ? 'it does not use TLS there; check the port, or use http'
      : commonFailures.get(platformCode(error));
    const problem = known ?? (reason || platformCode(error) || 'the connection failed');
    if (forwarding && !sent) throw refusals?.unreachableProxy(forwarding, problem, error);
    throw await directFailure(url, problem, error, sent);
  }
}

/** Rejects with the platform's error. Records in `progress` whether anything may have been sent. */
async function respond(
  { url, method, body, signal }: HttpRequest,
  route: Route,
  headers: OutgoingHttpHeaders,
  progress: { sent: boolean },
): Promise<IncomingMessage> {
  const { platform, agent, forwarding } = route;
  const options: RequestOptions = { method, agent, headers: flatHeaders(headers) };
  return new Promise((resolve, reject) => {
    const outgoing = forwarding
      ? platform.request(forwarding.secretUrl, { ...options, path: url.href, auth: '' })
      : platform.request({ ...options, ...addressOf(url) });
    let received: IncomingMessage | undefined;
    const abort = () => {
      // Once all is sent, and the response has arrived and been read, the connection serves the next request.
      const isRead = received?.complete && received.readableLength === 0;
      if (isRead && outgoing.writableFinished) received?.resume();
      else outgoing.destroy();
    };
    // Most requests reuse a connection.
    const timer = outgoing.reusedSocket ? undefined : connectTimer(outgoing);
    const connected = () => {
      progress.sent = true;
      clearTimeout(timer);
    };
    signal?.addEventListener('abort', abort, { once: true });
    outgoing.on('close', () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    });
    outgoing.on('socket', (socket) => {
      if (!socket.connecting) return connected();
      socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => {
        if (socket.remoteAddress !== undefined) route.address = socket.remoteAddress;
        connected();
      });
    });
    outgoing.on('response', (response) => {
      // The reader of the body gets the same error. Without a reader, it can be ignored.
      response.on('error', ignoreError);
      received = response;
      resolve(response);
    });
    outgoing.on('error', reject);
    // Node writes a short string together with the headers, but a buffer separately.
    if (body && body.length <= shortBytes) outgoing.end(body.toString('latin1'), 'latin1');
    else outgoing.end(body);
  });
}

function connectTimer(outgoing: ClientRequest): NodeJS.Timeout {
  return setTimeout(
    () => outgoing.destroy(new Error(`no connection within ${connectTimeoutMs / 1000} s`)),
    connectTimeoutMs,
  );
}

function ignoreError(): void {}

/** The headers as a flat list of names and values, which Node sends faster than an object. */
function flatHeaders(headers: OutgoingHttpHeaders): string[] {
  const fields: string[] = [];
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (typeof value === 'string') fields.push(name, value);
    else if (value !== undefined) for (const one of [value].flat()) fields.push(name, String(one));
  }
  return fields;
}

/** The request options of a URL. Cached, because most requests have the same URL. */
function addressOf(url: URL): RequestOptions {
  const known = addresses.get(url);
  if (known) return known;
  const { protocol, hostname, port, pathname, search } = url;
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  const address = { protocol, host, port: port || null, path: pathname + search };
  addresses.set(url, address);
  return address;
}

const addresses = new WeakMap<URL, RequestOptions>();

/** The messages that people see instead of the platform's messages. */
const commonFailures = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'the connection was reset'],
  ['ENOTFOUND', 'the host was not found'],
  ['EAI_AGAIN', 'the host was not found: no answer from DNS'],
  ['ETIMEDOUT', 'no answer'],
]);

/** OpenSSL's messages about an answer that is not TLS. */
const notTls = /wrong version number|packet length too long/i;

async function directFailure(
  url: URL,
  reason: string,
  cause: unknown,
  sent: boolean,
): Promise<HttpError> {
  if (url.protocol === 'https:') {
    const { certificateProblem } = await import('./tls.ts');
    const { problem, remedy } = certificateProblem(cause) ?? {};
    if (problem !== undefined)
      return new HttpError('certificate', `cannot reach ${url.origin}: ${problem}`, {
        remedy,
        cause,
      });
  }
  return new HttpError('unreachable', `cannot reach ${url.origin}: ${reason}`, { sent, cause });
}
