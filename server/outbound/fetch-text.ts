import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';

import { Agent, request } from 'undici';

import { OutboundError } from './outbound-error.ts';
import { isPublicAddress } from './public-address.ts';

export interface OutboundOptions {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Hosts, without a port, that may be anywhere: those that the operator named. */
  readonly allowedHosts: readonly string[];
  /** Every address of a name. */
  readonly resolve: (host: string) => Promise<readonly LookupAddress[]>;
}

/**
 * The body of a JSON document at a URL that somebody else chose. Only the public internet is reached:
 * the very address that was checked is the one that is dialled, whatever the name resolves to next, and
 * a redirect is not followed.
 *
 * OWASP SSRF prevention, draft-ietf-oauth-client-id-metadata-document §6.5
 *
 * @throws {OutboundError}
 */
export async function fetchText(
  url: string,
  { timeoutMs, maxBytes, allowedHosts, resolve }: OutboundOptions,
): Promise<string> {
  const { hostname } = new URL(url);
  const signal = AbortSignal.timeout(timeoutMs);
  const addresses = await inTime(checkedAddresses(hostname, allowedHosts, resolve), signal);
  const agent = new Agent({
    connect: { lookup: pinned(addresses) },
    pipelining: 0,
  });
  try {
    const headers = { accept: 'application/json', 'accept-encoding': 'identity' };
    const answer = await request(url, { dispatcher: agent, signal, headers });
    const { statusCode: status } = answer;
    if (status >= 300 && status < 400)
      throw new OutboundError('redirected', `${hostname} redirects`);
    if (status !== 200) throw new OutboundError('refused', `${hostname} answers ${status}`);
    if (
      !/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(String(answer.headers['content-type']))
    ) {
      throw new OutboundError('refused', `${hostname} does not answer with JSON`);
    }
    return await limited(answer.body, maxBytes);
  } catch (cause) {
    if (cause instanceof OutboundError) throw cause;
    const code = signal.aborted ? 'timeout' : 'unreachable';
    throw new OutboundError(code, `${hostname} cannot be read`, { cause });
  } finally {
    await agent.destroy();
  }
}

async function checkedAddresses(
  hostname: string,
  allowedHosts: readonly string[],
  resolve: OutboundOptions['resolve'],
): Promise<LookupAddress[]> {
  const literal = hostname.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(literal);
  const addresses =
    family === 0 ? await resolved(hostname, resolve) : [{ address: literal, family }];
  const isReachable = ({ address }: LookupAddress) => isPublicAddress(address);
  if (allowedHosts.includes(hostname) || addresses.every(isReachable)) return addresses;
  throw new OutboundError('forbidden', `${hostname} is not on the public internet`);
}

async function resolved(
  hostname: string,
  resolve: OutboundOptions['resolve'],
): Promise<LookupAddress[]> {
  const addresses = await resolve(hostname).catch((cause: unknown) => {
    throw new OutboundError('unreachable', `${hostname} is unknown`, { cause });
  });
  if (addresses.length === 0) throw new OutboundError('unreachable', `${hostname} is unknown`);
  return [...addresses];
}

/** Names the addresses that were checked, instead of asking again. */
function pinned(addresses: LookupAddress[]): LookupFunction {
  return (_host, { all }, found) => {
    const [first] = addresses;
    if (all) found(null, addresses);
    else found(null, first?.address ?? '', first?.family);
  };
}

async function limited(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new OutboundError('too_large', `more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Resolving a name takes no signal. */
function inTime<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new OutboundError('timeout', 'resolving the name takes too long'));
    signal.addEventListener('abort', late, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', late));
  });
}
