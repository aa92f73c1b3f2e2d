import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import {
  redirectListener,
  type PeerUser,
  type RedirectListener,
  type RedirectListenerOptions,
} from '#proxy/auth/redirect-listener';
import { cookieBrowser } from '#support/cookie-browser';
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

test('redirect listener: the redirect with our state is accepted, and then the browser gets the page', async () => {
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

test('redirect listener: an early redirect, one with another state and a second one change nothing', async () => {
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
  expect(await wrong.text()).toContain('No sign-in in progress');
  expect(query.get('code')).toBe('c');
});

test.each([
  ['another path', '/other?state=right', {}, 404],
  ['another method', '/callback?state=right', { method: 'POST' }, 405],
  ['another host’s name', '/callback?state=right', { host: 'evil.example' }, 404],
])(
  'redirect listener: %s is refused',
  async (_, target, { method = 'GET', host = '' }: Turned, status) => {
    await using listener = await opened();
    void waiting(listener);
    const { port, host: own } = new URL(listener.redirectUri);
    const text = `${method} ${target} HTTP/1.1\r\nhost: ${host || own}\r\nconnection: close\r\n\r\n`;

    const { statuses } = await rawHttp(Number(port), text);

    expect(statuses).toEqual([status]);
  },
);

type Turned = { method?: string; host?: string };

test('redirect listener: without a redirect in time, it fails with a timeout', async () => {
  await using listener = await opened();

  await expect(waiting(listener, 5)).rejects.toMatchObject({
    name: 'LoopbackError',
    code: 'timeout',
  });
});

test('redirect listener: a port in use is retried, and close frees the port immediately', async () => {
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

test('redirect listener: a port that stays in use is an error', async () => {
  const port = await freePort();
  await using holder = await opened({ port });

  await expect(opened({ port })).rejects.toMatchObject({ code: 'port' });
  expect(holder.redirectUri).toBe(`http://127.0.0.1:${port}/callback`);
});

const asking = new URL('https://as.example/consent?state=right&code_challenge=c');
const ourUser = () => 'same' as const;

test('sign-in link: it leads the first browser to the page, by a redirect that is not stored', async () => {
  await using listener = await opened();
  void waiting(listener);
  const link = listener.linkTo(asking);

  const { status, headers } = await cookieBrowser().step(link);

  expect(link.href).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/sign-in\/[\w-]{32}$/);
  expect(status).toBe(303);
  expect(Object.fromEntries(headers)).toMatchObject({
    location: asking.href,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'set-cookie': expect.stringMatching(/; HttpOnly; SameSite=Lax$/),
  });
});

test('sign-in link: the browser that followed it finishes, even after reloading or following two', async () => {
  await using listener = await opened({ userOf: ourUser });
  const redirect = waiting(listener);
  const browser = cookieBrowser();
  const [first, second] = [listener.linkTo(asking), listener.linkTo(asking)];
  for (const link of [first, second, first]) await browser.step(link);
  const back = browser.open(`${listener.redirectUri}?state=right&code=c`);

  const { query, answer } = await redirect;
  await answer(page);

  expect(query.get('code')).toBe('c');
  expect((await back).status).toBe(200);
});

test('sign-in link: a second browser gets a page that the link was used, and the sign-in ends', async () => {
  await using listener = await opened({ userOf: ourUser });
  const redirect = waiting(listener);
  const link = listener.linkTo(asking);
  const thief = cookieBrowser();
  await thief.step(link);

  const second = await cookieBrowser().step(link);
  const late = await thief.open(`${listener.redirectUri}?state=right&code=evil`);

  expect([second.status, late.status]).toEqual([410, 400]);
  expect(await second.text()).toContain('This link was already used');
  await expect(redirect).rejects.toMatchObject({ name: 'LoopbackError', code: 'other_browser' });
});

test('sign-in link: if the browser’s user is unknown, a fast redirect waits for a second visit', async () => {
  const settled = Promise.withResolvers<void>();
  const listener = await redirectListener({ userOf: () => 'unknown' }, () => settled.promise);
  const redirect = waiting(listener);
  const link = listener.linkTo(asking);
  const thief = cookieBrowser();
  await thief.step(link);
  const finishing = thief.open(`${listener.redirectUri}?state=right&code=evil`).catch(() => 'gone');

  await cookieBrowser().step(link);
  settled.resolve();

  await expect(redirect).rejects.toMatchObject({ code: 'other_browser' });
  await listener.close();
  expect(await finishing).toBe('gone');
});

test('sign-in link: after a browser has followed it, the redirect of another browser is refused', async () => {
  await using listener = await opened({ userOf: ourUser });
  const redirect = waiting(listener);
  await cookieBrowser().step(listener.linkTo(asking));

  const other = await fetch(`${listener.redirectUri}?state=right&code=evil`);

  expect(other.status).toBe(400);
  expect(await other.text()).toContain('started in another browser');
  await expect(redirect).rejects.toMatchObject({ code: 'other_browser' });
});

test('sign-in link: while unused, a browser that opened the page directly can finish', async () => {
  await using listener = await opened({ userOf: () => 'other' });
  const redirect = waiting(listener);
  listener.linkTo(asking);
  const back = fetch(`${listener.redirectUri}?state=right&code=c`);

  const { query, answer } = await redirect;
  await answer(page);
  await back;

  expect(query.get('code')).toBe('c');
});

test('sign-in link: another user of the computer can neither use it nor finish with it', async () => {
  let user: PeerUser = 'other';
  await using listener = await opened({ userOf: () => user });
  const redirect = waiting(listener);
  const link = listener.linkTo(asking);

  const visit = await cookieBrowser().step(link);
  user = 'same';
  const browser = cookieBrowser();
  await browser.step(link);
  user = 'other';
  const finish = await fetch(`${listener.redirectUri}?state=right&code=evil`);
  user = 'same';
  const back = browser.open(`${listener.redirectUri}?state=right&code=c`);
  const { query, answer } = await redirect;
  await answer(page);
  await back;

  expect([visit.status, finish.status]).toEqual([403, 403]);
  expect(visit.headers.get('location')).toBeNull();
  expect(query.get('code')).toBe('c');
});

test('sign-in link: only a GET to the loopback host uses it up', async () => {
  await using listener = await opened({ userOf: ourUser });
  void waiting(listener);
  const link = listener.linkTo(asking);
  const { port, host, pathname } = link;
  const bare = (method: string, name: string) =>
    rawHttp(
      Number(port),
      `${method} ${pathname} HTTP/1.1\r\nhost: ${name}\r\nconnection: close\r\n\r\n`,
    );

  const others = [await bare('HEAD', host), await bare('GET', `evil.example:${port}`)];
  const first = await cookieBrowser().step(link);

  expect(others.flatMap(({ statuses }) => statuses)).toEqual([405, 404]);
  expect(first.status).toBe(303);
});
