import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { type Lie, type LogoutLie, lyingProvider } from '#support/lying-provider';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { visitor, type Visitor } from '#support/visitor';

let folder: TemporaryFolder;
let acmeId: Awaited<ReturnType<typeof lyingProvider>>;
let otherId: Awaited<ReturnType<typeof lyingProvider>>;
let server: ServerProcess;
/** The ids of the providers of acme and other. */
let acme = '';
let other = '';

/** Dana and Lee are members of acme, and Dana of other. Both organizations have a provider and a domain. */
beforeAll(async () => {
  folder = await temporaryFolder('idp');
  acmeId = await lyingProvider();
  otherId = await lyingProvider();
  server = await serverProcess({ args: ['--outbound-host', '127.0.0.1'] });
  const file = join(folder.path, 'secret');
  writeFileSync(file, `${acmeId.clientSecret}\n`);
  const made = z.object({ id: z.string() });
  const add = async (organization: string, issuer: string) => {
    await server.command(['organization', 'create', organization]);
    const client = ['--client-id', 'latchkey', '--client-secret-file', file];
    const words = ['--name', `${organization} ID`, '--issuer', issuer, ...client];
    const place = ['--outbound-host', '127.0.0.1', '--master-key-file', server.masterKeyFile];
    const asked = ['provider', 'create', organization, ...words, ...place, '--json'];
    const created = await server.command(asked);
    const domain = `${organization}.example`;
    await server.command(['domain', 'add', organization, domain]);
    await server.command(['domain', 'confirm', organization, domain]);
    return made.parse(JSON.parse(created)).id;
  };
  acme = await add('acme', acmeId.issuer);
  other = await add('other', otherId.issuer);
  const password = 'correct horse battery';
  for (const [email, organization] of [
    ['dana@acme.example', 'acme'],
    ['lee@acme.example', 'acme'],
    ['dana@other.example', 'other'],
  ] as const) {
    const words = ['--organization', organization, '--role', 'member'];
    await server.command(['user', 'create', email, ...words], password);
  }
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await acmeId[Symbol.asyncDispose]();
  await otherId[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

const pathOf = ({ pathname, search }: URL) => pathname + search;
const enter = async (
  name: string,
  {
    session = `session of ${name}`,
    provider = acmeId,
    organization = 'acme',
  }: { session?: string; provider?: typeof acmeId; organization?: string } = {},
): Promise<Visitor> => {
  const visit = visitor(server.base);
  const answer = await visit.submit('/sign-in/organization', { who: organization, next: '/' });
  const href = /content="0; url=([^"]+)"/.exec(await answer.text())?.[1] ?? '';
  const email = `${name}@${organization}.example`;
  const lie: Lie = { claims: { sub: `${name} there`, sid: session, email } };
  const callback = provider.authorize(new URL(href.replaceAll('&amp;', '&')), lie);
  const entered = await visit.get(pathOf(callback));
  if (entered.status !== 303) throw new Error(`not signed in: ${entered.status}`);
  return visit;
};
const isIn = async (visit: Visitor, organization = 'acme') =>
  (await visit.get(`/dashboard/${organization}`)).status === 200;
const announce = async (token: string | Promise<string>, providerId = acme) => {
  const answer = await fetch(`${server.base}/sign-in/provider/${providerId}/backchannel-logout`, {
    method: 'POST',
    body: new URLSearchParams({ logout_token: await token }),
  });
  return {
    status: answer.status,
    text: await answer.text(),
    cacheControl: answer.headers.get('cache-control'),
  };
};
const ofDana = (but: object = {}): LogoutLie => ({ claims: { sub: 'dana there', ...but } });

test('170: logout: ends one session, or all of a person, and those of no one else', async () => {
  const one = await enter('dana', { session: 'one' });
  const two = await enter('dana', { session: 'two' });
  const lee = await enter('lee');
  const first = await announce(acmeId.logoutToken({ claims: { sid: 'one' } }));
  const states = [await isIn(one), await isIn(two), await isIn(lee)];
  const mismatched = await announce(acmeId.logoutToken(ofDana({ sid: 'session of lee' })));
  const second = await announce(acmeId.logoutToken(ofDana()));

  expect(first).toEqual({ status: 200, text: '', cacheControl: 'no-store' });
  expect([mismatched.status, second.status]).toEqual([200, 200]);
  expect(states).toEqual([false, true, true]);
  expect([await isIn(two), await isIn(lee)]).toEqual([false, true]);
});

test.each<[string, LogoutLie]>([
  ['signed with another key', { signature: 'other-key' }],
  ['signed with the client secret', { signature: 'hs256' }],
  ['without a signature', { signature: 'none' }],
  ['with the type of an ID token', { typ: 'JWT' }],
  ['with a nonce', ofDana({ nonce: 'n' })],
  ['without an event', ofDana({ events: {} })],
  ['without an id', ofDana({ jti: undefined })],
  ['that has expired', ofDana({ exp: 1 })],
  ['without a time of issue', ofDana({ iat: undefined })],
  ['of no one', { claims: {} }],
])('170: logout: a token %s ends nothing', async (_, lie) => {
  const dana = await enter('dana');
  const answer = await announce(acmeId.logoutToken(lie));

  expect(answer).toEqual({
    status: 400,
    text: '{"error":"invalid_request"}',
    cacheControl: 'no-store',
  });
  expect(await isIn(dana)).toBe(true);
});

test('170: logout: an ID token, no token, JSON and two tokens end nothing', async () => {
  const dana = await enter('dana');
  const url = `${server.base}/sign-in/provider/${acme}/backchannel-logout`;
  const token = await acmeId.logoutToken();
  const send = async (body: string | URLSearchParams, type?: string) => {
    const headers = type === undefined ? {} : { 'content-type': type };
    return (await fetch(url, { method: 'POST', headers, body })).status;
  };
  const twice = new URLSearchParams([
    ['logout_token', token],
    ['logout_token', token],
  ]);
  const statuses = [
    await send(new URLSearchParams()),
    await send(JSON.stringify({ logout_token: token }), 'application/json'),
    await send(twice),
    (await fetch(`${url}?logout_token=${token}`, { method: 'POST' })).status,
  ];

  expect(statuses).toEqual([400, 400, 400, 400]);
  expect((await fetch(url)).status).toBe(404);
  expect(await isIn(dana)).toBe(true);
});

test('171: logout: a token of another client, issuer or organization ends nothing', async () => {
  const dana = await enter('dana');
  const there = await enter('dana', { session: 's', provider: otherId, organization: 'other' });
  const answers = [
    await announce(acmeId.logoutToken(ofDana({ aud: 'another-client' }))),
    await announce(acmeId.logoutToken(ofDana({ iss: otherId.issuer }))),
    await announce(otherId.logoutToken(ofDana())),
    await announce(otherId.logoutToken(ofDana({ iss: acmeId.issuer }))),
    await announce(acmeId.logoutToken(ofDana()), other),
  ];
  const before = [await isIn(dana), await isIn(there, 'other')];
  await announce(otherId.logoutToken(ofDana()), other);

  expect(answers.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400]);
  expect(before).toEqual([true, true]);
  expect([await isIn(dana), await isIn(there, 'other')]).toEqual([true, false]);
});

