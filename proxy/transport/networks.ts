import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns';
import { BlockList, isIPv6, type LookupFunction } from 'node:net';
import { HttpError } from './http-error.ts';

/** The kinds of networks, from public to loopback. */
const networks = ['public', 'private', 'loopback'] as const;
export type Network = (typeof networks)[number];

/** Whether a server in `from` may name a URL in `to`: only if that is not further inside. */
export function mayName(from: Network, to: Network): boolean {
  return networks.indexOf(to) <= networks.indexOf(from);
}

/** The network further inside. */
export function innerOf(one: Network, other: Network): Network {
  return mayName(one, other) ? one : other;
}

/** The network of a URL's host; `undefined` for a name, which may resolve to any address. */
export function networkOfHost(hostname: string): Network | undefined {
  if (/(^|\.)localhost\.?$/i.test(hostname)) return 'loopback';
  const address = hostname.replace(/^\[(.*)\]$/, '$1');
  return isIPv6(address) || /^\d+(\.\d+){3}$/.test(address) ? networkOfAddress(address) : undefined;
}

/** Loopback addresses. On Linux, they include 0.0.0.0 and ::. RFC 6890 */
const here = blockList(['0.0.0.0/8', '127.0.0.0/8'], ['::/128', '::1/128']);

/** Addresses that are not globally reachable or not assigned. RFC 6890, RFC 9637 */
const inside = blockList(
  [
    '10.0.0.0/8',
    '100.64.0.0/10',
    '169.254.0.0/16',
    '172.16.0.0/12',
    '192.0.0.0/24',
    '192.0.2.0/24',
    '192.168.0.0/16',
    '198.18.0.0/15',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '224.0.0.0/3',
  ],
  [
    '100::/64',
    '2001::/23',
    '2001:db8::/32',
    '3fff::/20',
    '5f00::/16',
    'fc00::/7',
    'fe80::/9',
    'ff00::/8',
  ],
);

/** IPv6 blocks whose addresses contain an IPv4 address, in the 16-bit groups `at` and `at + 1`. RFC 6052, RFC 3056 */
const embedding = [
  { block: blockList([], ['::ffff:0:0/96', '::/96', '64:ff9b::/96', '64:ff9b:1::/48']), at: 6 },
  { block: blockList([], ['2002::/16']), at: 1 },
];

export function networkOfAddress(address: string): Network {
  const family = isIPv6(address) ? 'ipv6' : 'ipv4';
  const [plain = ''] = address.split('%');
  if (here.check(plain, family)) return 'loopback';
  for (const { block, at } of family === 'ipv6' ? embedding : [])
    if (block.check(plain, family)) return networkOfAddress(embedded(plain, at));
  return inside.check(plain, family) ? 'private' : 'public';
}

/** The IPv4 address in two groups of an IPv6 address, the first of which has the index `at`. */
function embedded(address: string, at: number): string {
  // The URL parser writes every form of an address as groups alone.
  const { hostname } = new URL(`http://[${address}]`);
  const [head = '', tail] = hostname.slice(1, -1).split('::');
  const groups = (text: string) => text.split(':').filter(Boolean);
  const [front, back] = [groups(head), groups(tail ?? '')];
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0');
  const [high = 0, low = 0] = [...front, ...zeros, ...back]
    .slice(at, at + 2)
    .map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

function blockList(ipv4: readonly string[], ipv6: readonly string[]): BlockList {
  const blocks = new BlockList();
  const add = (network: string, family: 'ipv4' | 'ipv6') => {
    const [address = '', length] = network.split('/');
    blocks.addSubnet(address, Number(length), family);
  };
  for (const network of ipv4) add(network, 'ipv4');
  for (const network of ipv6) add(network, 'ipv6');
  return blocks;
}

/** All addresses of a name, as `dns.lookup` gives them. */
export type AddressLookup = (
  hostname: string,
  options: LookupAllOptions,
  found: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** @throws {HttpError} `network` when the host is an address, or this machine, further inside than `within` */
export function refuseInside({ hostname }: URL, within: Network): void {
  const to = networkOfHost(hostname);
  if (to !== undefined && !mayName(within, to)) throw tooFarInside(hostname, to);
}

/**
 * Resolves names as Node does, without addresses that are further inside than `within`. The checked address is the one that is
 * used, even if the name resolves to another one a moment later.
 */
export function confinedLookup(within: Network, resolve: AddressLookup = lookup): LookupFunction {
  return (hostname, options, found) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return found(error, '');
      const allowed = addresses.filter(({ address }) => mayName(within, networkOfAddress(address)));
      const [first] = allowed;
      const [refused] = addresses;
      if (!first) {
        const to = networkOfAddress(refused?.address ?? '0.0.0.0');
        return found(tooFarInside(hostname, to), '');
      }
      if (options.all) found(null, allowed);
      else found(null, first.address, first.family);
    });
  };
}

function tooFarInside(hostname: string, to: Network): HttpError {
  const where = to === 'loopback' ? 'this machine' : 'a private network';
  return new HttpError('network', `${hostname} is on ${where}`);
}
