import type { LookupAddress } from 'node:dns';
import { request } from 'node:http';
import { expect, test } from 'vitest';
import { httpClient } from '#proxy/transport/http-client';
import {
  networkOfHost,
  mayName,
  type Network,
  confinedLookup,
  type AddressLookup,
} from '#proxy/transport/networks';
import { countedServer } from '#support/counted-server';

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

test('network of a URL: a server may refer to URLs further outside, and never further inside', () => {
  const all: Network[] = ['public', 'private', 'loopback'];

  expect(all.map((from) => all.map((to) => mayName(from, to)))).toEqual([
    [true, false, false],
    [true, true, false],
    [true, true, true],
  ]);
});

/** A resolver whose answers follow each other, as those of a rebinding name do. */
function names(...answers: string[][]): AddressLookup {
  let count = 0;
  return (_, __, found) => {
    const addresses = answers[Math.min(count, answers.length - 1)] ?? [];
    count += 1;
    found(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  };
}

async function dialled(within: Network, addresses: string[]): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    confinedLookup(within, names(addresses))('name.example', { all: true }, (error, found) =>
      error ? reject(error) : resolve(typeof found === 'string' ? [] : found),
    );
  });
}

test('confined request: it never connects to addresses further inside than its server', async () => {
  const mixed = ['127.0.0.1', '1.1.1.1', '10.0.0.1', '::1', '2606:4700::1111'];
  const addresses = async (within: Network) =>
    (await dialled(within, mixed)).map(({ address }) => address);

  expect(await addresses('public')).toEqual(['1.1.1.1', '2606:4700::1111']);
  expect(await addresses('private')).toEqual(['1.1.1.1', '10.0.0.1', '2606:4700::1111']);
  expect(await addresses('loopback')).toEqual(mixed);
});

test.each<[Network, string[], string]>([
  ['public', ['127.0.0.1'], 'name.example is on this machine'],
  ['public', ['10.0.0.1', '::1'], 'name.example is on a private network'],
  ['private', ['::1'], 'name.example is on this machine'],
])(
  'confined request: for a server in a %s network, the error for a name at %j says so',
  async (within, at, why) => {
    await expect(dialled(within, at)).rejects.toMatchObject({ code: 'network', message: why });
  },
);

test('confined request: it connects to the address that was checked', async () => {
  await using server = await countedServer((_, response) => response.end('inside'));
  const { port } = new URL(server.origin);
  const lookup = confinedLookup('loopback', names(['127.0.0.1'], ['192.0.2.1']));
  const status = await new Promise((resolve, reject) => {
    request({ host: 'name.example', port, lookup }, (response) => resolve(response.statusCode))
      .on('error', reject)
      .end();
  });

  expect(status).toBe(200);
});

test.each([
  ['an address', 'http://127.0.0.1'],
  ['this machine’s name', 'http://localhost'],
  ['a name that resolves to this machine', 'http://name.example'],
  ['a name that resolves to it from the second time on', 'http://rebinding.example'],
])('confined request: it does not connect to %s', async (_, origin) => {
  await using server = await countedServer((__, response) => response.end('inside'));
  const { port } = new URL(server.origin);
  const client = httpClient(
    () => ({ env: {} }),
    () => false,
    origin.includes('rebinding') ? names(['192.0.2.1'], ['127.0.0.1']) : names(['127.0.0.1']),
  );
  const url = new URL(`${origin}:${port}/`);
  const ask = () =>
    client.request({ url, method: 'GET', headers: {}, within: 'public' }).catch(({ code }) => code);

  const codes = [await ask(), await ask()];
  client.close();

  expect(codes).toEqual(['network', 'network']);
  expect(server.lines()).toEqual([]);
});

test('confined request: it never reuses a connection of an unconfined one', async () => {
  await using server = await countedServer((_, response) => response.end('inside'));
  const client = httpClient(() => ({ env: {} }));
  const url = new URL(server.origin);
  const first = await client.request({ url, method: 'GET', headers: {} });
  first.resume();

  const second = client.request({ url, method: 'GET', headers: {}, within: 'private' });

  await expect(second).rejects.toMatchObject({ code: 'network' });
  expect(await client.networkOf(url)).toBe('loopback');
  client.close();
});
