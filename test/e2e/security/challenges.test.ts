import { createHmac, randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { passwordHashing } from '#server/accounts/passwords';
import { csrfToken, randomToken } from '#server/accounts/sessions';
import { listPasskeys, replacePasswordHash } from '#server/db/authenticators';
import { linkIdentity } from '#server/db/identities';
import { listSessions } from '#server/db/sessions';
import { hashSecret } from '#server/secrets/secrets';
import { cookieName } from '#server/web/page-request';
import { hiddenFields } from '#support/granting-server';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp } from '#support/page-app';
import { softAuthenticator } from '#support/soft-authenticator';

const password = 'correct horse battery';
const century = 100 * 365 * 24 * 3600;

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());

/** A browser that nobody is signed in with, and the guard that its forms carry. */
const anonymous = () => {
  const token = randomToken();
  const cookie = `${cookieName('latchkey-browser', app.server.base)}=${token}`;
  return { token, cookie, csrfToken: csrfToken(token) };
};
type Anonymous = ReturnType<typeof anonymous>;

const form = (browser: Anonymous, path: string, fields: Record<string, string>) => {
  const body = new URLSearchParams({ csrf_token: browser.csrfToken, ...fields }).toString();
  return app.post({ path, cookie: browser.cookie, body });
};
const json = (
  { cookie, csrfToken: token }: { cookie: string; csrfToken: string },
  path: string,
  body: object,
) => {
  const headers = { 'content-type': 'application/json', 'x-csrf-token': token };
  return app.post({ path, cookie, body: JSON.stringify(body), headers });
};
const bringCode = (
  browser: Anonymous,
  { userId, code, challenge }: { userId: string; code: string; challenge: string },
) => form(browser, '/sign-in/code', { user: userId, code, challenge, next: '/' });

/** A challenge as a client can make one: no secret of the server goes into it. */
const forge = (key: string, purpose: string, expiresAt: number) => {
  const head = Buffer.alloc(22);
  head.writeUIntBE(expiresAt, 0, 6);
  randomBytes(16).copy(head, 6);
  const mac = createHmac('sha256', key).update(`challenge ${purpose}\0`).update(head).digest();
  return Buffer.concat([head, mac.subarray(0, 16)]).toString('base64url');
};
/** An issued challenge that claims to expire at another time. */
const redated = (challenge: string, expiresAt: number) => {
  const bytes = Buffer.from(challenge, 'base64url');
  bytes.writeUIntBE(expiresAt, 0, 6);
  return bytes.toString('base64url');
};

const now = () => app.server.clock.now();
const sessionsOf = async (userId: string) =>
  (await listSessions(app.server.stores.db, userId, now())).length;
const spentRows = () => app.server.stores.db.selectFrom('spent_challenge').selectAll().execute();
const refusalsOf = async (userId: string) => {
  const events = await newestEvents(app.server.stores.db, 1000);
  const own = events.filter(({ actor }) => actor === `user:${userId}`);
  return own
    .filter(({ outcome }) => outcome === 'refused')
    .map(({ action, target }) => `${action} ${target}`);
};

