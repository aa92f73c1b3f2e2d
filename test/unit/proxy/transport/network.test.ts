import { expect, test } from 'vitest';
import { networkOfHost, mayName, type Network } from '#proxy/transport/network';

test.each<[Network | undefined, readonly string[]]>([
  [
    'loopback',
    [
      'localhost',
      'LOCALHOST',
      'localhost.',
      'app.localhost',
      '127.0.0.1',
      '127.8.9.1',
      '0.0.0.0',
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[64:ff9b::127.0.0.1]',
      '[2002:7f00:1::]',
    ],
  ],
  [
    'private',
    [
      '10.0.0.1',
      '100.64.1.1',
      '169.254.169.254',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '198.18.0.1',
      '224.0.0.251',
      '255.255.255.255',
      '[fd00::1]',
      '[fe80::1]',
      '[fec0::1]',
      '[ff02::1]',
      '[2001:db8::1]',
      '[::ffff:10.0.0.1]',
      '[64:ff9b::10.0.0.1]',
      '[2002:c0a8:101::1]',
    ],
  ],
  [
    'public',
    [
      '1.1.1.1',
      '100.63.255.255',
      '172.32.0.1',
      '[2606:4700::1111]',
      '[::ffff:1.1.1.1]',
      '[64:ff9b::1.1.1.1]',
      '[2002:101:101::]',
    ],
  ],
  [undefined, ['example.com', 'localhost.example.com', 'notlocalhost', '127.0.0.1.nip.io']],
])('network of a URL: %s', (network, hosts) => {
  const told = hosts.map((host) => [host, networkOfHost(new URL(`http://${host}`).hostname)]);

  expect(told).toEqual(hosts.map((host) => [host, network]));
});

test('network of a URL: an inner network may name an outer one, and never the other way round', () => {
  const all: Network[] = ['public', 'private', 'loopback'];

  expect(all.map((from) => all.map((to) => mayName(from, to)))).toEqual([
    [true, false, false],
    [true, true, false],
    [true, true, true],
  ]);
});
