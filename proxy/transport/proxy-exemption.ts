import { BlockList, isIP } from 'node:net';

/**
 * Which hosts `NO_PROXY` exempts, in the forms that are customary: `*`, a host (and all below it), a
 * suffix (`.example.com`, `*.example.com`), an address, a network (`10.0.0.0/8`), each of the first
 * four with a port; separated by commas or blanks.
 */
export function proxyExemption(list: string): (url: URL) => boolean {
  const rules = list
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(rule);
  return (url) => rules.some((matches) => matches(url));
}

function rule(entry: string): (url: URL) => boolean {
  if (entry === '*') return () => true;
  if (entry.includes('/')) return network(entry);
  const [, host = entry, port] = /^(\[[^\]]*\]|[^:]*):(\d+)$/.exec(entry) ?? [];
  const name = bare(host).replace(/^\*?\./, '');
  const onlyBelow = /^\*?\./.test(host);
  return (url) => {
    if (port !== undefined && port !== portOf(url)) return false;
    const asked = bare(url.hostname);
    return (asked === name && !onlyBelow) || (!isIP(asked) && asked.endsWith(`.${name}`));
  };
}

function network(entry: string): (url: URL) => boolean {
  const [address = '', length] = entry.split('/');
  const family = isIP(bare(address));
  const bits = Number(length);
  if (!family || !Number.isInteger(bits) || bits < 0 || bits > (family === 4 ? 32 : 128))
    return () => false;
  const block = new BlockList();
  block.addSubnet(bare(address), bits, family === 4 ? 'ipv4' : 'ipv6');
  return ({ hostname }) => {
    const asked = bare(hostname);
    const of = isIP(asked);
    return of !== 0 && block.check(asked, of === 4 ? 'ipv4' : 'ipv6');
  };
}

/** Without the brackets of IPv6 and the dot that ends a full name, in small letters. */
function bare(host: string): string {
  return host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
}

function portOf({ port, protocol }: URL): string {
  return port || (protocol === 'https:' ? '443' : '80');
}
