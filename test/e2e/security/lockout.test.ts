import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { passwordHashing } from '#server/accounts/passwords';
import { csrfToken, randomToken } from '#server/accounts/sessions';
import { replacePasswordHash } from '#server/db/authenticators';
import { cookieName } from '#server/web/page-request';
import { hiddenFields } from '#support/granting-server';
import { pageApp, type PageApp } from '#support/page-app';

const password = 'correct horse battery';
const attacker = '192.0.2.66';
const elsewhere = '198.51.100.7';
const daySeconds = 24 * 3600;

let app: PageApp;
beforeAll(async () => {
  app = await pageApp();
});
afterAll(() => app[Symbol.asyncDispose]());
// What failed in the test before is forgotten.
beforeEach(() => app.server.clock.advance(2 * daySeconds));

/** A browser at an address, and the cookies that it keeps. */
const browserAt = (address: string) => {
  const token = randomToken();
  const own = `${cookieName('latchkey-browser', app.server.base)}=${token}`;
  const kept = new Map<string, string>();
  const post = async (path: string, fields: Record<string, string>) => {
    const body = new URLSearchParams({ csrf_token: csrfToken(token), ...fields }).toString();
    const answer = await app.post({
      path,
      cookie: [own, ...kept.values()].join('; '),
      body,
      address,
    });
    for (const cookie of answer.cookies) kept.set(cookie.split('=')[0] ?? '', cookie);
    return answer;
  };
  return {
    kept,
    post,
    signIn: async (email: string, typed = password) =>
      (await post('/sign-in', { email, password: typed })).status,
    /** Ends the session on this side only, as a browser does when it is closed. */
    forgetSession: () => kept.delete(cookieName('latchkey', app.server.base)),
  };
};
type Browser = ReturnType<typeof browserAt>;

const person = async (name: string) => {
  const userId = `user_${name}`;
  const browser = await app.browser(userId);
  const hash = await passwordHashing({ log2Cost: 8 }).hash(password);
  await replacePasswordHash(app.server.stores.db, userId, hash);
  return { ...browser, email: `${userId}@example.com` };
};
/** A browser that signed in before, at an address that somebody else guesses from later. */
const knownBrowser = async (email: string, address = attacker) => {
  const browser = browserAt(address);
  expect(await browser.signIn(email)).toBe(303);
  browser.forgetSession();
  return browser;
};
const times = <T>(count: number, act: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => act(index));
/** Eight guessers at the same time. Returns how many of the guesses were checked. */
const looks = async (
  rounds: number,
  guess: (guesser: number, round: number) => Promise<number>,
) => {
  const guesses = times(8, async (guesser) => {
    const answers = [];
    for (let round = 0; round < rounds; round += 1) answers.push(await guess(guesser, round));
    return answers;
  });
  const answers = (await Promise.all(guesses)).flat();
  expect(new Set(answers)).toEqual(new Set([422, 429]));
  return answers.filter((status) => status === 422).length;
};
/** Eight guessers at one address for 200 seconds. Returns the answers of `meanwhile` at six moments. */
const guessWithoutEnd = async (
  guess: () => Promise<unknown>,
  meanwhile: (turn: number) => Promise<number>,
) => {
  const answers = [];
  for (let second = 2; second <= 200; second += 2) {
    await app.server.clock.advance(2);
    await Promise.all(times(8, guess));
    if (second % 32 === 0) answers.push(await meanwhile(answers.length));
  }
  return answers;
};

test('93: lockout: endless password guessing from one address does not lock the owner out elsewhere', async () => {
  const { email } = await person('without_end');
  const known = await knownBrowser(email);
  const guesser = browserAt(attacker);

  const answers = await guessWithoutEnd(
    () => guesser.signIn(email, 'wrong'),
    async (turn) => {
      const owner = turn % 2 === 0 ? browserAt(elsewhere) : known;
      const status = await owner.signIn(email);
      owner.forgetSession();
      return status;
    },
  );

  expect(answers).toEqual([303, 303, 303, 303, 303, 303]);
  expect(await browserAt(attacker).signIn(email)).toBe(429);
});

test('93: lockout: one address trying every account locks out no known browser and no other network', async () => {
  const { email } = await person('sprayed');
  const known = await knownBrowser(email);
  const guesser = browserAt(attacker);
  let accounts = 0;

  const answers = await guessWithoutEnd(
    () => guesser.signIn(`nobody${(accounts += 1)}@example.com`, 'wrong'),
    async (turn) => {
      const owner = turn % 2 === 0 ? browserAt(elsewhere) : known;
      return owner.signIn(email);
    },
  );

  expect(answers).toEqual([303, 303, 303, 303, 303, 303]);
  expect(await browserAt(attacker).signIn(email)).toBe(429);
});

