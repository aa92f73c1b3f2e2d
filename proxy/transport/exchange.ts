import type http from 'node:http';
import type {
  Agent,
  ClientRequest,
  IncomingMessage,
  OutgoingHttpHeaders,
  RequestOptions,
} from 'node:http';
import type { HttpRequest } from './http-client.ts';
import { HttpError, platformCode } from './http-error.ts';
import type { ProxyRoute } from './proxy-route.ts';

/** How one request travels. */
export type Way = {
  platform: Pick<typeof http, 'Agent' | 'request'>;
  agent: Agent;
  /** Whether a proxy leads there, which then looks the name up. */
  proxied: boolean;
  /** The server's address, once it was reached; with a proxy that is the proxy's. */
  address?: string;
  /** A proxy that is told the whole URL, as for plain http. RFC 9112 §3.2.2 */
  forwarding?: ProxyRoute;
};

export const connectTimeoutMs = 20_000;
const shortBytes = 16 * 1024;

/**
 * One request and the head of its response.
 *
 * @throws {HttpError}
 */
export async function exchange(request: HttpRequest, way: Way): Promise<IncomingMessage> {
  const { url, signal, body } = request;
  const { forwarding } = way;
  if (signal?.aborted) throw new HttpError('aborted', 'aborted');
  const refusals = forwarding && (await import('./proxy-refusal.ts'));
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
      // Whoever reads the body sees the same error; without a reader it is not news.
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
    const { certificateProblem } = await import('./certificate-problem.ts');
    const { problem, remedy } = certificateProblem(cause) ?? {};
    if (problem !== undefined)
      return new HttpError('certificate', `${url.origin}: ${problem}`, { remedy, cause });
  }
  return new HttpError('unreachable', `${url.origin}: ${reason}`, { sent, cause });
}
