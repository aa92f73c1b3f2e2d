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
import type { AddressLookup, Network } from './networks.ts';

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
    const { trust } = await import('./tls.ts');
    secureContext = trust(settings(), system);
    agents.clear();
    ways.clear();
  }

  async function findWay(url: URL, within: Network | undefined): Promise<Way> {
    const confined = within === undefined ? undefined : await import('./networks.ts');
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
    const { tunnelAgent } = await import('./company-proxy.ts');
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
      const { isUnknownIssuer } = await import('./tls.ts');
      if (!isUnknownIssuer(error.cause)) throw error;
      // The handshake failed, so nothing was sent. The system may know the issuer; reading what it
      // knows takes longer than a start may.
      await (withSystem ??= trustMore(true));
      return exchange(asked, await findWay(url, within));
    }
  }

  async function networkOf(url: URL): Promise<Network | undefined> {
    const { networkOfAddress, networkOfHost } = await import('./networks.ts');
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
  const { proxyRoute } = await import('./company-proxy.ts');
  return proxyRoute(url, settings);
}

/** How one request travels. */
type Way = {
  platform: Pick<typeof http, 'Agent' | 'request'>;
  agent: Agent;
  /** Whether a proxy leads there, which then looks the name up. */
  proxied: boolean;
  /** The server's address, once it was reached; with a proxy that is the proxy's. */
  address?: string;
  /** A proxy that is told the whole URL, as for plain http. RFC 9112 §3.2.2 */
  forwarding?: ProxyRoute;
};

const connectTimeoutMs = 20_000;
const shortBytes = 16 * 1024;

/**
 * One request and the head of its response.
 *
 * @throws {HttpError}
 */
async function exchange(request: HttpRequest, way: Way): Promise<IncomingMessage> {
  const { url, signal, body } = request;
  const { forwarding } = way;
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
    const response = await respond(request, way, headers, progress);
    if (!forwarding || response.statusCode !== 407) return response;
    response.destroy();
    throw refusals?.refusedByProxy(forwarding, url.host, response);
  } catch (error) {
    if (error instanceof HttpError) throw error;
    const { sent } = progress;
    if (signal?.aborted) throw new HttpError('aborted', 'aborted', { sent, cause: error });
    const reason = error instanceof Error ? error.message : '';
    const said = reason || platformCode(error) || 'the connection failed';
    if (forwarding && !sent) throw refusals?.unreachableProxy(forwarding, said, error);
    throw await directFailure(url, said, error, sent);
  }
}

/** Rejects with what the platform says; `progress` tells how far it came. */
async function respond(
  { url, method, body, signal }: HttpRequest,
  way: Way,
  headers: OutgoingHttpHeaders,
  progress: { sent: boolean },
): Promise<IncomingMessage> {
  const { platform, agent, forwarding } = way;
  const options: RequestOptions = { method, agent, headers: inARow(headers) };
  return new Promise((resolve, reject) => {
    const outgoing = forwarding
      ? platform.request(forwarding.secretUrl, { ...options, path: url.href, auth: '' })
      : platform.request({ ...options, ...addressOf(url) });
    const abort = () => outgoing.destroy();
    // Most requests find a connection that stands.
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
        if (socket.remoteAddress !== undefined) way.address = socket.remoteAddress;
        connected();
      });
    });
    outgoing.on('response', (response) => {
      // The reader of the body gets the same error; without a reader it is not news.
      response.on('error', nobodyAsked);
      resolve(response);
    });
    outgoing.on('error', reject);
    // A short text goes out in one write with the headers, which a buffer does not.
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

function nobodyAsked(): void {}

/** Name, value, name, value: Node sends that as it stands, and takes longer for an object. */
function inARow(headers: OutgoingHttpHeaders): string[] {
  const fields: string[] = [];
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (typeof value === 'string') fields.push(name, value);
    else if (value !== undefined) for (const one of [value].flat()) fields.push(name, String(one));
  }
  return fields;
}

/** What a request takes of a URL, spelled out once: most requests go to the same one. */
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
      return new HttpError('certificate', `${url.origin}: ${problem}`, { remedy, cause });
  }
  return new HttpError('unreachable', `${url.origin}: ${reason}`, { sent, cause });
}

/**
 * No response came. `cause` is the platform's own error.
 *
 * `unreachable`: no connection, or one that ended early. `proxy`: the proxy in between does not let us
 * through. `certificate`: TLS does not trust one of the two sides. `settings`: a file of ours for TLS
 * is of no use. `network`: it leads further inside than it may. `aborted`: the caller gave it up.
 */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: 'unreachable' | 'proxy' | 'certificate' | 'settings' | 'network' | 'aborted';
  /** What to do about it, where that is known. */
  readonly remedy: string | undefined;
  /** Whether some of the request may have reached the server. */
  readonly sent: boolean;

  constructor(
    code: HttpError['code'],
    message: string,
    {
      remedy,
      sent = false,
      ...options
    }: ErrorOptions & { remedy?: string | undefined; sent?: boolean } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
    this.sent = sent;
  }
}

/** The code that the platform gave an error: `ECONNREFUSED`, `CERT_HAS_EXPIRED`. */
export function platformCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** How this machine reaches the network, where that is not the ordinary way. */
export type NetworkSettings = {
  /** The environment, for `HTTPS_PROXY` and its kind, which a company sets for all programs. */
  env: Readonly<Record<string, string | undefined>>;
  /** A proxy for all there is, loopback included; `none` for none. Wins over the environment's. */
  proxy?: string;
  /** PEM or DER: authorities to be trusted besides Node's and the system's. */
  caFile?: string;
  /** PEM: whom we are for servers that ask by TLS. */
  clientCertificateFile?: string;
  clientKeyFile?: string;
  clientKeyPassphraseSecret?: string;
};

/** The environment's variables for each kind of URL; the first that is set counts. */
export const proxyVariables = {
  'https:': ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'],
  'http:': ['http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'],
};

/** Whether any proxy has to be considered. Asked before each request, so it looks at names only. */
export function namesProxy({ env, proxy }: NetworkSettings): boolean {
  const names = Object.values(proxyVariables).flat();
  return proxy !== undefined || names.some((name) => env[name]);
}