test.each(['user_parallel@example.com', 'nobody@example.com'])(
  '93: lockout: eight guessers at one address get ten tries at %s, and one more two seconds later',
  async (email) => {
    if (email.startsWith('user_')) await person('parallel');
    const guess = (guesser: number) => guessers[guesser]?.signIn(email, 'wrong') ?? 0;
    const guessers = times(8, () => browserAt(attacker));

    const first = await looks(10, async (guesser) => guess(guesser));
    await app.server.clock.advance(2);
    const next = await looks(4, async (guesser) => guess(guesser));

    expect([first, next]).toEqual([10, 1]);
  },
);

test('93: lockout: eight guessers at one address get thirty tries across all accounts', async () => {
  const guessers = times(8, () => browserAt(attacker));

  const looked = await looks(10, async (guesser, round) => {
    const email = `nobody-${guesser}-${round}@example.com`;
    return guessers[guesser]?.signIn(email, 'wrong') ?? 0;
  });

  expect(looked).toBe(30);
});

test('93: lockout: guessers with a new network for each try get a hundred tries at an account, then wait', async () => {
  const { email } = await person('distributed');
  const known = await knownBrowser(email);
  const guess = (guesser: number, round: number) =>
    browserAt(`2001:db8:${guesser + 1}${round}::1`).signIn(email, 'wrong');

  const first = await looks(20, guess);
  const byKnown = await known.signIn(email);
  await app.server.clock.advance(2);
  const next = await looks(4, (guesser, round) => guess(guesser, round + 100));
  known.forgetSession();
  await app.server.clock.advance(daySeconds);

  expect([first, next]).toEqual([100, 1]);
  expect(byKnown).toBe(303);
  expect(await known.signIn(email)).toBe(303);
  expect(await browserAt(elsewhere).signIn(email)).toBe(303);
});

test.each<[what: string, tries: number, address: (index: number) => string]>([
  ['a /56', 20, (index) => `2001:db8:56:${index.toString(16)}::1`],
  ['a /48', 40, (index) => `2001:db8:48:${(256 * index).toString(16)}::1`],
])(
  '93, 108: lockout: guessers with %s, and a new /64 of it for each try, get %i tries and lock no one else out',
  async (_, tries, address) => {
    const { email } = await person(`within_${tries}`);

    const looked = await looks(20, (guesser, round) =>
      browserAt(address(20 * guesser + round)).signIn(email, 'wrong'),
    );

    expect(looked).toBe(tries);
    expect(await browserAt('2001:db8:49::1').signIn(email)).toBe(303);
  },
);

test.each<[what: string, tries: number, address: (index: number) => string]>([
  ['a /56', 60, (index) => `2001:db8:56:${index.toString(16)}::1`],
  ['a /48', 120, (index) => `2001:db8:48:${(256 * index).toString(16)}::1`],
])(
  '93, 108: lockout: guessers with %s get %i tries across all accounts',
  async (_, tries, address) => {
    let accounts = 0;

    const looked = await looks(20, (guesser, round) => {
      const email = `nobody${(accounts += 1)}@example.com`;
      return browserAt(address(20 * guesser + round)).signIn(email, 'wrong');
    });

    expect(looked).toBe(tries);
  },
);

test('93: known browser: it waits only for its own guesses, and no one else waits for them', async () => {
  const { email } = await person('own_guesses');
  const known = await knownBrowser(email, elsewhere);

  const looked = await looks(10, () => known.signIn(email, 'wrong'));

  expect(looked).toBe(10);
  expect(await known.signIn(email)).toBe(429);
  expect(await browserAt(elsewhere).signIn(email)).toBe(303);
});

test('93: known browser: only for the accounts that signed in there', async () => {
  const [dana, eve] = [await person('known_dana'), await person('known_eve')];
  const evesBrowser = await knownBrowser(eve.email);
  await looks(10, () => browserAt(attacker).signIn(dana.email, 'wrong'));

  const byEve = await evesBrowser.signIn(dana.email);
  const shared = await knownBrowser(eve.email, elsewhere);
  await shared.signIn(dana.email);
  shared.forgetSession();
  await looks(10, () => browserAt(elsewhere).signIn(dana.email, 'wrong'));
  await looks(10, () => browserAt(elsewhere).signIn(eve.email, 'wrong'));

  expect(byEve).toBe(429);
  expect(await shared.signIn(dana.email)).toBe(303);
  expect(await shared.signIn(eve.email)).toBe(303);
});

test('93: known browser: a cookie that this server did not set does not make it known', async () => {
  const { email } = await person('made_up');
  const guesser = browserAt(attacker);
  const guess = async () => {
    const name = cookieName('latchkey-device', app.server.base);
    guesser.kept.set(name, `${name}=${randomToken()}`);
    return guesser.signIn(email, 'wrong');
  };

  expect(await looks(10, guess)).toBe(10);
});

