import type { Agent, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { createRequire } from 'node:module';
import type { SecureContext } from 'node:tls';
import { connectTimeoutMs, exchange, type Way } from './exchange.ts';
import { HttpError } from './http-error.ts';
import { namesProxy } from './names-proxy.ts';
import type { NetworkSettings } from './network-settings.ts';
import type { ProxyRoute } from './proxy-route.ts';

export type HttpRequest = {
  url: URL;
  method: 'GET' | 'POST' | 'DELETE';
  headers: OutgoingHttpHeaders;
  body?: Buffer;
  signal?: AbortSignal;
};

/**
 * Sends a request and resolves with the response's head; its body streams. Redirects are not
 * followed, as a credential meant for one host must not reach another.
 *
 * @throws {HttpError}
 */
export interface HttpClient {
  request(request: HttpRequest): Promise<IncomingMessage>;

  /** Ends idle and open connections. */
  close(): void;
}

type Platform = Way['platform'];

/** Shorter than what load balancers allow, so that a request rarely meets a dying connection. */
const idleTimeoutMs = 30_000;

/**
 * Keep-alive connections over `node:http`, or `node:https` once there is such a URL. They are
 * required, not imported: the import of `node:http` reads all its exports, among them WebSocket,
 * and so loads the whole of undici, which would double the time that this program takes to start.
 * Proxies and more trust than Node's own are loaded by the first request that needs them, too.
 *
 * Once the machine has `slept`, idle connections are not used again: whatever stood in between may have
 * forgotten them, and a request over one would wait for a quarter of an hour.
 */
export function httpClient(
  settings: () => NetworkSettings,
  slept: () => boolean = () => false,
): HttpClient {
  const require = createRequire(import.meta.url);
  const agents = new Map<string, Agent>();
  /** By origin, as the way there is the same for every request. */
  const ways = new Map<string, Way>();
  let secureContext: SecureContext | undefined;
  let trusted: Promise<void> | undefined;
  let withSystem: Promise<void> | undefined;

  /** From here on TLS trusts more; idle connections stay, as they were good enough before. */
  async function trustMore(system: boolean): Promise<void> {
    const { trust } = await import('./trust.ts');
    secureContext = trust(settings(), system);
    agents.clear();
    ways.clear();
  }

  async function findWay(url: URL): Promise<Way> {
    const { caFile, clientCertificateFile } = settings();
    const secure = url.protocol === 'https:';
    if (secure && (caFile ?? clientCertificateFile) !== undefined)
      await (trusted ??= trustMore(false));
    const route = await routeTo(url, settings());
    const platform: Platform = require(
      (route && !secure ? route.secretUrl.protocol : url.protocol) === 'https:'
        ? 'node:https'
        : 'node:http',
    );
    const key = `${url.protocol} ${route?.secretUrl.href ?? ''}`;
    const agent = agents.get(key) ?? (await agentFor(secure ? route : undefined, platform));
    agents.set(key, agent);
    const way = { platform, agent, ...(route && !secure && { forwarding: route }) };
    ways.set(url.origin, way);
    return way;
  }

  async function agentFor(route: ProxyRoute | undefined, platform: Platform): Promise<Agent> {
    if (!route)
      return new platform.Agent({
        keepAlive: true,
        timeout: idleTimeoutMs,
        ...(secureContext && { secureContext }),
      });
    const { tunnelAgent } = await import('./tunnel-agent.ts');
    return tunnelAgent(route, { secureContext, idleTimeoutMs, connectTimeoutMs });
  }

  function dropIdle(): void {
    for (const { freeSockets } of agents.values())
      for (const socket of Object.values(freeSockets).flat()) socket?.destroy();
  }

  async function request(asked: HttpRequest): Promise<IncomingMessage> {
    if (slept()) dropIdle();
    try {
      return await exchange(asked, ways.get(asked.url.origin) ?? (await findWay(asked.url)));
    } catch (error) {
      if (!(error instanceof HttpError) || error.code !== 'certificate') throw error;
      const { isUnknownIssuer } = await import('./trust.ts');
      if (!isUnknownIssuer(error.cause)) throw error;
      // The handshake failed, so nothing was sent. The system may know the issuer; reading what it
      // knows takes longer than a start may.
      await (withSystem ??= trustMore(true));
      return exchange(asked, await findWay(asked.url));
    }
  }

  return { request, close: () => agents.forEach((agent) => agent.destroy()) };
}

async function routeTo(url: URL, settings: NetworkSettings): Promise<ProxyRoute | undefined> {
  if (!namesProxy(settings)) return undefined;
  const { proxyRoute } = await import('./proxy-route.ts');
  return proxyRoute(url, settings);
}
