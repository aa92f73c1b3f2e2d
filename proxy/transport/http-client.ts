import type { Agent, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { createRequire } from 'node:module';
import type { LookupFunction } from 'node:net';
import type { SecureContext } from 'node:tls';
import { connectTimeoutMs, exchange, type Way } from './exchange.ts';
import type { AddressLookup } from './confined-lookup.ts';
import { HttpError } from './http-error.ts';
import { namesProxy } from './names-proxy.ts';
import type { Network } from './network.ts';
import type { NetworkSettings } from './network-settings.ts';
import type { ProxyRoute } from './proxy-route.ts';

export type HttpRequest = {
  url: URL;
  method: 'GET' | 'POST' | 'DELETE';
  headers: OutgoingHttpHeaders;
  body?: Buffer;
  signal?: AbortSignal;
  /** For a URL that a server in this network named: nothing further inside is asked. */
  within?: Network;
};

/**
 * Sends a request and resolves with the response's head; its body streams. Redirects are not
 * followed, as a credential meant for one host must not reach another.
 *
 * @throws {HttpError}
 */
export interface HttpClient {
  request(request: HttpRequest): Promise<IncomingMessage>;

  /**
   * The network that the server of `url` is in: as its host says, else as it was dialled last. `undefined` before that.
   * Where a proxy leads there we do not learn its address, and take it for `public`, which may name the least.
   */
  networkOf(url: URL): Promise<Network | undefined>;

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
  resolve?: AddressLookup,
): HttpClient {
  const require = createRequire(import.meta.url);
  const agents = new Map<string, Agent>();
  /** By origin and confinement, as the way there is the same for every request. */
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

  async function findWay(url: URL, within: Network | undefined): Promise<Way> {
    const confined = within === undefined ? undefined : await import('./confined-lookup.ts');
    if (within !== undefined) confined?.refuseInside(url, within);
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
    const key = `${url.protocol} ${route?.secretUrl.href ?? ''} ${within ?? ''}`;
    const lookup = within === undefined ? undefined : confined?.confinedLookup(within, resolve);
    const agent = agents.get(key) ?? (await agentFor(secure ? route : undefined, platform, lookup));
    agents.set(key, agent);
    const way: Way = {
      platform,
      agent,
      proxied: route !== undefined,
      ...(route && !secure && { forwarding: route }),
    };
    ways.set(wayKey(url, within), way);
    return way;
  }

  async function agentFor(
    route: ProxyRoute | undefined,
    platform: Platform,
    lookup: LookupFunction | undefined,
  ): Promise<Agent> {
    if (!route)
      return new platform.Agent({
        keepAlive: true,
        timeout: idleTimeoutMs,
        ...(secureContext && { secureContext }),
        ...(lookup && { lookup }),
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
    const { url, within } = asked;
    try {
      return await exchange(asked, ways.get(wayKey(url, within)) ?? (await findWay(url, within)));
    } catch (error) {
      if (!(error instanceof HttpError) || error.code !== 'certificate') throw error;
      const { isUnknownIssuer } = await import('./trust.ts');
      if (!isUnknownIssuer(error.cause)) throw error;
      // The handshake failed, so nothing was sent. The system may know the issuer; reading what it
      // knows takes longer than a start may.
      await (withSystem ??= trustMore(true));
      return exchange(asked, await findWay(url, within));
    }
  }

  async function networkOf(url: URL): Promise<Network | undefined> {
    const { networkOfAddress, networkOfHost } = await import('./network.ts');
    const named = networkOfHost(url.hostname);
    if (named !== undefined) return named;
    const { proxied, address } = ways.get(url.origin) ?? {};
    if (proxied) return 'public';
    return address === undefined ? undefined : networkOfAddress(address);
  }

  return { request, networkOf, close: () => agents.forEach((agent) => agent.destroy()) };
}

function wayKey({ origin }: URL, within: Network | undefined): string {
  return within === undefined ? origin : `${within} ${origin}`;
}

async function routeTo(url: URL, settings: NetworkSettings): Promise<ProxyRoute | undefined> {
  if (!namesProxy(settings)) return undefined;
  const { proxyRoute } = await import('./proxy-route.ts');
  return proxyRoute(url, settings);
}
