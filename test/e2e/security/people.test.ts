import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { serverProcess, type ServerProcess } from '#support/server-process';
import { visitor, type Visitor } from '#support/visitor';

const password = 'correct horse battery';
let server: ServerProcess;

beforeAll(async () => {
  server = await serverProcess({ args: ['--trust-proxy', '127.0.0.1'] });
  await server.command(['organization', 'create', 'acme']);
});
afterAll(() => server[Symbol.asyncDispose]());

const person = async (email: string, create = server.command): Promise<Visitor> => {
  const words = ['user', 'create', email, '--organization', 'acme', '--role', 'member'];
  await create(words, password);
  const visit = visitor(server.base);
  await visit.signIn(email, password);
  return visit;
};
const isSignedIn = async (visit: Visitor) => (await visit.get('/account')).status === 200;

test.each(['//evil.example', 'https://evil.example', '/\\evil.example', '/\t/evil.example'])(
  '22: sign-in: it never redirects to another site: next=%j',
  async (next) => {
    const email = `next-${Buffer.from(next).toString('hex')}@example.com`;
    await person(email);
    const visit = visitor(server.base);
    const page = await visit.get(`/sign-in?next=${encodeURIComponent(next)}`);

    const answer = await visit.signIn(email, password, next);

    expect(await page.text()).toContain('name="next" value="/"');
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/']);
  },
);

test('22: sign-in: it continues to a page of this server, and to OAuth through an interstitial page', async () => {
  await person('onward@example.com');
  const next = '/oauth/consent?client_id=x&state="><script>';

  const own = await visitor(server.base).signIn('onward@example.com', password, '/account?a=b');
  const oauth = await visitor(server.base).signIn('onward@example.com', password, next);

  expect(own.headers.get('location')).toBe('/account?a=b');
  expect(oauth.status).toBe(200);
  expect(await oauth.text()).toContain(
    'content="0; url=/oauth/consent?client_id=x&amp;state=&quot;&gt;&lt;script&gt;"',
  );
});

test('80: session cookie: bound to the host, secure and out of reach of scripts', async () => {
  await person('cookie@example.com');
  const visit = visitor(server.base);

  const answer = await visit.signIn('cookie@example.com', password);

  expect(answer.headers.getSetCookie()).toEqual([
    expect.stringMatching(
      /^__Host-latchkey=[\w-]{32}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=2592000$/,
    ),
    expect.stringMatching(
      /^__Host-latchkey-device=[\w-]{32}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=31536000$/,
    ),
  ]);
});

test('80: session: replaced at sign-in and with a new password, and the old one ends', async () => {
  await person('change@example.com');
  const visit = visitor(server.base);
  const tab = {
    csrf_token: await visit.csrfToken('/sign-in'),
    email: 'change@example.com',
    password,
  };
  await visit.post('/sign-in', tab);
  const first = visit.cookies.get('__Host-latchkey') ?? '';
  const stolen = visitor(server.base);
  stolen.cookies.set('__Host-latchkey', first);
  const before = await isSignedIn(stolen);

  await visit.post('/sign-in', tab);
  const afterSignIn = await isSignedIn(stolen);
  const second = visit.cookies.get('__Host-latchkey') ?? '';
  stolen.cookies.set('__Host-latchkey', second);
  const changed = { current: password, password: 'another horse battery' };
  const csrf_token = await visit.csrfToken('/account');
  const fields = { ...changed, repeated: changed.password, csrf_token };
  await visit.post('/account/password', fields);

  expect([before, afterSignIn, await isSignedIn(stolen)]).toEqual([true, false, false]);
  expect(new Set([first, second, visit.cookies.get('__Host-latchkey')]).size).toBe(3);
  expect(await isSignedIn(visit)).toBe(true);
});

test('80: session: a cookie chosen by an attacker is never adopted', async () => {
  await person('fixed@example.com');
  const visit = visitor(server.base);
  const chosen = 'x'.repeat(32);
  visit.cookies.set('__Host-latchkey', chosen);

  await visit.signIn('fixed@example.com', password);

  expect(visit.cookies.get('__Host-latchkey')).not.toBe(chosen);
});

test('80: session: signing out ends it at the server', async () => {
  const visit = await person('out@example.com');
  const stolen = visitor(server.base);
  stolen.cookies.set('__Host-latchkey', visit.cookies.get('__Host-latchkey') ?? '');

  await visit.post('/sign-out', { csrf_token: await visit.csrfToken('/account') });

  expect([await isSignedIn(visit), await isSignedIn(stolen)]).toEqual([false, false]);
});

const changes = [
  '/sign-out',
  '/account/password',
  '/account/sessions/session_x/end',
  '/account/sessions/end-others',
];

test.each(changes)(
  '81: POST %s needs the CSRF token of this session and the server’s own origin',
  async (path) => {
    const visit = await person(`csrf${path.replaceAll(/\W/g, '-')}@example.com`);
    const other = await person(`other${path.replaceAll(/\W/g, '-')}@example.com`);
    const csrf_token = await visit.csrfToken('/account');
    const foreign = await other.csrfToken('/account');
    const signInToken = await visitor(server.base).csrfToken('/sign-in');

    const refused = [
      await visit.post(path, {}),
      await visit.post(path, { csrf_token: foreign }),
      await visit.post(path, { csrf_token: signInToken }),
      await visit.post(path, { csrf_token }, { Origin: 'https://evil.example' }),
      await visit.post(path, { csrf_token }, { Origin: 'null' }),
      await visit.post(path, { csrf_token }, { 'Sec-Fetch-Site': 'cross-site' }),
      await visit.post(path, { csrf_token }, { 'Sec-Fetch-Site': 'same-site' }),
    ];

    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 403));
    expect(await isSignedIn(visit)).toBe(true);
  },
);

