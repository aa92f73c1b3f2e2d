import type http from 'node:http';
import type { Agent, IncomingMessage } from 'node:http';
import type https from 'node:https';
import { createRequire } from 'node:module';
import { isIPv6, Socket } from 'node:net';
import type tls from 'node:tls';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { platformCode } from './http-error.ts';
import { proxyAuthorization, refusedByProxy, unreachableProxy } from './proxy-refusal.ts';
import type { ProxyRoute } from './proxy-route.ts';

export type TunnelOptions = {
  /** For the TLS inside the tunnel, and for the proxy's own. */
  secureContext: ConnectionOptions['secureContext'];
  idleTimeoutMs: number;
  connectTimeoutMs: number;
};

/**
 * Connections to https servers through a proxy, kept alive as direct ones are. A proxy's refusal is an
 * error of its own and never an answer of the server: its 401 or 407 must not cost us a credential.
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
    // With an error nobody looks at the socket.
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

/** Required for the reason that `httpClient` gives. */
function platform(): Platform {
  const require = createRequire(import.meta.url);
  return { http: require('node:http'), https: require('node:https'), tls: require('node:tls') };
}