test('80, 93: known browser: its cookie is bound to the host, and each browser gets its own', async () => {
  const { email } = await person('cookie');
  const name = cookieName('latchkey-device', app.server.base);
  const [one, two] = [await knownBrowser(email), await knownBrowser(email)];
  const chosen = browserAt(elsewhere);
  chosen.kept.set(name, `${name}=${'x'.repeat(32)}`);
  await chosen.signIn(email);
  const given = [one, two, chosen].map(({ kept }) => kept.get(name) ?? '');
  await one.signIn(email);

  expect(name).toBe('__Host-latchkey-device');
  expect(new Set([...given, `${name}=${'x'.repeat(32)}`]).size).toBe(4);
  expect(one.kept.get(name)).toBe(given[0]);
  const kept = await app.server.stores.db.selectFrom('known_browser').selectAll().execute();
  const secrets = given.map((cookie) => cookie.split('=')[1] ?? '');
  expect(secrets.filter((secret) => JSON.stringify(kept).includes(secret))).toEqual([]);
});

/** Somebody with a password and an authenticator app. */
const enrolled = async (name: string) => {
  const browser = await app.browser(`user_${name}`);
  const send = (path: string, fields: Record<string, string> = {}) => {
    const body = new URLSearchParams({ csrf_token: browser.csrfToken, ...fields }).toString();
    return app.post({ path, cookie: browser.cookie, body });
  };
  const page = (await send('/account/second-factor')).text;
  const shown = /<code[^>]*>([A-Z2-7 ]{32,})<\/code>/.exec(page)?.[1] ?? '';
  const secret = Secret.fromBase32(shown.replaceAll(' ', ''));
  const codeNow = () => TOTP.generate({ secret, timestamp: app.server.clock.now() * 1000 });
  await send('/account/second-factor/confirm', { code: codeNow() });
  await app.server.clock.advance(30);
  const hash = await passwordHashing({ log2Cost: 8 }).hash(password);
  await replacePasswordHash(app.server.stores.db, browser.userId, hash);
  return { email: `${browser.userId}@example.com`, codeNow };
};

test('93: lockout: guessing codes with the right password does not lock the owner out elsewhere', async () => {
  const { email, codeNow } = await enrolled('codes');
  const bring = async (browser: Browser, code: string) => {
    const page = (await browser.post('/sign-in', { email, password })).text;
    const fields = { ...hiddenFields(page, '/sign-in/code'), code };
    return (await browser.post('/sign-in/code', fields)).status;
  };
  const known = browserAt(attacker);
  const first = await bring(known, codeNow());
  known.forgetSession();
  const guesser = browserAt(attacker);

  const answers = await guessWithoutEnd(
    () => bring(guesser, '000000'),
    async (turn) => {
      const owner = turn % 2 === 0 ? browserAt(elsewhere) : known;
      const status = await bring(owner, codeNow());
      owner.forgetSession();
      return status;
    },
  );

  expect(first).toBe(303);
  expect(answers).toEqual([303, 303, 303, 303, 303, 303]);
  expect(await bring(browserAt(attacker), codeNow())).toBe(429);
});

test('93: lockout: eight guessers get five tries at codes from one address, and twenty from all', async () => {
  const { email } = await enrolled('parallel_codes');
  const asked = async (address: string) => {
    const browser = browserAt(address);
    return { browser, page: (await browser.post('/sign-in', { email, password })).text };
  };
  const guess = async ({ browser, page }: Awaited<ReturnType<typeof asked>>) => {
    const fields = { ...hiddenFields(page, '/sign-in/code'), code: '000000' };
    const answer = await browser.post('/sign-in/code', fields);
    return answer.status;
  };
  const fromOne = await looks(4, async () => guess(await asked(attacker)));
  const fromMany = await looks(4, async (guesser, round) =>
    guess(await asked(`2001:db8:${guesser}:${round}::1`)),
  );

  expect([fromOne, fromMany]).toEqual([5, 15]);
});

test('93: lockout: records of guesses expire after a day, and twenty browsers of a person are known', async () => {
  const { email } = await person('bounded');
  const rows = async (table: 'failed_attempt' | 'known_browser') =>
    (await app.server.stores.db.selectFrom(table).selectAll().execute()).length;
  for (let turn = 0; turn < 80; turn += 1) {
    await browserAt(`2001:db8:9${turn}::1`).signIn(`nobody${turn}@example.com`, 'wrong');
  }
  const guessed = await rows('failed_attempt');
  await app.server.clock.advance(daySeconds + 1);
  const before = await rows('known_browser');
  for (let turn = 0; turn < 30; turn += 1) await knownBrowser(email, elsewhere);

  expect(guessed).toBeGreaterThanOrEqual(80);
  expect(await rows('failed_attempt')).toBe(0);
  expect((await rows('known_browser')) - before).toBe(20);
  await app.server.clock.advance(400 * daySeconds);
  await knownBrowser(email, elsewhere);
  expect(await rows('known_browser')).toBe(1);
});
