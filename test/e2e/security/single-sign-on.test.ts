import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { lyingProvider, type Lie } from '#support/lying-provider';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { visitor, type Visitor } from '#support/visitor';

const password = 'correct horse battery';
let folder: TemporaryFolder;
let provider: Awaited<ReturnType<typeof lyingProvider>>;
let server: ServerProcess;

beforeAll(async () => {
  folder = await temporaryFolder('sso');
  provider = await lyingProvider();
  const file = join(folder.path, 'secret');
  writeFileSync(file, `${provider.clientSecret}\n`);
  const where = ['--oidc-issuer', provider.issuer, '--oidc-client-id', 'latchkey'];
  server = await serverProcess({
    args: [...where, '--oidc-client-secret-file', file, '--oidc-name', 'Acme ID'],
  });
  await server.command(['organization', 'create', 'acme']);
  const words = ['user', 'create', 'dana@example.com', '--organization', 'acme', '--role', 'owner'];
  await server.command(words, password);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

let firstLink: Promise<Response> | undefined;
/** Presses a button of ours and says where its page leads the browser. */
const pressed = async (visit: Visitor, page: string, action: string) => {
  const csrf_token = await visit.csrfToken(page);
  const html = await (await visit.post(action, { csrf_token, next: '/account' })).text();
  const href = /content="0; url=([^"]+)"/.exec(html)?.[1] ?? '';
  return new URL(href.replaceAll('&amp;', '&'));
};
const pathOf = ({ pathname, search }: URL) => pathname + search;
/** A browser of Dana, signed in by password. The first one links her account, which a password can do only once. */
const linked = async () => {
  const dana = visitor(server.base);
  await dana.signIn('dana@example.com', password);
  const link = async () => {
    const request = await pressed(dana, '/account', '/account/provider');
    return dana.get(pathOf(provider.authorize(request)));
  };
  firstLink ??= link();
  return { dana, answer: await firstLink };
};
const signIn = async (visit: Visitor, lie?: Lie) => {
  const request = await pressed(visit, '/sign-in', '/sign-in/provider');
  return visit.get(pathOf(provider.authorize(request, lie)));
};
const isSignedIn = async (visit: Visitor) => (await visit.get('/account')).status === 200;

test('84: single sign-on: an equal e-mail address gives no access until its owner has linked the account', async () => {
  const stranger = visitor(server.base);
  const before = await signIn(stranger);
  const text = await before.text();
  const { answer } = await linked();
  const dana = visitor(server.base);
  const after = await signIn(dana);

  expect(before.status).toBe(403);
  expect(text).toContain('That account is not linked to an account here');
  expect(await isSignedIn(stranger)).toBe(false);
  expect(answer.headers.get('location')).toBe('/account?done=linked');
  expect([after.status, after.headers.get('location')]).toEqual([303, '/account']);
  expect(await isSignedIn(dana)).toBe(true);
});

test('84: single sign-on: the request carries a fresh state, nonce and S256 challenge', async () => {
  const visit = visitor(server.base);
  const [one, two] = [
    await pressed(visit, '/sign-in', '/sign-in/provider'),
    await pressed(visit, '/sign-in', '/sign-in/provider'),
  ];

  expect(one.searchParams.get('code_challenge_method')).toBe('S256');
  for (const name of ['state', 'nonce', 'code_challenge']) {
    expect(one.searchParams.get(name)?.length).toBeGreaterThanOrEqual(43);
    expect(one.searchParams.get(name)).not.toBe(two.searchParams.get(name));
  }
});

test.each<[string, Lie]>([
  ['another nonce', { claims: { nonce: 'x'.repeat(43) } }],
  ['no nonce', { claims: { nonce: undefined } }],
  ['another issuer', { claims: { iss: 'https://evil.example' } }],
  ['another audience', { claims: { aud: 'somebody-else' } }],
  ['an expired token', { claims: { exp: 1_700_000_000 } }],
  ['alg none', { signature: 'none' }],
  ['HS256 by the client secret', { signature: 'hs256' }],
  ['a key that is not published', { signature: 'other-key' }],
])('84: single sign-on: a response with %s is refused', async (_, lie) => {
  await linked();
  const visit = visitor(server.base);

  const answer = await signIn(visit, lie);

  expect(answer.status).toBe(403);
  expect(await answer.text()).toContain('did not confirm who you are');
  expect(await isSignedIn(visit)).toBe(false);
});

test.each<[string, Lie]>([
  ['an unverified address', { claims: { email_verified: false } }],
  ['no word about the address', { claims: { email_verified: undefined } }],
  ['no address', { claims: { email: undefined, email_verified: undefined } }],
])('84: single sign-on: a linked person signs in with %s', async (_, lie) => {
  await linked();
  const visit = visitor(server.base);

  expect((await signIn(visit, lie)).status).toBe(303);
  expect(await isSignedIn(visit)).toBe(true);
});

test('84: single sign-on: a state is valid once, and only in the browser that began', async () => {
  await linked();
  const [mine, theirs] = [visitor(server.base), visitor(server.base)];
  const request = await pressed(mine, '/sign-in', '/sign-in/provider');
  await theirs.get('/sign-in');
  const path = pathOf(provider.authorize(request));
  const forged = new URL(provider.authorize(request));
  forged.searchParams.set('state', `${forged.searchParams.get('state')}x`);

  const answers = [
    await theirs.get(path),
    await mine.get(pathOf(forged)),
    await mine.get(path),
    await mine.get(pathOf(provider.authorize(request))),
  ];

  expect(answers.map(({ status }) => status)).toEqual([403, 403, 303, 403]);
});

