import type { IncomingMessage, Agent } from 'node:http';
import type http from 'node:http';
import type https from 'node:https';
import { createRequire } from 'node:module';
import { BlockList, isIP, isIPv6, Socket } from 'node:net';
import type { ConnectionOptions, TLSSocket, SecureContext } from 'node:tls';
import type tls from 'node:tls';
import { HttpError, platformCode } from './http-error.ts';
import { type NetworkSettings, proxyVariables, namesProxy } from './network-settings.ts';
import { trust } from './tls.ts';
import { isLoopback, percentDecoded } from './web-url.ts';

/** A proxy to connect through. */
export type ProxyRoute = {
  /** Contains its credentials, so it must not appear in a message. */
  secretUrl: URL;
  /** `http://proxy.example:3128`, for messages. */
  origin: string;
  /** The setting that names it: `HTTPS_PROXY`. */
  setting: string;
};

/**
 * The proxy for `url`; `undefined` for a direct connection. Variables in lower case take precedence, as in curl. Loopback
 * addresses are reached directly, unless `--proxy` is set.
 *
 * @throws {HttpError} `proxy` if the setting is not a proxy that we can use
 */
export function proxyRoute(url: URL, { env, proxy }: NetworkSettings): ProxyRoute | undefined {
  if (proxy === 'none') return undefined;
  if (proxyExemption(env['no_proxy'] || env['NO_PROXY'] || '')(url)) return undefined;
  if (proxy !== undefined) return read(proxy, '--proxy');
  if (isLoopback(url)) return undefined;
  const names = proxyVariables[url.protocol === 'https:' ? 'https:' : 'http:'];
  const setting = names.find((name) => env[name]);
  return setting === undefined ? undefined : read(env[setting] ?? '', setting);
}

function read(text: string, setting: string): ProxyRoute {
  const secretUrl = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (!secretUrl?.hostname)
    throw new HttpError('proxy', `${setting} is not the URL of a proxy`, {
      remedy: `write ${setting} as http://HOST:PORT`,
    });
  const { protocol, host } = secretUrl;
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new HttpError('proxy', `${setting} names a proxy that speaks ${protocol.slice(0, -1)}`, {
      remedy: `use a proxy that supports HTTP CONNECT, in the form http://HOST:PORT`,
    });
  return { secretUrl, origin: `${protocol}//${host}`, setting };
}

/**
 * Whether `NO_PROXY` exempts a host. Supports the usual forms: `*`, a host (and all below it), a
 * suffix (`.example.com`, `*.example.com`), an address, a network (`10.0.0.0/8`), each of the first
 * four with a port; separated by commas or blanks.
 */
function proxyExemption(list: string): (url: URL) => boolean {
  const rules = list
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(rule);
  return (url) => rules.some((matches) => matches(url));
}

function rule(entry: string): (url: URL) => boolean {
  if (entry === '*') return () => true;
  if (entry.includes('/')) return network(entry);
  const [, host = entry, port] = /^(\[[^\]]*\]|[^:]*):(\d+)$/.exec(entry) ?? [];
  const name = bare(host).replace(/^\*?\./, '');
  const onlyBelow = /^\*?\./.test(host);
  return (url) => {
    if (port !== undefined && port !== portOf(url)) return false;
    const asked = bare(url.hostname);
    return (asked === name && !onlyBelow) || (!isIP(asked) && asked.endsWith(`.${name}`));
  };
}

function network(entry: string): (url: URL) => boolean {
  const [address = '', length] = entry.split('/');
  const family = isIP(bare(address));
  const bits = Number(length);
  if (!family || !Number.isInteger(bits) || bits < 0 || bits > (family === 4 ? 32 : 128))
    return () => false;
  const block = new BlockList();
  block.addSubnet(bare(address), bits, family === 4 ? 'ipv4' : 'ipv6');
  return ({ hostname }) => {
    const asked = bare(hostname);
    const of = isIP(asked);
    return of !== 0 && block.check(asked, of === 4 ? 'ipv4' : 'ipv6');
  };
}

/** The host in lower case, without the brackets of IPv6 and the trailing dot of a full name. */
function bare(host: string): string {
  return host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
}

function portOf({ port, protocol }: URL): string {
  return port || (protocol === 'https:' ? '443' : '80');
}

/** The credentials that the proxy's URL carries. RFC 9110 §11.7.2 */
export function proxyAuthorization({ secretUrl }: ProxyRoute): Record<string, string> {
  const { username, password } = secretUrl;
  if (!username && !password) return {};
  const pair = `${percentDecoded(username)}:${percentDecoded(password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(pair).toString('base64')}` };
}

/** The error for a proxy's refusal to connect to `target`. */
export function refusedByProxy(
  route: ProxyRoute,
  target: string,
  { statusCode = 0, headers, statusMessage = '' }: IncomingMessage,
): HttpError {
  const { origin, setting, secretUrl } = route;
  const statusLine = `${statusCode} ${statusMessage}`.trim();
  if (statusCode !== 407)
    return new HttpError(
      'proxy',
      `the company proxy ${origin} refused to connect to ${target}: ${statusLine}`,
      {
        remedy: `ask the administrator of the proxy to allow ${target}, or name it in NO_PROXY`,
      },
    );
  const schemes = headers['proxy-authenticate'] ?? '';
  const basic = schemes === '' || /(^|[\s,])basic\b/i.test(schemes);
  const known = secretUrl.username !== '';
  return new HttpError(
    'proxy',
    `the company proxy ${origin} ${known ? 'rejected the user and password' : 'requires a user and password'}: ${statusLine}`,
    {
      remedy: basic
        ? `${known ? 'correct' : 'put'} them in ${inEnvironment(setting)}, in the form http://USER:PASSWORD@${secretUrl.host}`
        : `it accepts only ${schemes.split(/[\s,]/)[0]}; use a local proxy such as px or cntlm, which supports it`,
    },
  );
}

