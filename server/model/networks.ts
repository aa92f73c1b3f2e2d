/** The lengths, in characters, of the networks of 56 and 48 bits that contain the network of an IPv6 address. */
export const widerLengths = ['2001:0db8:0000:00'.length, '2001:0db8:0000'.length];

/**
 * The network of an IP address: for IPv6 the first 64 bits in full, because one household or server has 2^64 addresses;
 * for IPv4 the address itself.
 */
export function networkOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head.split(':').filter(Boolean);
  const missing =
    tail === undefined ? 0 : 8 - groups.length - tail.split(':').filter(Boolean).length;
  return [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0')]
    .slice(0, 4)
    .map((group) => group.padStart(4, '0'))
    .join(':');
}

/** The network of an IP address, and for IPv6 those of 56 and 48 bits around it. */
export function networksOf(address: string): string[] {
  const network = networkOf(address);
  const around = network.includes(':')
    ? widerLengths.map((length) => network.slice(0, length))
    : [];
  return [network, ...around];
}
