import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';

import { OutboundError } from './outbound-error.ts';
import { isPublicAddress } from './public-address.ts';

export interface OutboundGuard {
  /** What may be anywhere, as the operator named it: `host:port`, or `host` for every port of it. */
  readonly allowedHosts: readonly string[];
  /** Every address of a name. */
  readonly resolve: (host: string) => Promise<readonly LookupAddress[]>;
}

/** A URL's host and port as `allowedHosts` has them; an IPv6 address is in brackets. */
export function hostAndPort({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`;
}

/**
 * The addresses of a URL's host that somebody else chose, all of them on the public internet unless the operator named
 * that host, or that port of it.
 *
 * @throws {OutboundError} `forbidden`, `unreachable`
 */
export async function checkedAddresses(
  url: URL,
  { allowedHosts, resolve }: OutboundGuard,
): Promise<LookupAddress[]> {
  const { hostname } = url;
  const literal = unbracketed(hostname);
  const family = isIP(literal);
  const addresses =
    family === 0 ? await resolved(hostname, resolve) : [{ address: literal, family }];
  const isReachable = ({ address }: LookupAddress) => isPublicAddress(address);
  if (isNamed(url, allowedHosts) || addresses.every(isReachable)) return addresses;
  throw new OutboundError('forbidden', `${hostname} is not on the public internet`);
}

/** Whether a URL says by itself, without a lookup, that it leads where `checkedAddresses` lets nobody. */
export function isPlainlyForbidden(
  url: URL,
  { allowedHosts }: Pick<OutboundGuard, 'allowedHosts'>,
): boolean {
  const literal = unbracketed(url.hostname);
  const isLocal = /^(?:.*\.)?localhost\.?$/.test(literal);
  const isInside = isLocal || (isIP(literal) !== 0 && !isPublicAddress(literal));
  return isInside && !isNamed(url, allowedHosts);
}

/** Looks the name of a URL up for a connection, and refuses what is not public: what was checked is what is dialled. */
export function checkedLookup(url: URL, guard: OutboundGuard): LookupFunction {
  return (_host, { all }, found) => {
    checkedAddresses(url, guard).then(
      (addresses) => answerLookup(addresses, all === true, found),
      (error: unknown) => found(error instanceof Error ? error : new Error(String(error)), ''),
    );
  };
}

/** Answers a lookup as `node:net` wants it. */
export function answerLookup(
  addresses: LookupAddress[],
  all: boolean,
  found: Parameters<LookupFunction>[2],
): void {
  const [first] = addresses;
  if (all) found(null, addresses);
  else found(null, first?.address ?? '', first?.family);
}

function unbracketed(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

function isNamed(url: URL, allowedHosts: readonly string[]): boolean {
  return allowedHosts.includes(url.hostname) || allowedHosts.includes(hostAndPort(url));
}

async function resolved(
  hostname: string,
  resolve: OutboundGuard['resolve'],
): Promise<LookupAddress[]> {
  const addresses = await resolve(hostname).catch((cause: unknown) => {
    throw new OutboundError('unreachable', `${hostname} is unknown`, { cause });
  });
  if (addresses.length === 0) throw new OutboundError('unreachable', `${hostname} is unknown`);
  return [...addresses];
}