export function unreachableProxy(
  { origin, setting }: ProxyRoute,
  reason: string,
  cause: unknown,
): HttpError {
  return new HttpError(
    'proxy',
    `cannot reach the company proxy ${origin} (${setting}): ${reason}`,
    {
      remedy: `check ${setting}, or name the hosts that need no proxy in NO_PROXY`,
      cause,
    },
  );
}

/** Every program on this computer can read arguments, so a password belongs in the environment. */
function inEnvironment(setting: string): string {
  return setting === '--proxy' ? 'LATCHKEY_PROXY' : setting;
}

type TunnelOptions = {
  /** For TLS inside the tunnel, and to the proxy. */
  secureContext: ConnectionOptions['secureContext'];
  idleTimeoutMs: number;
  connectTimeoutMs: number;
};

/**
 * Keep-alive connections to https servers through a proxy. A proxy's refusal is an error of its own, never an answer of the
 * server: a 401 or 407 of the proxy must not invalidate a credential.
 *
 * RFC 9110 §9.3.6
 */
export function tunnelAgent(route: ProxyRoute, options: TunnelOptions): Agent {
  const { secureContext, idleTimeoutMs } = options;
  const { https, tls } = platform();
  const agent = new https.Agent({ keepAlive: true, timeout: idleTimeoutMs });

  async function tunnelled({ host, port, servername }: ConnectionOptions): Promise<TLSSocket> {
    const name = host ?? '';
    const socket = await openTunnel(route, `${isIPv6(name) ? `[${name}]` : name}:${port}`, options);
    return secured(
      tls.connect({
        socket,
        host: name,
        ...(servername !== undefined && { servername }),
        ...(secureContext && { secureContext }),
      }),
    );
  }

  agent.createConnection = (wanted: ConnectionOptions, created) => {
    if (created) void handOver(tunnelled(wanted), created);
    return undefined;
  };
  return agent;
}

async function handOver(
  connecting: Promise<TLSSocket>,
  created: (error: Error | null, socket: Socket) => void,
): Promise<void> {
  let socket: TLSSocket;
  try {
    socket = await connecting;
  } catch (error) {
    // With an error the socket is ignored.
    return created(error instanceof Error ? error : new Error(String(error)), new Socket());
  }
  return created(null, socket);
}

/** @throws {HttpError} `proxy` */
async function openTunnel(
  route: ProxyRoute,
  target: string,
  { secureContext, connectTimeoutMs }: TunnelOptions,
): Promise<Socket> {
  const { secretUrl } = route;
  const { http, https } = platform();
  return new Promise((resolve, reject) => {
    const asking = (secretUrl.protocol === 'https:' ? https : http).request(secretUrl, {
      method: 'CONNECT',
      path: target,
      auth: '',
      agent: false,
      ...(secureContext && { secureContext }),
      headers: { host: target, ...proxyAuthorization(route) },
    });
    const refuse = (answer: IncomingMessage) => {
      asking.destroy();
      reject(refusedByProxy(route, target, answer));
    };
    const timer = setTimeout(
      () => asking.destroy(new Error(`no answer within ${connectTimeoutMs / 1000} s`)),
      connectTimeoutMs,
    );
    asking.once('close', () => clearTimeout(timer));
    asking.once('connect', (answer, socket) => {
      clearTimeout(timer);
      const status = answer.statusCode ?? 0;
      if (status >= 200 && status < 300) resolve(socket);
      else refuse(answer);
    });
    asking.once('response', refuse);
    asking.once('error', (error) =>
      reject(unreachableProxy(route, error.message || platformCode(error), error)),
    );
    asking.end();
  });
}

async function secured(socket: TLSSocket): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    socket.once('secureConnect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

type Platform = {
  http: Pick<typeof http, 'request'>;
  https: Pick<typeof https, 'Agent' | 'request'>;
  tls: Pick<typeof tls, 'connect'>;
};

/** Loaded with `require`, for the reason given at `httpClient`. */
function platform(): Platform {
  const require = createRequire(import.meta.url);
  return { http: require('node:http'), https: require('node:https'), tls: require('node:tls') };
}

type SocketOptions = { agent?: Agent; secureContext?: SecureContext };

/**
 * The connection options of a WebSocket to `url`: the company proxy, if any, and the trusted authorities.
 *
 * @throws {HttpError} `settings`, `proxy`
 */
export async function socketOptions(
  url: URL,
  settings: NetworkSettings,
  { trustsSystem, connectTimeoutMs }: { trustsSystem: boolean; connectTimeoutMs: number },
): Promise<SocketOptions> {
  const secure = url.protocol === 'wss:';
  const { caFile, clientCertificateFile } = settings;
  const more = trustsSystem || (caFile ?? clientCertificateFile) !== undefined;
  const secureContext = secure && more ? trust(settings, trustsSystem) : undefined;
  const direct: SocketOptions = secureContext ? { secureContext } : {};
  if (!namesProxy(settings) || !secure) return direct;
  const route = proxyRoute(new URL(url.href.replace(/^ws/, 'http')), settings);
  if (!route) return direct;
  return { agent: tunnelAgent(route, { secureContext, idleTimeoutMs: 0, connectTimeoutMs }) };
}
