import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { lyingProvider, type Lie } from '#support/lying-provider';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { visitor, type Visitor } from '#support/visitor';

const password = 'correct horse battery';
let folder: TemporaryFolder;
let acmeId: Awaited<ReturnType<typeof lyingProvider>>;
let otherId: Awaited<ReturnType<typeof lyingProvider>>;
let server: ServerProcess;
/** The ids of the providers of acme and other. */
let acme = '';
let other = '';

/** Dana is a member of acme and owns other; Eve is a member of other. Both organizations have a provider and a domain. */
beforeAll(async () => {
  folder = await temporaryFolder('idp');
  acmeId = await lyingProvider();
  otherId = await lyingProvider();
  server = await serverProcess({ args: ['--outbound-host', '127.0.0.1'] });
  const file = join(folder.path, 'secret');
  writeFileSync(file, `${acmeId.clientSecret}\n`);
  const made = z.object({ id: z.string() });
  const add = async (organization: string, issuer: string, ...more: string[]) => {
    await server.command(['organization', 'create', organization]);
    const client = ['--client-id', 'latchkey', '--client-secret-file', file];
    const words = ['--name', `${organization} ID`, '--issuer', issuer, ...client, ...more];
    const hosts = ['--outbound-host', '127.0.0.1', '--json'];
    const created = await server.command(['provider', 'create', organization, ...words, ...hosts]);
    const domain = `${organization}.example`;
    await server.command(['domain', 'add', organization, domain]);
    await server.command(['domain', 'confirm', organization, domain]);
    return made.parse(JSON.parse(created)).id;
  };
  acme = await add('acme', acmeId.issuer);
  other = await add('other', otherId.issuer, '--two-factors', 'yes');
  const user = (email: string, organization: string, role: string) =>
    server.command(
      ['user', 'create', email, '--organization', organization, '--role', role],
      password,
    );
  await user('dana@acme.example', 'acme', 'admin');
  await user('dana@acme.example', 'other', 'owner');
  await user('eve@other.example', 'other', 'member');
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await acmeId[Symbol.asyncDispose]();
  await otherId[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

const pathOf = ({ pathname, search }: URL) => pathname + search;
/** Where the page that asks for a work address leads. */
const led = async (visit: Visitor, who: string, next = '/') => {
  const answer = await visit.submit('/sign-in/organization', { who, next });
  const html = await answer.text();
  const href = /content="0; url=([^"]+)"/.exec(html)?.[1];
  const request = href === undefined ? undefined : new URL(href.replaceAll('&amp;', '&'));
  return { status: answer.status, html, request };
};
const enter = async (
  visit: Visitor,
  lie: Lie,
  { who = 'somebody@acme.example', provider = acmeId, next = '/' } = {},
) => {
  const { request } = await led(visit, who, next);
  if (!request) throw new TypeError('the page leads nowhere');
  return visit.get(pathOf(provider.authorize(request, lie)));
};
const dana: Lie = { claims: { sub: 'dana there', email: 'dana@acme.example' } };
const statusOf = async (visit: Visitor, path: string) => (await visit.get(path)).status;

test('140: sign-in through an organization: opens that organization and nothing else of the person', async () => {
  const visit = visitor(server.base);
  const answer = await enter(visit, dana);

  expect([answer.status, answer.headers.get('location')]).toEqual([303, '/dashboard/acme']);
  expect(await statusOf(visit, '/dashboard/acme')).toBe(200);
  expect(await statusOf(visit, '/dashboard/other')).toBe(404);
  expect((await visit.get('/account')).headers.get('location')).toBe('/sign-in?next=%2Faccount');
  expect(await (await visit.get('/sign-in?next=/account')).text()).toContain(
    'opens only that organization',
  );
});

test('150: the request carries S256, a nonce and a state, and the redirect URI of that provider alone', async () => {
  const visit = visitor(server.base);
  const { request } = await led(visit, 'acme');
  const query = request ? request.searchParams : new URLSearchParams();

  expect(query.get('code_challenge_method')).toBe('S256');
  expect(query.get('redirect_uri')).toBe(`${server.base}/sign-in/provider/${acme}/callback`);
  for (const name of ['state', 'nonce', 'code_challenge']) {
    expect(query.get(name)?.length).toBeGreaterThanOrEqual(43);
  }
});

test.each<[string, Lie, number]>([
  [
    'an unverified address',
    { claims: { sub: 'new', email: 'dana@acme.example', email_verified: false } },
    403,
  ],
  [
    'an address without email_verified',
    { claims: { sub: 'new', email: 'dana@acme.example', email_verified: undefined } },
    403,
  ],
  [
    'a domain that the organization has not proved',
    { claims: { sub: 'new', email: 'eve@other.example' } },
    403,
  ],
  ['an address of nobody', { claims: { sub: 'new', email: 'nobody@acme.example' } }, 403],
  [
    'another subject with the address of a linked person',
    { claims: { sub: 'next dana', email: 'dana@acme.example' } },
    403,
  ],
  ['another nonce', { claims: { ...dana.claims, nonce: 'x'.repeat(43) } }, 403],
  ['another audience', { claims: { ...dana.claims, aud: 'somebody-else' } }, 403],
  ['another issuer', { claims: { ...dana.claims, iss: 'https://evil.example' } }, 403],
  ['a key that is not published', { ...dana, signature: 'other-key' }, 403],
  ['alg none', { ...dana, signature: 'none' }, 403],
])('142, 150: sign-in through an organization: %s opens nothing', async (_, lie, status) => {
  // Dana signs in first, which links her account at the provider.
  await enter(visitor(server.base), dana);
  const visit = visitor(server.base);
  const answer = await enter(visit, lie);

  expect(answer.status).toBe(status);
  expect((await visit.get('/dashboard/acme')).headers.get('location')).toContain('/sign-in');
});

test('151: the response of one provider is unknown at the callback of another, and so is a repeated one', async () => {
  const visit = visitor(server.base);
  const { request } = await led(visit, 'acme');
  if (!request) throw new TypeError('the page leads nowhere');
  const callback = acmeId.authorize(request, dana);
  const mixedUp = pathOf(callback).replace(acme, other);
  const atInstallation = pathOf(callback).replace(`/${acme}`, '');
  const other_ = await visit.get(mixedUp);
  const none = await visit.get(atInstallation);
  const right = await visit.get(pathOf(callback));
  const again = await visit.get(pathOf(callback));
  const elsewhere = await visitor(server.base).get(pathOf(callback));

  expect([other_.status, none.status, right.status]).toEqual([403, 404, 303]);
  expect([again.status, elsewhere.status]).toEqual([403, 403]);
});

test('151: a response that names another issuer is refused', async () => {
  const visit = visitor(server.base);
  const { request } = await led(visit, 'acme');
  if (!request) throw new TypeError('the page leads nowhere');
  const callback = acmeId.authorize(request, dana);
  callback.searchParams.set('iss', otherId.issuer);

  expect((await visit.get(pathOf(callback))).status).toBe(403);
});

test('152: the page answers an unknown organization, one without a provider and an unproved domain alike', async () => {
  await server.command(['organization', 'create', 'plain']);
  const visit = visitor(server.base);
  const pages = [];
  for (const who of ['nowhere', 'plain', 'x@unproved.example', '']) {
    const { status, html } = await led(visit, who);
    pages.push([status, html.replaceAll(/value="[^"]*"/g, '').replaceAll(/Request [\w-]+/g, '')]);
  }

  expect(pages[0]?.[0]).toBe(422);
  expect(new Set(pages.map(String)).size).toBe(1);
});

test('153: a disabled or removed provider ends its sessions at once, and opens none', async () => {
  const lie: Lie = { claims: { sub: 'eve there', email: 'eve@other.example' } };
  const at = { who: 'eve@other.example', provider: otherId };
  const visit = visitor(server.base);
  await enter(visit, lie, at);
  const before = await statusOf(visit, '/dashboard/other');
  const begun = await led(visit, at.who);
  await server.command(['provider', 'disable', 'other', other]);
  const after = await visit.get('/dashboard/other');
  const callback = begun.request && otherId.authorize(begun.request, lie);
  const finished = callback && (await visit.get(pathOf(callback)));
  const next = await led(visit, at.who);
  await server.command(['provider', 'enable', 'other', other]);

  expect(before).toBe(200);
  expect([after.status, after.headers.get('location')]).toEqual([
    303,
    '/sign-in?next=%2Fdashboard%2Fother',
  ]);
  expect([finished?.status, next.status]).toEqual([404, 422]);
});

test('141: single sign-on cannot be required, not even by the operator, before an owner has tested a provider', async () => {
  await enter(visitor(server.base), dana);
  const byPassword = visitor(server.base);
  await byPassword.signIn('dana@acme.example', password);
  const before = await statusOf(byPassword, '/dashboard/acme');
  const refused = await server
    .command(['organization', 'update', 'acme', '--single-sign-on', 'yes'])
    .catch(String);

  expect(before).toBe(200);
  expect(refused).toContain('no owner has tested an identity provider');
});
