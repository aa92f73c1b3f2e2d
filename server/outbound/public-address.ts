import { BlockList, isIP } from 'node:net';

/** Everything that is not the public internet. IANA special-purpose address registries */
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

// Of IPv6 only global unicast is public, and of that not what carries an IPv4 address or is for examples.
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
