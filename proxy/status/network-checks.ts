import { lookup } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import { namesProxy, type NetworkSettings } from '#transport/http-client';
import { proxyRoute, type ProxyRoute } from '#transport/company-proxy';
import { fail, ok, type Check } from './finding.ts';

/** The way to a server, step by step, up to the first byte that can go there. */
export function networkChecks(url: URL, settings: NetworkSettings): Check[] {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const route = () => (namesProxy(settings) ? proxyRoute(url, settings) : undefined);
  return [
    {
      name: 'proxy',
      run() {
        const way = route();
        if (!way) return [ok('proxy', 'none on the way')];
        return [ok('proxy', `${way.origin}, by ${way.setting}`)];
      },
    },
    {
      name: 'dns',
      async run() {
        const asked = nextHost(host, route());
        if (isIP(asked)) return [ok('dns', `${asked} is an address`)];
        try {
          const found = await lookup(asked, { all: true });
          return [ok('dns', `${asked} is ${found.map(({ address }) => address).join(', ')}`)];
        } catch (error) {
          const hint = 'check the host in the URL, the network, a VPN; a company may want a proxy';
          return [fail('dns', `${asked} is not found (${codeOf(error)})`, hint)];
        }
      },
    },
    {
      name: 'tcp',
      async run(signal) {
        const way = route();
        const to = way ? Number(way.secretUrl.port) || 80 : port;
        const asked = nextHost(host, way);
        try {
          await reach(asked, to, signal);
          return [ok('tcp', `${asked}:${to} answers`)];
        } catch (error) {
          const hint = way ? `check ${way.setting}` : 'check the port, a firewall, a VPN';
          return [fail('tcp', `${asked}:${to} does not answer (${codeOf(error)})`, hint)];
        }
      },
    },
  ];
}

function nextHost(host: string, route: ProxyRoute | undefined): string {
  return route?.secretUrl.hostname.replace(/^\[|\]$/g, '') ?? host;
}

async function reach(host: string, port: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const socket = connect({ host, port, signal, timeout: 10_000 });
    socket.once('connect', () => {
      socket.destroy();
      resolve();
    });
    socket.once('timeout', () => socket.destroy(new Error('no answer within 10 s')));
    socket.once('error', reject);
  });
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown reason';
  return 'code' in error ? String(error.code) : error.message;
}
