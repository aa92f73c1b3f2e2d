import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { serverProcess, type ServerProcess } from '#support/server-process';
import { softAuthenticator, type Deviation } from '#support/soft-authenticator';
import { visitor, type Visitor } from '#support/visitor';

const password = 'correct horse battery';
let server: ServerProcess;

beforeAll(async () => {
  // Passkeys need a name.
  server = await serverProcess({ host: 'localhost' });
  await server.command(['organization', 'create', 'acme']);
});
afterAll(() => server[Symbol.asyncDispose]());

const person = async (email: string): Promise<Visitor> => {
  const words = ['user', 'create', email, '--organization', 'acme', '--role', 'member'];
  await server.command(words, password);
  const visit = visitor(server.base);
  await visit.signIn(email, password);
  return visit;
};
const isSignedIn = async (visit: Visitor) => (await visit.get('/account')).status === 200;
const fieldOf = (html: string, name: string) =>
  new RegExp(`name="${name}" value="([^"]+)"`).exec(html)?.[1] ?? '';

/** Sends a request as our script does. The server answers with JSON, or with a page that refuses. */
const ask = async (visit: Visitor, path: string, body: object, page: string) => {
  const csrfToken = await visit.csrfToken(page);
  const cookie = [...visit.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const answer = await fetch(server.base + path, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-CSRF-Token': csrfToken,
      Cookie: cookie,
      Origin: server.base,
    },
    body: JSON.stringify(body),
  });
  return { status: answer.status, setCookie: answer.headers.getSetCookie(), answer };
};
const challengeFrom = async (visit: Visitor, path: string, page: string) => {
  const { answer } = await ask(visit, path, {}, page);
  const options: { challenge: string } = JSON.parse(await answer.text());
  return options;
};
const addPasskey = async (visit: Visitor, wrong: Deviation = {}) => {
  const authenticator = softAuthenticator(server.base);
  const options = await challengeFrom(visit, '/account/passkeys/options', '/account');
  const body = { name: 'Laptop', credential: authenticator.register(options, wrong) };
  const { status } = await ask(visit, '/account/passkeys', body, '/account');
  return { status, authenticator };
};
/** Signs in by passkey in a new browser. Returns the status, and whether the answer gives a session. */
const passkeySignIn = async (
  authenticator: ReturnType<typeof softAuthenticator>,
  wrong: Deviation = {},
) => {
  const visit = visitor(server.base);
  const options = await challengeFrom(visit, '/sign-in/passkey/options', '/sign-in');
  const body = { next: '/', credential: authenticator.signIn(options, wrong) };
  const { status, setCookie } = await ask(visit, '/sign-in/passkey', body, '/sign-in');
  return [status, setCookie.some((line) => /latchkey=[^;]/.test(line))];
};

test('83: authenticator app: a code opens one session, in whichever browser', async () => {
  const email = 'totp@example.com';
  const dana = await person(email);
  const enrolment = await dana.post('/account/second-factor', {
    csrf_token: await dana.csrfToken('/account'),
  });
  const html = await enrolment.text();
  const secret = /<code[^>]*>([A-Z2-7 ]{32,})<\/code>/.exec(html)?.[1]?.replaceAll(' ', '') ?? '';
  const codeAt = (step: number) =>
    TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: Date.now() + step * 30_000 });
  const enrolling = codeAt(0);
  const confirmed = await dana.post('/account/second-factor/confirm', {
    csrf_token: fieldOf(html, 'csrf_token'),
    code: enrolling,
  });
  const signInBy = async (code: string) => {
    const visit = visitor(server.base);
    const page = await (await visit.signIn(email, password)).text();
    const hidden = ['csrf_token', 'user', 'challenge'].map((name) => [name, fieldOf(page, name)]);
    const fields = { ...Object.fromEntries(hidden), next: '/', code };
    const { status } = await visit.post('/sign-in/code', fields);
    return [status, await isSignedIn(visit)];
  };

  const next = codeAt(1);
  const answers = [await signInBy(enrolling), await signInBy(next), await signInBy(next)];

  expect(confirmed.status).toBe(200);
  expect(answers).toEqual([
    [422, false],
    [303, true],
    [422, false],
  ]);
});

test.each<[string, Deviation]>([
  ['another origin', { origin: 'https://evil.example' }],
  ['another rpId', { rpId: 'evil.example' }],
  ['no user verification', { isUserVerified: false }],
  ['a challenge that nobody was given', { challenge: Buffer.alloc(38).toString('base64url') }],
])('83: passkey: one with %s is neither added nor accepted for sign-in', async (why, wrong) => {
  const visit = await person(`passkey-${why.replaceAll(' ', '-')}@example.com`);

  const refused = await addPasskey(visit, wrong);
  const { status, authenticator } = await addPasskey(visit);

  expect([refused.status, status]).toEqual([403, 200]);
  expect(await passkeySignIn(refused.authenticator)).toEqual([403, false]);
  expect(await passkeySignIn(authenticator, wrong)).toEqual([403, false]);
  expect(await passkeySignIn(authenticator)).toEqual([200, true]);
});

test('83: passkey: one whose counter does not rise is a copy and is refused', async () => {
  const { authenticator } = await addPasskey(await person('counter@example.com'));
  const answers = [];
  for (const counter of [10, 10, 9, 11]) {
    answers.push(await passkeySignIn(authenticator, { counter }));
  }

  expect(answers).toEqual([
    [200, true],
    [403, false],
    [403, false],
    [200, true],
  ]);
});
