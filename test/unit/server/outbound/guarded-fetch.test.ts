import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import { isPublicAddress } from '#server/outbound/checked-addresses';
import { fetchText } from '#server/outbound/guarded-fetch';
import { countedServer, type CountedServer } from '#support/counted-server';

let site: CountedServer;
let port: string;
beforeAll(async () => {
  site = await countedServer((request, response) => {
    const json = { 'content-type': 'application/json' };
    switch (request.url ?? '') {
      case '/slow':
        return response.writeHead(200, json).write('{');
      case '/endless':
        response.writeHead(200, json);
        return response.end('x'.repeat(20_481));
      case '/moved':
        return response.writeHead(302, { location: '/document' }).end();
      case '/page':
        return response.writeHead(200, { 'content-type': 'text/html' }).end('{}');
      case '/missing':
        return response.writeHead(404, json).end('{}');
      default:
        return response.writeHead(200, json).end('{"a":1}');
    }
  });
  port = new URL(site.origin).port;
});
afterAll(() => site[Symbol.asyncDispose]());

const resolvingTo = (...addresses: string[]) =>
  vi.fn(async () =>
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
  );

const get = (url: string, but: Partial<Parameters<typeof fetchText>[1]> = {}) =>
  fetchText(url, {
    timeoutMs: 30_000,
    maxBytes: 20_480,
    allowedHosts: [],
    resolve: resolvingTo('127.0.0.1'),
    ...but,
  });
const allowed = { allowedHosts: ['docs.test'] };

test('a document of an allowed host is read at the address that its name resolves to', async () => {
  expect(await get(`http://docs.test:${port}/document`, allowed)).toBe('{"a":1}');
});

test('a host that is allowed with a port is allowed at that port alone', async () => {
  const at = (place: string) => get(`http://docs.test:${port}/`, { allowedHosts: [place] });
  const withoutPort = { resolve: resolvingTo('127.0.0.1'), allowedHosts: ['docs.test:443'] };

  expect(await at(`docs.test:${port}`)).toBe('{"a":1}');
  await expect(at('docs.test:443')).rejects.toMatchObject({ code: 'not_public' });
  await expect(at(`other.test:${port}`)).rejects.toMatchObject({ code: 'not_public' });
  await expect(get('http://docs.test/', withoutPort)).rejects.toMatchObject({ code: 'not_public' });
  await expect(get('https://docs.test/', withoutPort)).rejects.not.toMatchObject({
    code: 'not_public',
  });
});

test('the address that was checked is dialled, whatever the name resolves to afterwards', async () => {
  const resolve = vi
    .fn<() => Promise<{ address: string; family: number }[]>>()
    .mockResolvedValueOnce([{ address: '127.0.0.1', family: 4 }])
    .mockResolvedValue([{ address: '127.0.0.9', family: 4 }]);

  await get(`http://docs.test:${port}/document`, { ...allowed, resolve });

  expect(resolve).toHaveBeenCalledTimes(1);
});

test.each([
  ['in a private network', resolvingTo('10.0.0.5')],
  ['unknown', () => Promise.reject(new Error('getaddrinfo ENOTFOUND docs.test'))],
  ['without an address', async () => []],
])('76: the refusal of a name does not tell that it is %s', async (_, resolve) => {
  const refusal: unknown = await get(`http://docs.test:${port}/`, {
    resolve,
    allowedHosts: [],
  }).catch((error: unknown) => error);

  expect(refusal).toMatchObject({
    code: 'not_public',
    message: 'docs.test was not found, or is not on the public internet',
  });
  expect(Object(refusal)).not.toHaveProperty('cause');
});

describe('the operator learns why a name is refused', () => {
  const failing = (code: string) => () =>
    Promise.reject(Object.assign(new Error(`getaddrinfo ${code}`), { code }));

  test.each([
    ['is not on the public internet', resolvingTo('10.0.0.5')],
    ['was not found', failing('ENOTFOUND')],
    ['was not found', async () => []],
    ['could not be resolved', failing('EAI_AGAIN')],
  ])('%s', async (words, resolve) => {
    const refusal = get(`http://docs.test:${port}/`, { resolve, tellsUnknownNames: true });

    await expect(refusal).rejects.toThrow(`docs.test ${words}`);
  });
});

describe('a name is refused that resolves to', () => {
  test.each([
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '::1',
    '::',
    'fc00::1',
    'fd12::1',
    'fe80::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001:db8::1',
  ])('%s', async (address) => {
    const before = site.seen.length;

    await expect(
      get(`http://docs.test:${port}/`, { resolve: resolvingTo(address) }),
    ).rejects.toMatchObject({ code: 'not_public' });
    expect(site.seen).toHaveLength(before);
  });

  test('an address of the local link, also where the operator named the host', async () => {
    const resolve = resolvingTo('169.254.169.254');
    await expect(
      get(`http://docs.test:${port}/`, { resolve, allowedHosts: ['docs.test'] }),
    ).rejects.toMatchObject({ code: 'not_public' });
  });

  test('one public and one private address', async () => {
    await expect(
      get(`http://docs.test:${port}/`, { resolve: resolvingTo('93.184.216.34', '10.0.0.1') }),
    ).rejects.toMatchObject({ code: 'not_public' });
  });
});

test.each(['127.0.0.1', '2130706433', '0177.0.0.1', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]', '0'])(
  'the address %s is refused however it is written',
  async (host) => {
    await expect(get(`http://${host}:${port}/`)).rejects.toMatchObject({ code: 'forbidden' });
  },
);

test.each(['93.184.216.34', '8.8.8.8', '172.32.0.1', '2606:4700:4700::1111'])(
  '%s is on the public internet',
  (address) => {
    expect(isPublicAddress(address)).toBe(true);
  },
);

test.each([
  ['redirects', '/moved', 'redirected'],
  ['is too long', '/endless', 'too_large'],
  ['is too slow', '/slow', 'timeout'],
  ['is no JSON', '/page', 'refused'],
  ['is not there', '/missing', 'refused'],
])('a document that %s is refused', async (_, path, code) => {
  const brief = code === 'timeout' ? { timeoutMs: 300 } : {};

  await expect(
    get(`http://docs.test:${port}${path}`, { ...allowed, ...brief }),
  ).rejects.toMatchObject({ code });
});

test('a name that never resolves ends in time', async () => {
  const resolve = () => new Promise<never>(() => undefined);

  await expect(get('http://docs.test/', { resolve, timeoutMs: 300 })).rejects.toMatchObject({
    code: 'timeout',
  });
});
