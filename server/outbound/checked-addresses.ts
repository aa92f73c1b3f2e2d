import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';

import { OutboundError } from './outbound-error.ts';
import { isPublicAddress } from './public-address.ts';

export interface OutboundGuard {
  /** Hosts, without a port, that may be anywhere: those that the operator named. */
  readonly allowedHosts: readonly string[];
  /** Every address of a name. */
  readonly resolve: (host: string) => Promise<readonly LookupAddress[]>;
}

/**
 * The addresses of a host that somebody else chose, all of them on the public internet. `hostname` is as a URL spells
 * it, an IPv6 address in brackets.
 *
 * @throws {OutboundError} `forbidden`, `unreachable`
 */
export async function checkedAddresses(
  hostname: string,
  { allowedHosts, resolve }: OutboundGuard,
): Promise<LookupAddress[]> {
  const literal = hostname.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(literal);
  const addresses =
    family === 0 ? await resolved(hostname, resolve) : [{ address: literal, family }];
  const isReachable = ({ address }: LookupAddress) => isPublicAddress(address);
  if (allowedHosts.includes(hostname) || addresses.every(isReachable)) return addresses;
  throw new OutboundError('forbidden', `${hostname} is not on the public internet`);
}

/** Looks names up for a connection, and refuses what is not public, so that what was checked is what is dialled. */
export function checkedLookup(guard: OutboundGuard): LookupFunction {
  return (host, { all }, found) => {
    checkedAddresses(host, guard).then(
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
