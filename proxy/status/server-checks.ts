import { X509Certificate } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import type { IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import { connect, isIP } from 'node:net';
import type tls from 'node:tls';
import { ping } from '#auth/discovery';
import type { Clock, EpochSeconds } from '#clock/clock';
import type { HttpClient } from '#transport/http-client';
import { namesProxy, type NetworkSettings } from '#transport/network-settings';
import { proxyRoute, type ProxyRoute } from '#transport/company-proxy';
import { fail, ok, type Check, warn, type Finding } from './checks.ts';

/** The checks of the route to a server, step by step, up to an open TCP connection. */
export function networkChecks(url: URL, settings: NetworkSettings): Check[] {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const route = () => (namesProxy(settings) ? proxyRoute(url, settings) : undefined);
  return [
    {
      name: 'proxy',
      run() {
        const way = route();
        if (!way) return [ok('proxy', 'none')];
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
          const hint =
            'check the host in the URL, the network and the VPN; a company network may require a proxy';
          return [fail('dns', `${asked} was not found (${codeOf(error)})`, hint)];
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
          return [ok('tcp', `${asked}:${to} responds`)];
        } catch (error) {
          const hint = way ? `check ${way.setting}` : 'check the port, the firewall and the VPN';
          return [fail('tcp', `${asked}:${to} does not respond (${codeOf(error)})`, hint)];
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

const soonSeconds = 14 * 86_400;
const skewSeconds = 60;
const refusesPost = new Set([400, 404, 405]);
const streaming = { accept: 'text/event-stream' };

/** Sends a ping without a credential, and checks TLS, the clock and the status of the response. */
export function serverCheck(url: URL, { http, clock }: { http: HttpClient; clock: Clock }): Check {
  return {
    name: 'server',
    async run(signal) {
      const response = await http.request({ url, ...ping, signal });
      const findings = [
        ...certificateFindings(url, response, clock.now()),
        ...clockFindings(response, clock.now()),
      ];
      response.destroy();
      return [...findings, (await olderFinding(response)) ?? statusFinding(response)];

      /** HTTP+SSE servers accept no POST at this URL: MCP 2025-11-25 transports, backwards compatibility. */
      async function olderFinding({ statusCode = 0 }: IncomingMessage) {
        if (!refusesPost.has(statusCode)) return undefined;
        const stream = await http.request({ url, method: 'GET', headers: streaming, signal });
        stream.destroy();
        const what = `answers ${statusCode} to a message`;
        if (stream.statusCode === 401)
          return ok('server', `${what}, and requires authentication for its stream`);
        const isStream = /^text\/event-stream\b/i.test(stream.headers['content-type'] ?? '');
        return stream.statusCode === 200 && isStream
          ? ok('server', `${what}, and has the stream of HTTP+SSE, of 2024-11-05`)
          : undefined;
      }
    },
  };
}

function certificateFindings(url: URL, { socket }: IncomingMessage, now: EpochSeconds): Finding[] {
  if (url.protocol !== 'https:' || !isTls(socket)) return [ok('tls', 'none, on this computer')];
  const leaf = socket.getPeerCertificate(true);
  const until = Date.parse(leaf.valid_to) / 1000;
  const issuer = [leaf.issuer?.O, leaf.issuer?.CN].flat().filter(Boolean).join(', ') || 'unnamed';
  const day = leaf.valid_to;
  const what = `${socket.getProtocol() ?? 'TLS'}, issued by ${issuer}, until ${day}, trusted by ${storeOf(leaf)}`;
  if (until - now < soonSeconds)
    return [warn('tls', what, 'it expires soon: contact the administrator of the server')];
  return [ok('tls', what)];
}

/** The store that contains a certificate of the chain. */
function storeOf(leaf: tls.DetailedPeerCertificate): string {
  const { getCACertificates }: Pick<typeof tls, 'getCACertificates'> = createRequire(
    import.meta.url,
  )('node:tls');
  const chain = new Set<string>();
  for (
    let at = leaf;
    at?.fingerprint256 && !chain.has(at.fingerprint256);
    at = at.issuerCertificate
  )
    chain.add(at.fingerprint256);
  const stores = [
    ['bundled', 'Node’s own roots'],
    ['extra', 'NODE_EXTRA_CA_CERTS'],
    ['system', 'the system’s roots'],
  ] as const;
  const found = stores.find(([store]) =>
    getCACertificates(store).some((pem) => chain.has(printOf(pem))),
  );
  return found?.[1] ?? '--ca-file';
}

function printOf(pem: string): string {
  try {
    return new X509Certificate(pem).fingerprint256;
  } catch {
    return ''; // A store may contain a certificate that this version of Node cannot read.
  }
}

function clockFindings({ headers }: IncomingMessage, now: EpochSeconds): Finding[] {
  const theirs = Date.parse(headers.date ?? '') / 1000;
  if (Number.isNaN(theirs)) return [ok('clock', 'the server does not send its time')];
  const skew = Math.round(now - theirs);
  const what = `${Math.abs(skew)} s ${skew < 0 ? 'behind' : 'ahead of'} the server`;
  if (Math.abs(skew) <= skewSeconds) return [ok('clock', what)];
  return [warn('clock', what, 'set the clock of this computer automatically')];
}

function statusFinding({ statusCode = 0 }: IncomingMessage): Finding {
  const what = `answers ${statusCode}`;
  if (statusCode === 404) return fail('server', what, 'that is not an MCP endpoint; check the URL');
  if (statusCode >= 500) return fail('server', what, 'contact the administrator of the server');
  if (statusCode >= 300 && statusCode < 400)
    return fail('server', what, 'use the address of the redirect, if you trust it');
  return ok('server', statusCode === 401 ? `${what}: requires authentication` : what);
}

function isTls(socket: unknown): socket is tls.TLSSocket {
  return typeof socket === 'object' && socket !== null && 'getPeerCertificate' in socket;
}
