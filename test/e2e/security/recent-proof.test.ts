import { afterAll, beforeAll, expect, test } from 'vitest';

import { passwordHashing } from '#server/accounts/passwords';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';
import {
  insertPasskey,
  insertTotp,
  listPasskeys,
  markTotpConfirmed,
} from '#server/db/authenticators';
import { hasIdentity, linkIdentity } from '#server/db/identities';
import { listSessions } from '#server/db/sessions';

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

const changes: [string, 'json' | 'form'][] = [
  ['/account/passkeys/options', 'json'],
  ['/account/passkeys', 'json'],
  ['/account/provider', 'form'],
  ['/account/provider/unlink', 'form'],
];

const send = (browser: SignedInBrowser, path: string, body: 'json' | 'form') =>
  app.post({
    path,
    cookie: browser.cookie,
    body: body === 'json' ? '{}' : `csrf_token=${browser.csrfToken}`,
    headers:
      body === 'json'
        ? { 'content-type': 'application/json', 'x-csrf-token': browser.csrfToken }
        : {},
  });

test.each(changes)(
  '83: POST %s adds no sign-in method ten minutes after the sign-in',
  async (path, body) => {
    const browser = await app.browser(`user_${path.replaceAll('/', '_')}`);
    await app.server.clock.advance(599);
    const soon = await send(browser, path, body);
    await app.server.clock.advance(1);
    const late = await send(browser, path, body);

    expect(soon.text).not.toContain('Sign in again');
    expect(late.status).toBe(403);
    expect(late.text).toContain('Sign in again');
  },
);

test.each<[string, 'json' | 'form']>([
  ...changes,
  ['/account/passkeys/passkey_1/remove', 'form'],
  ['/account/second-factor', 'form'],
  ['/account/second-factor/confirm', 'form'],
])('83: POST %s needs more than the password from a person with a passkey', async (path, body) => {
  const userId = `user_first${path.replaceAll('/', '_')}`;
  const browser = await app.browser(userId);
  const { clock, stores } = app.server;
  const passkey = { id: `of_${userId}`, userId, name: 'Laptop', publicKey: 'AA', counter: 0 };
  const times = { createdAt: clock.now(), lastUsedAt: undefined };
  await insertPasskey(stores.db, { ...passkey, ...times, transports: [] });
  const answer = await send(browser, path.replace('passkey_1', passkey.id), body);

  expect([answer.status, answer.text]).toEqual([
    403,
    expect.stringContaining('Sign in with your passkey, then'),
  ]);
  expect(await listPasskeys(stores.db, userId)).toHaveLength(1);
});

test.each<[string, 'json' | 'form']>([
  ...changes,
  ['/account/second-factor', 'form'],
  ['/account/second-factor/confirm', 'form'],
])(
  '83: POST %s needs more than the password from a person with a linked account',
  async (path, body) => {
    const userId = `user_linked${path.replaceAll('/', '_')}`;
    const browser = await app.browser(userId);
    const { db } = app.server.stores;
    await linkIdentity(db, { issuer: 'https://id.example', subject: userId, userId });
    const answer = await send(browser, path, body);

    expect([answer.status, answer.text]).toEqual([
      403,
      expect.stringContaining('Sign in with your linked account, then'),
    ]);
    expect(await hasIdentity(db, 'https://id.example', userId)).toBe(true);
  },
);

test('83: linked account: a person who has just signed in with two factors can unlink it', async () => {
  const userId = 'user_unlinks';
  const membership = { organizationId: 'org_acme', role: 'member' } as const;
  const browser = await app.browser(userId, membership, 2);
  const { db } = app.server.stores;
  await linkIdentity(db, { issuer: 'https://id.example', subject: userId, userId });
  await send(browser, '/account/provider/unlink', 'form');

  expect(await hasIdentity(db, 'https://id.example', userId)).toBe(false);
});

test('83: account page: after ten minutes it leads to a new sign-in, although the person is signed in', async () => {
  const { cookie } = await app.browser('user_again');
  const before = await app.get('/account', cookie);
  await app.server.clock.advance(600);
  const after = await app.get('/account', cookie);
  const again = await app.get('/sign-in?again=1&next=/account', cookie);

  expect(before.text).toContain('data-passkey="add"');
  expect(before.text).not.toContain('/sign-in?again=1');
  expect(after.text).not.toContain('data-passkey="add"');
  expect(after.text).not.toContain('action="/account/provider"');
  expect(after.text).toContain('href="/sign-in?again=1&amp;next=/account"');
  expect(again.status).toBe(200);
  expect(again.text).toContain('name="next" value="/account"');
});

const member = { organizationId: 'org_acme', role: 'member' } as const;
const old = 'correct horse battery';
const changePassword = async (browser: SignedInBrowser) => {
  const hash = await passwordHashing({ log2Cost: 8 }).hash(old);
  const { connection } = app.server.stores;
  const keep = connection.prepare('insert into password (person_id, hash) values (?, ?)');
  keep.run(browser.userId, hash);
  const typed = { current: old, password: 'another horse battery' };
  const fields = { ...typed, repeated: typed.password, csrf_token: browser.csrfToken };
  const body = new URLSearchParams(fields).toString();
  return app.post({ path: '/account/password', cookie: browser.cookie, body });
};
const provedBy = async ({ userId }: SignedInBrowser) => {
  const { stores, clock } = app.server;
  return (await listSessions(stores.db, userId, clock.now())).map(({ factors }) => factors);
};

test.each([
  [599, 2],
  [600, 1],
])(
  '83: changed password: %i seconds after the sign-in it leaves %i factors proved',
  async (later, factors) => {
    const browser = await app.browser(`user_changes_${later}`, member, 2);
    await app.server.clock.advance(later);
    const { status } = await changePassword(browser);

    expect([status, await provedBy(browser)]).toEqual([303, [factors]]);
  },
);

test('83: changed password: late after the sign-in, it also requires the code of the app', async () => {
  const browser = await app.browser('user_changes_totp', member, 2);
  const { stores, clock } = app.server;
  const { userId } = browser;
  await insertTotp(stores.db, { userId, sealedSecret: 'sealed', createdAt: clock.now() });
  const sealedSecret = 'sealed';
  const confirmed = { sealedSecret, step: 1, now: clock.now(), recoveryHashes: ['hash'] };
  await markTotpConfirmed(stores.db, userId, confirmed);
  await clock.advance(600);
  const { text } = await changePassword(browser);

  expect(text).toContain('name="challenge"');
  expect(await provedBy(browser)).toEqual([]);
});
