import { afterAll, beforeAll, expect, test } from 'vitest';
import { guardedFetch } from '#server/outbound/guarded-fetch';
import { sendMessage } from '#server/webhooks/deliveries';
import { newWebhookSecret } from '#server/webhooks/webhook-message';
import { countedServer, type CountedServer } from '#support/counted-server';

const message = { id: 'event', body: '{}' };
let site: CountedServer;
let port: string;
beforeAll(async () => {
  site = await countedServer((request, response) => {
    const path = request.url ?? '';
    if (path === '/silent') return;
    if (path === '/huge') return response.writeHead(200).end('x'.repeat(4_000_000));
    if (path === '/drip') return response.writeHead(200).write('x');
    const status = Number(path.slice(1));
    return response.writeHead(status, { location: '/204', 'retry-after': '7' }).end('no');
  });
  port = new URL(site.origin).port;
});
afterAll(() => site[Symbol.asyncDispose]());

const send = (
  path: string,
  { hosts = ['hooks.test'], origin = `http://hooks.test:${port}`, timeoutMs = 20_000 } = {},
) => {
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const options = { timeoutMs, maxBytes: 1000, discardsBody: true };
  const ports = {
    ask: guardedFetch({ ...options, allowedHosts: hosts, resolve }),
    allowedHosts: hosts,
  };
  const to = { url: `${origin}${path}`, secrets: [newWebhookSecret()], now: 1_800_000_000 };
  return sendMessage(message, to, ports);
};

test.each([
  ['/200', true, 'answered 200'],
  ['/204', true, 'answered 204'],
  ['/400', false, 'answered 400'],
  ['/410', false, 'answered 410'],
  ['/500', false, 'answered 500'],
])('%s is delivered: %s', async (path, isDelivered, words) => {
  expect(await send(path)).toMatchObject({
    isDelivered,
    words,
    status: Number(path.slice(1)),
    retryAfterSeconds: undefined,
  });
});

test.each(['/429', '/503'])('%s may say when to come back', async (path) => {
  expect(await send(path)).toMatchObject({ isDelivered: false, retryAfterSeconds: 7 });
});

test('a redirect is a failure, and is not followed', async () => {
  const before = site.seen.length;

  expect(await send('/307')).toMatchObject({
    isDelivered: false,
    words: 'answered 307; redirects are not followed',
  });
  expect(site.lines().slice(before)).toEqual(['POST /307']);
});

test('a status is accepted, however much or slowly a receiver sends afterwards', async () => {
  expect(await send('/huge')).toMatchObject({ isDelivered: true });
  expect(await send('/drip', { timeoutMs: 3_000 })).toMatchObject({ isDelivered: true });
});

test('a receiver that does not answer has failed', async () => {
  expect(await send('/silent', { timeoutMs: 100 })).toEqual({
    isDelivered: false,
    status: undefined,
    words: 'did not answer in time',
  });
});

test('an address inside the network is not dialled, whatever its name', async () => {
  const before = site.seen.length;
  const hosts: string[] = [];

  expect(await send('/200', { hosts, origin: `https://hooks.test:${port}` })).toMatchObject({
    words: 'has a host that was not found, or is not on the public internet',
  });
  expect(await send('/200', { hosts })).toMatchObject({ words: 'is not an https URL' });
  expect(site.seen.length).toBe(before);
});

test('a receiver without a listener could not be reached', async () => {
  const origin = 'http://hooks.test:1';

  expect(await send('/200', { origin })).toMatchObject({ words: 'could not be reached' });
});
