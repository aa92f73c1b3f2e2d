import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import {
  redirectListener,
  type RedirectListener,
  type RedirectListenerOptions,
} from '#proxy/loopback/redirect-listener';
import { freePort, listen } from '#support/loopback';
import { rawHttp } from '#support/raw-http';

const page = { status: 200, title: 'You are signed in', text: '<b>Ann & Bob</b>' };
const { signal } = new AbortController();
const isOurs = (query: URLSearchParams) => query.get('state') === 'right';

async function opened(options: RedirectListenerOptions = {}) {
  const listener = await redirectListener(options, () => Promise.resolve());
  return Object.assign(listener, { [Symbol.asyncDispose]: async () => listener.close() });
}

const waiting = (listener: RedirectListener, timeoutMs = 60_000) => {
  const redirect = listener.redirect(isOurs, { timeoutMs, signal });
  redirect.catch(() => undefined);
  return redirect;
};

test('the redirect with our state is handed over, and the browser gets the page afterwards', async () => {
  await using listener = await opened();
  const redirect = waiting(listener);
  const browser = fetch(`${listener.redirectUri}?state=right&code=c`);

  const { query, answer } = await redirect;
  await answer(page);
  const response = await browser;

  expect(query.get('code')).toBe('c');
  const html = await response.text();
  expect(html).toContain('You are signed in');
  expect(html).toContain('&#60;b&#62;Ann &#38; Bob');
  expect(html).not.toContain('<script');
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'content-security-policy': expect.stringMatching(/^default-src 'none'; style-src 'sha256-/),
  });
});

test('what comes before we ask, with another state, or a second time changes nothing', async () => {
  await using listener = await opened();
  const early = await fetch(`${listener.redirectUri}?state=right`);
  const redirect = waiting(listener);
  const wrong = await fetch(`${listener.redirectUri}?state=wrong&code=evil`);
  const browser = fetch(`${listener.redirectUri}?state=right&code=c`);
  const { query, answer } = await redirect;
  const second = await fetch(`${listener.redirectUri}?state=right&code=d`);
  await answer(page);
  await browser;

  expect([early.status, wrong.status, second.status]).toEqual([400, 400, 400]);
  expect(await wrong.text()).toContain('belongs to no sign-in');
  expect(query.get('code')).toBe('c');
});

test.each([
  ['another path', '/other?state=right', {}, 404],
  ['another method', '/callback?state=right', { method: 'POST' }, 405],
  ['another host’s name', '/callback?state=right', { host: 'evil.example' }, 404],
])('%s is turned away', async (_, target, { method = 'GET', host = '' }: Turned, status) => {
  await using listener = await opened();
  void waiting(listener);
  const { port, host: own } = new URL(listener.redirectUri);
  const text = `${method} ${target} HTTP/1.1\r\nhost: ${host || own}\r\nconnection: close\r\n\r\n`;

  const { statuses } = await rawHttp(Number(port), text);

  expect(statuses).toEqual([status]);
});

type Turned = { method?: string; host?: string };

test('nobody who comes in time is told so', async () => {
  await using listener = await opened();

  await expect(waiting(listener, 5)).rejects.toMatchObject({
    name: 'LoopbackError',
    code: 'timeout',
  });
});

test('a taken port is tried again, and free at once after closing', async () => {
  const holder = createServer();
  const port = await listen(holder);
  let sleeps = 0;
  const sleep = async () => {
    sleeps += 1;
    await new Promise((resolve) => holder.close(resolve));
  };

  const first = await redirectListener({ port }, sleep);
  await first.close();
  const second = await redirectListener({ port, attempts: 1 }, sleep);
  await second.close();

  expect(sleeps).toBe(1);
});

test('a port that stays taken is an error', async () => {
  const port = await freePort();
  await using holder = await opened({ port });

  await expect(opened({ port })).rejects.toMatchObject({ code: 'port' });
  expect(holder.redirectUri).toBe(`http://127.0.0.1:${port}/callback`);
});