test('81: sign-in, set-up and reset need the CSRF token of this browser', async () => {
  await person('login-csrf@example.com');
  const fields = { email: 'login-csrf@example.com', password };
  const stranger = visitor(server.base);
  const foreign = await visitor(server.base).csrfToken('/sign-in');
  await stranger.get('/sign-in');

  const refused = [
    await stranger.post('/sign-in', fields),
    await stranger.post('/sign-in', { ...fields, csrf_token: foreign }),
    await stranger.post('/set-up/x', {}),
    await stranger.post('/reset/x', {}),
    await stranger.post('/sign-in/passkey', {}),
  ];

  expect(refused.map(({ status }) => status)).toEqual([403, 403, 403, 403, 404]);
  expect(await isSignedIn(stranger)).toBe(false);
});

test.each(['known@example.com', 'unknown@example.com'])(
  '83: lockout: ten wrong passwords for %s get 429, without revealing whether the account exists',
  async (email) => {
    if (email.startsWith('known')) await person(email);
    const visit = visitor(server.base, { address: '192.0.2.10' });
    const csrf_token = await visit.csrfToken('/sign-in');
    const guess = () => visit.post('/sign-in', { csrf_token, email, password: 'wrong' });

    const answers = [];
    for (let turn = 0; turn < 9; turn += 1) answers.push(await guess());
    // Both at the same moment, because the first wait is shorter than the check of a password may take here.
    const both = await Promise.all([guess(), guess()]);
    const late = both.find(({ status }) => status === 429);

    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 422));
    expect(await answers[8]?.text()).toContain('or the password is incorrect');
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([422, 429]));
    expect(Number(late?.headers.get('retry-after'))).toBeGreaterThan(0);
  },
);

test('93: lockout: the right password works from another network and a known browser during an attack', async () => {
  const email = 'slow@example.com';
  // A password that takes as long to check as in production.
  await person(email, server.commandProcess);
  const known = visitor(server.base, { address: '192.0.2.20' });
  await known.signIn(email, password);
  await known.post('/sign-out', { csrf_token: await known.csrfToken('/account') });
  const guess = async () => {
    const guesser = visitor(server.base, { address: '192.0.2.20' });
    const csrf_token = await guesser.csrfToken('/sign-in');
    const answers = [];
    for (let turn = 0; turn < 4; turn += 1) {
      answers.push((await guesser.post('/sign-in', { csrf_token, email, password: 'x' })).status);
    }
    return answers;
  };

  const guessed = Promise.all(Array.from({ length: 8 }, guess));
  const elsewhere = visitor(server.base, { address: '198.51.100.1' });
  const meanwhile = [await elsewhere.signIn(email, password), await known.signIn(email, password)];
  const answers = (await guessed).flat();
  failAgain('192.0.2.20', 30);
  const stranger = visitor(server.base, { address: '192.0.2.20' });

  expect(answers.filter((status) => status === 429).length).toBeGreaterThan(0);
  expect(meanwhile.map(({ status }) => status)).toEqual([303, 303]);
  expect((await stranger.signIn(email, password)).status).toBe(429);
});

/** Repeats what failed last from an address, as hours of guessing would, so that the next wait is long. */
function failAgain(address: string, times: number): void {
  const database = new DatabaseSync(join(server.dataDir, 'latchkey.db'), { timeout: 5000 });
  const repeat = database.prepare(
    'insert into failed_attempt (id, subject, place, failed_at) select ?, subject, place, unixepoch() from failed_attempt where place = ? order by failed_at desc limit 1',
  );
  for (let time = 0; time < times; time += 1) {
    expect(repeat.run(`again-${time}`, `network:${address}`).changes).toBe(1);
  }
  database.close();
}

test('48: session: removing a person or changing their password ends every session immediately', async () => {
  const [one, again] = [await person('gone@example.com'), visitor(server.base)];
  await again.signIn('gone@example.com', password);
  const stay = await person('stay@example.com');

  await server.command(['user', 'remove', 'gone@example.com', '--yes']);

  expect([await isSignedIn(one), await isSignedIn(again), await isSignedIn(stay)]).toEqual([
    false,
    false,
    true,
  ]);
});

test('15: pages: each has a policy that allows no external scripts, frames or form targets', async () => {
  const pages = ['/sign-in', '/set-up/none', '/reset/none'];
  const answers = await Promise.all(pages.map((path) => visitor(server.base).get(path)));

  for (const { headers } of answers) {
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    );
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(headers.get('referrer-policy')).toBe('same-origin');
    expect(headers.get('cache-control')).toBe('no-store');
  }
});

test('85: database: it holds no usable cookie, link or password', async () => {
  const visit = await person('dump@example.com');
  const words = ['user', 'reset-link', 'dump@example.com', '--base-url', server.base, '--json'];
  const { link }: { link: string } = JSON.parse(await server.command(words));
  const setUp = /\/set-up\/([\w-]+)/.exec(server.program.stdout)?.[1] ?? '';

  const files = readdirSync(server.dataDir).map((name) => join(server.dataDir, name));
  const dump = files.map((file) => readFileSync(file, 'latin1')).join('\n') + server.program.stderr;

  expect(dump).toContain('dump@example.com');
  const secrets = [...visit.cookies.values(), link.split('/').at(-1) ?? '', setUp, password];
  expect(secrets.filter((secret) => secret === '' || dump.includes(secret))).toEqual([]);
});
