import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { hashSecret } from '#server/secrets/secrets';
import { insertUser } from '#server/db/people';
import { cookieName } from '#server/web/page-request';
import { fakeClock, type FakeClock } from '#support/fake-clock';
import { grantingServer, type GrantingServer } from '#support/granting-server';
import { lyingProvider } from '#support/lying-provider';
import { patient } from '#support/patient';
import { runCommandInProcess } from '#support/run-command-in-process';
import { visitor } from '#support/visitor';

let clock: FakeClock;
let server: GrantingServer;
let acmeId: Awaited<ReturnType<typeof lyingProvider>>;
beforeAll(async () => {
  acmeId = await lyingProvider();
  clock = fakeClock(Math.floor(Date.now() / 1000));
  server = await grantingServer({ clock, outboundHosts: ['127.0.0.1'] });
  const command = (...words: string[]) =>
    runCommandInProcess([...words, '--data-dir', server.dataDir]);
  const file = join(server.dataDir, 'secret');
  writeFileSync(file, acmeId.clientSecret);
  const client = ['--client-id', 'latchkey', '--client-secret-file', file];
  const words = ['--name', 'Acme ID', '--issuer', acmeId.issuer, ...client];
  const more = ['--session-check-minutes', '20', '--outbound-host', '127.0.0.1'];
  await command('provider', 'create', 'acme', ...words, ...more);
  await command('domain', 'add', 'acme', 'acme.example');
  await command('domain', 'confirm', 'acme', 'acme.example');
  for (const name of ['dana', 'lee']) {
    const user = { id: `user_${name}`, email: `${name}@acme.example`, createdAt: clock.now() };
    await insertUser(server.stores.db, user, { organizationId: 'org_acme', role: 'member' });
  }
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await acmeId[Symbol.asyncDispose]();
});

/** Signs in through the provider, which issues a refresh token, and lets an application call. */
const entered = async (name: string) => {
  const visit = visitor(server.base);
  const answer = await visit.submit('/sign-in/organization', { who: 'acme', next: '/' });
  const href = /content="0; url=([^"]+)"/.exec(await answer.text())?.[1] ?? '';
  const { pathname, search } = acmeId.authorize(new URL(href.replaceAll('&amp;', '&')), {
    claims: { sub: `${name} there`, email: `${name}@acme.example` },
    refreshToken: `rt of ${name}`,
  });
  await visit.get(pathname + search);
  const cookie = visit.cookies.get(cookieName('latchkey', server.base)) ?? '';
  const browser = {
    userId: `user_${name}`,
    cookie: `${cookieName('latchkey', server.base)}=${cookie}`,
  };
  const { accessToken, refreshToken } = await server.signIn(browser);
  return {
    refreshToken,
    isIn: async () => (await visit.get('/dashboard/acme')).status === 200,
    call: () => server.call(accessToken),
  };
};

test('173: whoever is removed at the provider loses session, tokens and applications here at the next check; no one else does', async () => {
  acmeId.refreshing.set('rt of dana', { next: 'rt two of dana' });
  acmeId.refreshing.set('rt two of dana', { error: 'invalid_grant' });
  acmeId.refreshing.set('rt of lee', {});
  const dana = await entered('dana');
  const lee = await entered('lee');
  const interval = async () => {
    const before = clock.now();
    await clock.advance(20 * 60);
    await vi.waitFor(async () => {
      const left = await server.stores.db
        .selectFrom('provider_check')
        .select('checked_at')
        .execute();
      expect(left.filter((check) => check.checked_at <= before)).toEqual([]);
    }, patient);
  };
  await interval();
  const known = [await dana.isIn(), await dana.call(), await lee.isIn()];
  await interval();
  const refreshed = await server.refresh(dana.refreshToken);

  expect(known).toEqual([true, 200, true]);
  expect([await dana.isIn(), await dana.call()]).toEqual([false, 401]);
  expect([refreshed.status, refreshed.json['error']]).toEqual([400, 'invalid_grant']);
  expect(await lee.isIn()).toBe(true);
  const rows = JSON.stringify(
    await server.stores.db.selectFrom('provider_check').selectAll().execute(),
  );
  expect(rows).not.toContain('rt of lee');
  expect(rows).not.toContain(hashSecret('rt of lee'));
});
