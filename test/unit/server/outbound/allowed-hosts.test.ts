import { expect, test } from 'vitest';

import { AllowedHosts, hostProblem, isInRange } from '#server/outbound/allowed-hosts';
import { checkedAddresses, isPlainlyForbidden } from '#server/outbound/checked-addresses';

test.for([
  ['mcp.internal', 'may be added'],
  ['mcp.internal:8443', 'may be added'],
  ['10.1.2.3:80', 'may be added'],
  ['[fd12::1]:8443', 'may be added'],
  ['127.0.0.1:8788', 'may be added'],
  ['10.20.0.0/16', 'may be added'],
  ['fd12:3456::/48', 'may be added'],
  ['https://mcp.internal', 'is a URL: write its host'],
  ['mcp.internal/path', 'is not a range'],
  ['user@mcp.internal', 'is not a host'],
  ['Mcp.Internal', 'is not a host'],
  ['0x7f.1', 'is not a host'],
  ['169.254.169.254', 'is a link-local address'],
  ['169.254.169.254:80', 'is a link-local address'],
  ['[fe80::1]', 'is a link-local address'],
  ['0.0.0.0/0', 'is too wide'],
  ['10.0.0.0/7', 'is too wide'],
  ['fc00::/7', 'is too wide'],
  ['127.0.0.0/8', 'contains addresses of this machine'],
  ['127.0.0.1/32', 'contains addresses of this machine'],
  ['169.254.0.0/16', 'contains addresses of this machine'],
  ['169.254.169.254/32', 'contains addresses of this machine'],
  ['::ffff:10.0.0.0/104', 'contains addresses of this machine'],
  ['::1/128', 'contains addresses of this machine'],
  ['fd00:ec2::/32', 'contains addresses of this machine'],
  ['10.20.0.0/33', 'is not a range'],
] as const)('an entry %s: %s', ([entry, problem]) => {
  expect(hostProblem(entry) ?? 'may be added').toContain(problem);
});

test('a range holds its addresses, and those of IPv4 that are written as IPv6', () => {
  const allowed = ['10.20.0.0/16', 'other.internal'];

  expect(isInRange('10.20.255.1', allowed)).toBe(true);
  expect(isInRange('10.21.0.1', allowed)).toBe(false);
  expect(isInRange('::ffff:10.20.0.1', allowed)).toBe(true);
  expect(isInRange('other.internal', allowed)).toBe(false);
});

test('a name is reached if all its addresses are public or in a range, from the moment that the range is allowed', async () => {
  const hosts = new AllowedHosts(['fixed.internal']);
  const addresses = [
    { address: '10.20.0.7', family: 4 },
    { address: '1.1.1.1', family: 4 },
  ];
  const guard = { allowedHosts: hosts.list, resolve: async () => addresses };
  const ask = () => checkedAddresses(new URL('https://mcp.internal/'), guard);

  await expect(ask()).rejects.toMatchObject({ code: 'not_public' });
  hosts.replaceOthers(['10.20.0.0/16']);
  expect(await ask()).toEqual(addresses);
  expect(isPlainlyForbidden(new URL('http://10.20.0.9/'), guard)).toBe(false);
  addresses.push({ address: '10.30.0.7', family: 4 });
  await expect(ask()).rejects.toMatchObject({ code: 'not_public' });
  addresses.pop();
  hosts.replaceOthers([]);
  await expect(ask()).rejects.toMatchObject({ code: 'not_public' });
  expect(hosts.list).toEqual(['fixed.internal']);
});
