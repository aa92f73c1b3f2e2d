import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

import { isInRange, isLinkLocal } from './allowed-hosts.ts';

/** Why a request to someone else's server failed. `cause` is the network's error. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly code:
    | 'forbidden'
    /** The host name is unknown or leads into a private network. No error says which, so that names there cannot be probed. */
    | 'not_public'
    | 'unreachable'
    | 'timeout'
    | 'redirected'
    | 'refused'
    | 'too_large';

  constructor(code: OutboundError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The `OutboundError` behind an error of a library. */
export function outboundErrorIn(error: unknown): OutboundError | undefined {
  let at = error;
  for (let depth = 0; depth < 5 && at instanceof Error; depth += 1) {
    if (at instanceof OutboundError) return at;
    at = at.cause;
  }
  return undefined;
}

const hostWords = {
  unknown: 'was not found',
  unresolved: 'could not be resolved',
  private: 'is not on the public internet',
  unknownOrPrivate: 'was not found, or is not on the public internet',
} as const;

/** What is wrong with a host that `checkedAddresses` refused: a predicate. */
export function hostFault({ code, cause }: OutboundError): string {
  if (code === 'forbidden') return hostWords.private;
  if (code === 'not_public') return hostWords.unknownOrPrivate;
  if (code !== 'unreachable') return hostWords.unresolved;
  return hostWords[cause === undefined || isUnknownName(cause) ? 'unknown' : 'unresolved'];
}

export function isHostFault(problem: string): boolean {
  return Object.values(hostWords).some((words) => problem.includes(words));
}

/** Whether name servers said that there is no such name. */
function isUnknownName(error: unknown): boolean {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined;
  return code === 'ENOTFOUND' || code === 'ENODATA';
}

export interface OutboundGuard {
  /**
   * The hosts that the operator named, which may be in a private network: `host:port`, `host` for all its ports, or a range of addresses,
   * `10.20.0.0/16`. The list may change.
   */
  readonly allowedHosts: readonly string[];
  /**
   * Whether errors tell unknown names from private ones: only for the operator, because others could probe names in the network of
   * the server.
   */
  readonly tellsUnknownNames?: boolean;
  /** Returns all addresses of a host name: `NameResolver` in a server. */
  readonly resolve: (host: string) => Promise<readonly LookupAddress[]>;
}

/** A URL's host and port in the form of `allowedHosts`; an IPv6 address is in brackets. */
export function hostAndPort({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`;
}

/**
 * Resolves the host of a URL that someone other than the operator chose. All its addresses must be on the public
 * internet or in ranges that the operator named, unless the operator named that host, or that port of it.
 *
 * @throws {OutboundError} `forbidden` for an address; `not_public` for a name, whether it is private or unknown; `unreachable` for
 * an unknown name that the operator named
 */
export async function checkedAddresses(
  url: URL,
  { allowedHosts, resolve, tellsUnknownNames = false }: OutboundGuard,
): Promise<LookupAddress[]> {
  const { hostname } = url;
  const literal = unbracketed(hostname);
  const family = isIP(literal);
  const isAllowed = isNamed(url, allowedHosts);
  const addresses =
    family === 0
      ? await resolved(hostname, resolve, isAllowed || tellsUnknownNames)
      : [{ address: literal, family }];
  // A user who may name a host must not reach the cloud credentials of this host through a name that resolves to their address.
  const refused = () =>
    tellsUnknownNames || family !== 0
      ? new OutboundError('forbidden', `${hostname} ${hostWords.private}`)
      : notPublic(hostname);
  if (family === 0 && addresses.some((one) => isLinkLocal(one.address, one.family)))
    throw refused();
  const isReachable = ({ address }: LookupAddress) =>
    isPublicAddress(address) || isInRange(address, allowedHosts);
  if (isAllowed || addresses.every(isReachable)) return addresses;
  throw refused();
}

/** Whether `checkedAddresses` would refuse a URL without a lookup. */
export function isPlainlyForbidden(
  url: URL,
  { allowedHosts }: Pick<OutboundGuard, 'allowedHosts'>,
): boolean {
  const literal = unbracketed(url.hostname);
  const isLocal = /^(?:.*\.)?localhost\.?$/.test(literal);
  const isInside = isLocal || (isIP(literal) !== 0 && !isPublicAddress(literal));
  return isInside && !isNamed(url, allowedHosts);
}

/** Returns a lookup for connections to a URL. It refuses addresses that are not public. The address that is dialled is the one that was checked. */
export function checkedLookup(url: URL, guard: OutboundGuard): LookupFunction {
  return (host, options, found) => {
    checkedAddresses(url, guard).then(
      (addresses) => pinnedLookup(addresses)(host, options, found),
      (error: unknown) => found(error instanceof Error ? error : new Error(String(error)), ''),
    );
  };
}

/** A lookup that answers with addresses that were checked, instead of resolving again. */
export function pinnedLookup(addresses: LookupAddress[]): LookupFunction {
  return (_host, { all }, found) => {
    const [first] = addresses;
    if (all) found(null, addresses);
    else found(null, first?.address ?? '', first?.family);
  };
}

function unbracketed(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** Whether the operator named the host of a URL, or a range that its address is in. */
export function isNamed(url: URL, allowedHosts: readonly string[]): boolean {
  return (
    allowedHosts.includes(url.hostname) ||
    allowedHosts.includes(hostAndPort(url)) ||
    isInRange(unbracketed(url.hostname), allowedHosts)
  );
}

async function resolved(
  hostname: string,
  resolve: OutboundGuard['resolve'],
  tellsUnknown: boolean,
): Promise<LookupAddress[]> {
  const unknown = (cause?: unknown) => {
    if (!tellsUnknown) return notPublic(hostname);
    const error = new OutboundError('unreachable', hostname, { cause });
    error.message = `${hostname} ${hostFault(error)}`;
    return error;
  };
  const addresses = await resolve(hostname).catch((cause: unknown) => {
    throw cause instanceof OutboundError ? cause : unknown(cause);
  });
  if (addresses.length === 0) throw unknown();
  return [...addresses];
}

/** Without a cause, because a message built from the cause would reveal whether the name exists. */
function notPublic(hostname: string): OutboundError {
  return new OutboundError('not_public', `${hostname} ${hostWords.unknownOrPrivate}`);
}

/** IPv4 networks that are not the public internet. IANA special-purpose address registries */
const special: readonly (readonly [string, number, 'ipv4' | 'ipv6'])[] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['192.0.2.0', 24, 'ipv4'],
  ['192.88.99.0', 24, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['198.51.100.0', 24, 'ipv4'],
  ['203.0.113.0', 24, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
];

const blocked = new BlockList();
for (const [network, prefix, family] of special) blocked.addSubnet(network, prefix, family);

// Of IPv6 only global unicast is public, except ranges that embed IPv4 addresses or are reserved for documentation.
const globalUnicast = new BlockList();
globalUnicast.addSubnet('2000::', 3, 'ipv6');
const notGlobal = new BlockList();
notGlobal.addSubnet('2001::', 23, 'ipv6');
notGlobal.addSubnet('2001:db8::', 32, 'ipv6');
notGlobal.addSubnet('2002::', 16, 'ipv6');
notGlobal.addSubnet('3fff::', 20, 'ipv6');

/** Whether an IP address, in its usual spelling, belongs to the public internet. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !blocked.check(address, 'ipv4');
    case 6:
      return globalUnicast.check(address, 'ipv6') && !notGlobal.check(address, 'ipv6');
    default:
      return false;
  }
}
