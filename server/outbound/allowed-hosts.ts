import { BlockList, isIP } from 'node:net';

/**
 * The hosts and ranges of addresses in private networks that the operator allowed: those of the options, and those of the database, which
 * change while the server runs. All guards hold the same list, which is changed in place, so that a change takes effect on the next
 * request.
 */
export class AllowedHosts {
  readonly #fixed: readonly string[];
  readonly #list: string[];

  constructor(fixed: readonly string[]) {
    this.#fixed = fixed;
    this.#list = [...fixed];
  }

  get list(): readonly string[] {
    return this.#list;
  }

  /** Replaces the hosts and ranges from the database. */
  replaceOthers(others: readonly string[]): void {
    this.#list.splice(0, this.#list.length, ...new Set([...this.#fixed, ...others]));
  }
}

interface Range {
  readonly network: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** Reads `10.0.0.0/8`; `undefined` for anything else. */
function parseRange(text: string): Range | undefined {
  const [, network = '', bits = ''] = /^([0-9a-f.:]+)\/(\d{1,3})$/i.exec(text) ?? [];
  const version = isIP(network);
  const prefix = Number(bits);
  if (version === 0 || prefix > (version === 4 ? 32 : 128)) return undefined;
  return { network, prefix, family: version === 4 ? 'ipv4' : 'ipv6' };
}

/** Whether an address is in one of the ranges of a list that also has hosts. */
export function isInRange(address: string, allowed: readonly string[]): boolean {
  const ranges = allowed.flatMap((one) => (one.includes('/') ? (parseRange(one) ?? []) : []));
  if (ranges.length === 0) return false;
  const version = isIP(address);
  if (version === 0) return false;
  const list = new BlockList();
  for (const { network, prefix, family } of ranges) list.addSubnet(network, prefix, family);
  return list.check(address, version === 4 ? 'ipv4' : 'ipv6');
}

/** The shortest prefixes: a wider range would allow more than one private network, or the whole internet. */
const leastBits = { ipv4: 8, ipv6: 32 } as const;

/** Addresses by which programs reach this host, its network card or the metadata of a cloud, which no range may contain. */
const neverInRange: readonly string[] = [
  '127.0.0.1',
  '::1',
  '0.0.0.0',
  '::',
  '169.254.169.254',
  'fe80::1',
  'fd00:ec2::254',
  '224.0.0.1',
  'ff02::1',
];
// Two lists, because a common list with `::ffff:0:0/96` would contain all of IPv4.
const never4 = new BlockList();
never4.addSubnet('127.0.0.0', 8, 'ipv4');
never4.addSubnet('0.0.0.0', 8, 'ipv4');
never4.addSubnet('169.254.0.0', 16, 'ipv4');
never4.addSubnet('224.0.0.0', 3, 'ipv4');
const never6 = new BlockList();
never6.addSubnet('::', 96, 'ipv6');
never6.addSubnet('::ffff:0:0', 96, 'ipv6');
never6.addSubnet('fe80::', 10, 'ipv6');
never6.addSubnet('ff00::', 8, 'ipv6');

/** What is wrong with an entry that an operator adds while the server runs: a predicate. `undefined` if it may be added. */
export function hostProblem(text: string): string | undefined {
  if (text.includes('://'))
    return 'is a URL: write its host, such as mcp.internal or mcp.internal:8443';
  if (text.includes('/')) return rangeProblem(text);
  const url = URL.canParse(`https://${text}/`) ? new URL(`https://${text}/`) : undefined;
  // Compared as text with the host of a URL, so it must be spelled as URLs are.
  const isPlain = url?.hostname === text || url?.host === text || text === `${url?.hostname}:443`;
  if (!isPlain) return 'is not a host such as mcp.internal or mcp.internal:8443, nor a range';
  const literal = text.replace(/^\[(.*)\](?::\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  const version = isIP(literal);
  if (version !== 0 && isLinkLocal(literal, version)) return 'is a link-local address';
  return undefined;
}

const linkLocal = new BlockList();
linkLocal.addSubnet('169.254.0.0', 16, 'ipv4');
linkLocal.addSubnet('fe80::', 10, 'ipv6');
linkLocal.addAddress('fd00:ec2::254', 'ipv6');

/** Whether an address is link-local: clouds serve the credentials of a host at such addresses. `version` is 4 or 6. */
export function isLinkLocal(address: string, version: number): boolean {
  return linkLocal.check(address, version === 4 ? 'ipv4' : 'ipv6');
}

function rangeProblem(text: string): string | undefined {
  const range = parseRange(text);
  if (!range) return 'is not a range of addresses such as 10.20.0.0/16';
  const { network, prefix, family } = range;
  if (prefix < leastBits[family]) return `is too wide: at least /${leastBits[family]}`;
  const isNever = (family === 'ipv4' ? never4 : never6).check(network, family);
  const holdsNever = neverInRange.some((address) => isInRange(address, [text]));
  if (isNever || holdsNever) {
    return 'contains addresses of this machine, of the local link or of multicast, which no range can allow';
  }
  return undefined;
}