/** Somebody who joined by single sign-on, and so has no password. */
const joinedBySso = async (userId: string) => {
  const browser = await app.browser(userId, undefined, 2);
  await linkIdentity(app.server.stores.db, {
    issuer: 'https://id.example',
    subject: userId,
    userId,
  });
  return browser;
};
/** Sets up an authenticator app for a person. Returns a function for its codes, and a recovery code. */
const withApp = async (browser: { cookie: string; csrfToken: string; userId: string }) => {
  const { cookie, csrfToken: csrf_token } = browser;
  const send = (path: string, fields: Record<string, string> = {}) =>
    app.post({ path, cookie, body: new URLSearchParams({ csrf_token, ...fields }).toString() });
  const page = (await send('/account/second-factor')).text;
  const shown = /<code[^>]*>([A-Z2-7 ]{32,})<\/code>/.exec(page)?.[1] ?? '';
  const secret = Secret.fromBase32(shown.replaceAll(' ', ''));
  const codeNow = () => TOTP.generate({ secret, timestamp: now() * 1000 });
  const shownOnce = (await send('/account/second-factor/confirm', { code: codeNow() })).text;
  const recoveryCodes = shownOnce.match(/[0-9a-z]{4}(?:-[0-9a-z]{4}){3}/g) ?? [];
  await app.server.clock.advance(30);
  return { ...browser, codeNow, recoveryCode: recoveryCodes[0] ?? '' };
};
const withPassword = async (userId: string) => {
  const hash = await passwordHashing({ log2Cost: 8 }).hash(password);
  await replacePasswordHash(app.server.stores.db, userId, hash);
};
/** Proves the password in this browser. Returns the challenge that the page for the code carries. */
const proved = async (browser: Anonymous, userId: string) => {
  const page = await form(browser, '/sign-in', { email: `${userId}@example.com`, password });
  return hiddenFields(page.text, '/sign-in/code')['challenge'] ?? '';
};
const passkeyOptions = async (browser: Anonymous) => {
  const { text } = await json(browser, '/sign-in/passkey/options', {});
  const options: { challenge: string } = JSON.parse(text);
  return options.challenge;
};
/** Begins a sign-in at the provider. Returns the state that the provider's answer has to bring back. */
const providerState = async (browser: Anonymous) => {
  const { text } = await form(browser, '/sign-in/provider', { next: '/' });
  return /content="0; url=[^"]*state=([^"&]+)/.exec(text)?.[1] ?? '';
};

/** Every way to put together what a client knows. */
const forgeries = (browser: Anonymous, userId: string, expiresAt: number) =>
  [browser.token, '', userId].flatMap((key) =>
    [
      `code ${userId} ${hashSecret('')}`,
      `code ${userId} after password ${hashSecret('')}`,
      `code ${userId} after sso ${hashSecret('')}`,
      `code ${userId}`,
    ].map((purpose) => forge(key, purpose, expiresAt)),
  );

test.each(['code', 'recoveryCode'] as const)(
  '92: second factor: a %s alone opens no session for a person who joined by single sign-on',
  async (which) => {
    const userId = `user_sso_${which}`;
    const dana = await withApp(await joinedBySso(userId));
    const before = await sessionsOf(userId);
    const answers = [];
    for (const expiresAt of [now() + 200, now() + century]) {
      const browser = anonymous();
      for (const challenge of ['', ...forgeries(browser, userId, expiresAt)]) {
        const code = which === 'code' ? dana.codeNow() : dana.recoveryCode;
        answers.push((await bringCode(browser, { userId, code, challenge })).status);
      }
    }

    expect(answers).toEqual(answers.map(() => 403));
    expect(await sessionsOf(userId)).toBe(before);
    expect(await refusalsOf(userId)).toContain('sign-in challenge');
  },
);

test('92: forged challenge: it opens no session for a person with neither password nor app', async () => {
  const userId = 'user_sso_bare';
  await joinedBySso(userId);
  const before = await sessionsOf(userId);
  const browser = anonymous();

  const answers = [];
  for (const challenge of forgeries(browser, userId, now() + 200)) {
    answers.push((await bringCode(browser, { userId, code: '000000', challenge })).status);
  }

  expect(answers).toEqual(answers.map(() => 403));
  expect(await sessionsOf(userId)).toBe(before);
});

test('92: second factor: after the password a code and a recovery code open one session each', async () => {
  const userId = 'user_both';
  const browser = await app.browser(userId);
  const dana = await withApp(browser);
  await withPassword(userId);
  const [one, two] = [anonymous(), anonymous()];

  const challenge = await proved(one, userId);
  const byCode = await bringCode(one, { userId, code: dana.codeNow(), challenge });
  const again = await proved(two, userId);
  const byRecovery = { userId, code: dana.recoveryCode, challenge: again };

  expect(byCode.status).toBe(303);
  expect((await bringCode(two, byRecovery)).status).toBe(303);
});

test('91: sign-in challenge: one issued for another purpose, person or browser proves no password', async () => {
  const [userId, eve] = ['user_else', 'user_else_eve'];
  const dana = await withApp(await app.browser(userId));
  await withApp(await app.browser(eve));
  await withPassword(userId);
  await withPassword(eve);
  const browser = anonymous();
  const state = await providerState(browser);
  const issued = await proved(browser, userId);
  const elsewhere = await proved(anonymous(), userId);
  const wrong = {
    'for a passkey': await passkeyOptions(browser),
    'for single sign-on': state.split('.')[1] ?? '',
    'for somebody else': await proved(browser, eve),
    'to another browser': elsewhere,
    'with a later end': redated(issued, now() + 299),
    'with an end in a century': redated(issued, now() + century),
  };
  const before = await sessionsOf(userId);

  const answers: Record<string, number> = {};
  for (const [name, challenge] of Object.entries(wrong)) {
    const { status } = await bringCode(browser, { userId, code: dana.codeNow(), challenge });
    answers[name] = status;
  }

  expect(answers).toEqual(Object.fromEntries(Object.keys(wrong).map((name) => [name, 403])));
  expect(await sessionsOf(userId)).toBe(before);
  const right = { userId, code: dana.codeNow(), challenge: issued };
  expect((await bringCode(browser, right)).status).toBe(303);
});

test('91: sign-in challenge: one for a code is valid once, for five minutes', async () => {
  const userId = 'user_once';
  const dana = await withApp(await app.browser(userId));
  await withPassword(userId);
  const browser = anonymous();
  const bring = async (challenge: string) =>
    (await bringCode(browser, { userId, code: dana.codeNow(), challenge })).status;
  const used = await proved(browser, userId);
  const first = await bring(used);
  await app.server.clock.advance(30);
  const second = await bring(used);
  const [inTime, late] = [await proved(browser, userId), await proved(browser, userId)];
  await app.server.clock.advance(299);
  const soon = await bring(inTime);
  await app.server.clock.advance(30);

  expect([first, second, soon, await bring(late)]).toEqual([303, 403, 303, 403]);
});

test('91: passkey: it signs in only with a challenge that this server issued', async () => {
  const userId = 'user_passkey';
  const owner = await app.browser(userId);
  const authenticator = softAuthenticator(app.server.base);
  const { text } = await json(owner, '/account/passkeys/options', {});
  const options: { challenge: string } = JSON.parse(text);
  const added = { name: 'Laptop', credential: authenticator.register(options) };
  await json(owner, '/account/passkeys', added);
  const browser = anonymous();
  const answerTo = (challenge: string) => {
    const credential = authenticator.signIn({ challenge });
    return json(browser, '/sign-in/passkey', { next: '/', credential });
  };
  const issued = await passkeyOptions(browser);
  const forged = [
    ...[browser.token, ''].flatMap((key) =>
      [now() + 200, now() + century].map((at) => forge(key, 'passkey-sign-in', at)),
    ),
    redated(issued, now() + 299),
    redated(issued, now() + century),
    options.challenge,
  ];
  const before = await sessionsOf(userId);

  const refused = [];
  for (const challenge of forged) refused.push((await answerTo(challenge)).status);
  const stayed = await sessionsOf(userId);
  const right = await answerTo(issued);

  expect(refused).toEqual(forged.map(() => 403));
  expect(stayed).toBe(before);
  expect(await refusalsOf(userId)).toContain('sign-in passkey');
  expect([right.status, (await answerTo(issued)).status]).toEqual([200, 403]);
});

test('91: passkey: none is added with a challenge made from the session cookie', async () => {
  const userId = 'user_adding';
  const owner = await app.browser(userId);
  const sessionToken = owner.cookie.split('=')[1] ?? '';
  const challenge = forge(sessionToken, `passkey-add ${userId}`, now() + 200);
  const credential = softAuthenticator(app.server.base).register({ challenge });

  const answer = await json(owner, '/account/passkeys', { name: 'x', credential });

  expect(answer.status).toBe(403);
  expect(await listPasskeys(app.server.stores.db, userId)).toEqual([]);
});

test('91: forged challenges: three hundred anonymous requests leave nothing in the database', async () => {
  const userId = 'user_quiet';
  await joinedBySso(userId);
  const { connection } = app.server.stores;
  const rows = () => {
    const tables = connection.prepare(`select name from sqlite_schema where type = 'table'`).all();
    const names = tables.map(({ name }) => String(name)).filter((name) => name !== 'audit_event');
    return names.map((name) => [
      name,
      connection.prepare(`select count(*) as n from "${name}"`).get(),
    ]);
  };
  const stranger = softAuthenticator(app.server.base);
  const before = rows();

  for (let turn = 0; turn < 100; turn += 1) {
    const browser = anonymous();
    const end = now() + century;
    const challenge = forge(browser.token, `code ${userId} ${hashSecret('')}`, end);
    const credential = stranger.signIn({ challenge: forge(browser.token, 'passkey-sign-in', end) });
    const tail = Buffer.from('/').toString('base64url');
    const state = `sign-in.${forge(browser.token, `provider sign-in ${tail}`, end)}.${tail}`;
    await bringCode(browser, { userId, code: '000000', challenge });
    await json(browser, '/sign-in/passkey', { next: '/', credential });
    await app.get(`/sign-in/provider/callback?code=x&state=${state}`, browser.cookie);
  }

  expect(rows()).toEqual(before);
});

test('91: spent challenges: their records are deleted when the challenges expire', async () => {
  const browser = anonymous();
  const spend = async () => {
    const state = await providerState(browser);
    return app.get(`/sign-in/provider/callback?code=x&state=${state}`, browser.cookie);
  };
  for (let turn = 0; turn < 10; turn += 1) await spend();
  const kept = await spentRows();
  await app.server.clock.advance(300);
  await spend();

  expect(kept.length).toBeGreaterThanOrEqual(10);
  expect(kept.filter(({ expires_at: at }) => at > now())).toEqual([]);
  expect(await spentRows()).toHaveLength(1);
});
