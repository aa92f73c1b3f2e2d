import type { LookupAddress } from 'node:dns';
import { request } from 'node:http';
import { expect, test } from 'vitest';
import { confinedLookup, type AddressLookup } from '#proxy/transport/confined-lookup';
import { httpClient } from '#proxy/transport/http-client';
import type { Network } from '#proxy/transport/network';
import { countedServer } from '#support/counted-server';

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

test('confined request: addresses further inside than its server are never connected to', async () => {
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
  'confined request: for a server in a %s network a name at %j is an error that says so',
  async (within, at, why) => {
    await expect(dialled(within, at)).rejects.toMatchObject({ code: 'network', message: why });
  },
);

test('confined request: the address that was checked is the one that is connected to', async () => {
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
])('confined request: %s is not connected to', async (_, origin) => {
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
