/**
 * What an address counts as where somebody is slowed down: one household or server has 2^64 addresses of
 * IPv6, so their first half.
 */
export function networkOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head.split(':').filter(Boolean);
  const missing =
    tail === undefined ? 0 : 8 - groups.length - tail.split(':').filter(Boolean).length;
  return [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0')]
    .slice(0, 4)
    .join(':');
}
