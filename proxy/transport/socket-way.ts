import type { Agent } from 'node:http';
import type { SecureContext } from 'node:tls';
import { namesProxy } from './names-proxy.ts';
import type { NetworkSettings } from './network-settings.ts';
import { proxyRoute } from './proxy-route.ts';
import { trust } from './trust.ts';

export type SocketWay = { agent?: Agent; secureContext?: SecureContext };

/**
 * How a WebSocket reaches `url`: through the company's proxy where there is one, trusting what is trusted.
 *
 * @throws {HttpError} `settings`, `proxy`
 */
export async function socketWay(
  url: URL,
  settings: NetworkSettings,
  { trustsSystem, connectTimeoutMs }: { trustsSystem: boolean; connectTimeoutMs: number },
): Promise<SocketWay> {
  const secure = url.protocol === 'wss:';
  const { caFile, clientCertificateFile } = settings;
  const more = trustsSystem || (caFile ?? clientCertificateFile) !== undefined;
  const secureContext = secure && more ? trust(settings, trustsSystem) : undefined;
  const direct: SocketWay = secureContext ? { secureContext } : {};
  if (!namesProxy(settings) || !secure) return direct;
  const route = proxyRoute(new URL(url.href.replace(/^ws/, 'http')), settings);
  if (!route) return direct;
  const { tunnelAgent } = await import('./tunnel-agent.ts');
  return { agent: tunnelAgent(route, { secureContext, idleTimeoutMs: 0, connectTimeoutMs }) };
}