test('84: single sign-on: PKCE makes a stolen code useless in another request', async () => {
  await linked();
  const [mine, theirs] = [visitor(server.base), visitor(server.base)];
  const stolen = provider.authorize(await pressed(mine, '/sign-in', '/sign-in/provider'));
  const injected = provider.authorize(await pressed(theirs, '/sign-in', '/sign-in/provider'));
  injected.searchParams.set('code', stolen.searchParams.get('code') ?? '');

  expect((await theirs.get(pathOf(injected))).status).toBe(403);
  expect(await isSignedIn(theirs)).toBe(false);
});

test('84: single sign-on: linking finishes only in the session that began, and takes over no account', async () => {
  await linked();
  const words = ['user', 'create', 'eve@example.com', '--organization', 'acme', '--role', 'member'];
  await server.command(words, password);
  const eve = visitor(server.base);
  await eve.signIn('eve@example.com', password);
  const begun = await pressed(eve, '/account', '/account/provider');
  const { dana } = await linked();

  const elsewhere = await dana.get(pathOf(provider.authorize(begun)));
  const taken = await eve.get(pathOf(provider.authorize(begun)));

  expect([elsewhere.status, taken.status]).toEqual([403, 409]);
});

test('88: single sign-on: invalid responses are counted, so that they cannot fill the audit log', async () => {
  const noted = () => {
    using database = new DatabaseSync(join(server.dataDir, 'latchkey.db'), { readOnly: true });
    const rows = `select count(*) as n from audit_event where action = 'sign-in'
      and outcome = 'refused' and actor = 'anonymous' and target = ?`;
    return Number(database.prepare(rows).get(provider.issuer)?.['n']);
  };
  const visit = visitor(server.base);
  await signIn(visit, { signature: 'none' });
  const before = noted();
  const answers = [];
  for (let count = 0; count < 6; count += 1) {
    answers.push((await signIn(visit, { signature: 'none' })).status);
  }

  expect(before).toBeGreaterThan(0);
  expect(answers).toEqual(answers.map(() => 403));
  // No rows, unless the minute of the count ends meanwhile: then one row with that count, and the first of the next minute.
  expect(noted() - before).toBeLessThan(3);
});

/** An owner's browser, with a form of the dashboard filled in and sent. */
const owner = async () => {
  const visit = visitor(server.base);
  await visit.signIn('dana@example.com', password);
  const send = async (page: string, action: string, fields: Record<string, string>) => {
    const csrf_token = await visit.csrfToken(`/dashboard/acme${page}`);
    return visit.post(`/dashboard/acme${action}`, { csrf_token, ...fields });
  };
  const invite = async () => {
    const fields = { note: 'somebody', role: 'member' };
    const html = await (await send('/people/invite', '/people/invite', fields)).text();
    return /\/invitation\/[\w-]+/.exec(html)?.[0] ?? '';
  };
  return { visit, send, invite };
};
const joinBy = async (invitation: string, lie: Lie) => {
  const visit = visitor(server.base);
  const request = await pressed(visit, invitation, `${invitation}/provider`);
  return { visit, answer: await visit.get(pathOf(provider.authorize(request, lie))) };
};

test('84: single sign-on: the provider’s sign-in accepts an invitation, and its groups apply as of then', async () => {
  const { visit, send, invite } = await owner();
  const made = await send('/groups', '/groups', { name: 'Sales' });
  const group = made.headers.get('location')?.replace(/^.*\/dashboard\/acme/, '') ?? '';
  await send(group, `${group}/map`, { externalName: 'idp-sales' });
  const isInGroup = async () =>
    (await (await visit.get(`/dashboard/acme${group}`)).text()).includes('nora@example.com');
  const nora = { sub: 'nora there', email: 'nora@example.com' };

  const joined = await joinBy(await invite(), { claims: { ...nora, groups: ['idp-sales'] } });
  const atFirst = await isInGroup();
  const again = visitor(server.base);
  await signIn(again, { claims: { ...nora, groups: ['idp-other'] } });

  expect(await isSignedIn(joined.visit)).toBe(true);
  expect((await joined.visit.get('/dashboard/acme')).status).toBe(200);
  expect(await isSignedIn(again)).toBe(true);
  expect([atFirst, await isInGroup()]).toEqual([true, false]);
});

test('84: single sign-on: joining takes over no known address, and accepts no unverified one', async () => {
  const { invite } = await owner();
  const link = await invite();

  const equal = await joinBy(link, { claims: { sub: 'eve there', email: 'dana@example.com' } });
  const joinAs = (email_verified: unknown) =>
    joinBy(link, { claims: { sub: 'eve there', email: 'new@example.com', email_verified } });
  const unverified = [await joinAs(false), await joinAs('true'), await joinAs(undefined)];
  const good = await joinBy(link, { claims: { sub: 'ann there', email: 'ann@example.com' } });

  for (const { answer, visit } of [equal, ...unverified]) {
    expect(answer.status).toBe(403);
    expect(await isSignedIn(visit)).toBe(false);
  }
  expect(await isSignedIn(good.visit)).toBe(true);
});