test('171: logout: an unknown provider, and the one of a server without single sign-on, are answered as an invalid token is', async () => {
  const forged = await announce(acmeId.logoutToken({ signature: 'other-key' }));
  const unknown = await announce(acmeId.logoutToken(), 'idp_unknown');
  const installation = await fetch(`${server.base}/sign-in/provider/backchannel-logout`, {
    method: 'POST',
    body: new URLSearchParams({ logout_token: await acmeId.logoutToken() }),
  });

  expect(unknown).toEqual(forged);
  expect([installation.status, await installation.text()]).toEqual([400, forged.text]);
});

test('172: logout: a token that arrives again ends nothing, also not at the same moment', async () => {
  const token = await acmeId.logoutToken(ofDana());
  const first = await announce(token);
  const dana = await enter('dana', { session: 'later' });
  const again = await announce(token);
  const race = await acmeId.logoutToken({ claims: { sid: 'nobody’s' } });
  const answers = await Promise.all([announce(race), announce(race), announce(race)]);

  expect([first.status, again.status]).toEqual([200, 400]);
  expect(await isIn(dana)).toBe(true);
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400, 400]);
});

test('170: logout: of a session whose sign-in is on its way back opens nothing', async () => {
  const visit = visitor(server.base);
  const answer = await visit.submit('/sign-in/organization', { who: 'acme', next: '/' });
  const href = /content="0; url=([^"]+)"/.exec(await answer.text())?.[1] ?? '';
  const claims = { sub: 'dana there', sid: 'short', email: 'dana@acme.example' };
  const callback = acmeId.authorize(new URL(href.replaceAll('&amp;', '&')), { claims });
  const announced = await announce(acmeId.logoutToken(ofDana({ sid: 'short' })));
  const entered = await visit.get(pathOf(callback));

  expect([announced.status, entered.status]).toEqual([200, 403]);
  expect(await isIn(visit)).toBe(false);
});
