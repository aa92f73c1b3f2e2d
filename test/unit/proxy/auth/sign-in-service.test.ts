import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Account } from '#proxy/auth/account';
import { SignInService } from '#proxy/auth/sign-in-service';
import { HttpError } from '#proxy/transport/http-error';
import { memorySecretStore } from '#proxy/keychain/secret-store';
import { processRefreshLock } from '#proxy/auth/refresh-lock';
import { tokenVault } from '#proxy/auth/token-vault';
import { fakeClock } from '#support/fake-clock';

/** The sign-in service of a server that cannot be reached, so no page is shown. Another process holds `signInLock` until `held` resolves. */
function opened({ signedInBefore = true, held = Promise.resolve() } = {}) {
  const clock = fakeClock();
  const store = memorySecretStore();
  const vault = tokenVault(store, 'x');
  const lock = processRefreshLock();
  let claims = 0;
  let requests = 0;
  const account: Account = {
    connection: {
      name: 'acme',
      url: 'https://acme.example/mcp',
      source: 'test',
      credentials: { kind: 'authorization_code' },
    },
    http: {
      request() {
        requests += 1;
        return Promise.reject(new HttpError('unreachable', 'nobody there'));
      },
      networkOf: () => Promise.resolve('public'),
      close: () => undefined,
    },
    clock,
    store,
    vault,
    lock,
    signInLock: { hold: async (_, work) => held.then(work) },
    marks: {
      signedInBefore: () => signedInBefore,
      rememberSignedIn: () => Promise.resolve(),
      claimToday: () => Promise.resolve((claims += 1) === 1),
      claimNotice: () => Promise.resolve(true),
      wantScopes: () => Promise.resolve(),
      wantedScopes: () => Promise.resolve([]),
      noteMissingAccount: () => Promise.resolve(),
      missingAccount: () => Promise.resolve(undefined),
      forgetListed: () => Promise.resolve(),
    },
    forgetCached: () => Promise.resolve(),
    readPrivateKey: () => Promise.reject(new Error('no key')),
    provider: () => Promise.resolve(undefined),
    learnProvider: () => Promise.resolve(),
    sharedServers: () => Promise.resolve([]),
    device: () => Promise.resolve(undefined),
    readAssertion: () => Promise.reject(new Error('no assertion')),
    listen: () => Promise.reject(new Error('no port')),
  };
  const service = new SignInService(account, {
    mode: 'auto',
    command: 'latchkey login acme',
    openBrowser: () => Promise.resolve(true),
    isTimely: () => true,
    signal: new AbortController().signal,
  });
  const save = async (accessToken: string, life = 3_600) =>
    vault.save({
      accessToken,
      obtainedAt: clock.now(),
      expiresAt: clock.now() + life,
      issuer: 'https://acme.example',
      published: true,
    });
  const lose = async () => {
    const previous = await vault.access();
    const known = { wider: false, ...(previous && { previous }) };
    await service.signIn(known, () => false).catch(() => undefined);
  };
  return { service, clock, save, lose, claims: () => claims, requests: () => requests };
}

test('sign-in service: it reports a sign-in after the token was lost, and not an earlier one', async () => {
  const { service, save, lose } = opened();
  await save('before');
  await lose();
  const before = await service.signedIn();
  await save('after');

  expect(before).toBe(false);
  expect(await service.signedIn()).toBe(true);
});

test('sign-in service: an expired token is not a sign-in', async () => {
  const { service, save } = opened();
  await save('old', -1);

  expect(await service.signedIn()).toBe(false);
});

test('sign-in service: the keychain is not read if nobody has ever signed in', async () => {
  const { service, save } = opened({ signedInBefore: false });
  await save('unseen');

  expect(await service.signedIn()).toBe(false);
});

test('sign-in service: two simultaneous requests share one sign-in, which counts once', async () => {
  const { service, claims } = opened();

  const both = await Promise.allSettled([service.begin(false), service.begin(false)]);

  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(claims()).toBe(1);
  expect(service.page()).toBeUndefined();
});

test('sign-in service: when another process announces its sign-in, the waiting request continues', async () => {
  const other = Promise.withResolvers<void>();
  const { service, save } = opened({ signedInBefore: false, held: other.promise });
  const asked = service.signIn({ wider: false }, (record) => record !== undefined);
  await service.lookAgain();
  await save('elsewhere');
  while (!(await isSettled(asked))) await service.lookAgain();
  other.resolve();

  expect(await asked).toMatchObject({ accessToken: 'elsewhere' });
  expect(service.page()).toBeUndefined();
});

test('sign-in service: a sign-in that another process does not announce is found within seconds', async () => {
  const other = Promise.withResolvers<void>();
  const { service, clock, save } = opened({ signedInBefore: false, held: other.promise });
  const asked = service.signIn({ wider: false }, (record) => record !== undefined);
  await clock.advance(2);
  await save('elsewhere');
  const before = await isSettled(asked);
  await clock.advance(2);
  const after = await isSettled(asked);
  other.resolve();

  expect([before, after]).toEqual([false, true]);
  expect(await asked).toMatchObject({ accessToken: 'elsewhere' });
});

async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([promise.then(() => true), setImmediate(false)]);
}
