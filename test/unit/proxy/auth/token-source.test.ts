import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import {
  memorySecretStore,
  type SecretStore,
  SecretStoreError,
} from '#proxy/keychain/secret-store';
import { TokenError } from '#proxy/auth/errors';
import { StoredTokenSource } from '#proxy/auth/token-source';
import { tokenVault, type TokenRecord } from '#proxy/auth/token-vault';
import { fakeClock } from '#support/fake-clock';

type UserHost = { store?: SecretStore; lifeSeconds?: number | 'unknown' };

function host({ store = memorySecretStore(), lifeSeconds = 3_600 }: UserHost = {}) {
  const clock = fakeClock();
  const state = { granted: 0, failing: undefined as Error | undefined, tokens: [] as string[] };
  let queue: Promise<unknown> = Promise.resolve();
  const source = () =>
    new StoredTokenSource({
      vault: tokenVault(store, 'a'),
      lock: {
        hold: (_, work) => {
          const mine = queue.then(work);
          queue = mine.catch(() => undefined);
          return mine;
        },
      },
      grant: () => {
        state.granted += 1;
        if (state.failing) return Promise.reject(state.failing);
        const obtainedAt = clock.now();
        const accessToken = state.tokens.shift() ?? `token ${state.granted}`;
        const record: TokenRecord = { accessToken, obtainedAt, issuer: 'i', published: true };
        return Promise.resolve(
          lifeSeconds === 'unknown' ? record : { ...record, expiresAt: obtainedAt + lifeSeconds },
        );
      },
      clock,
      log: jsonLinesLog('error', () => undefined),
    });
  return { clock, state, store, source };
}

test('access token: a hundred concurrent callers share one', async () => {
  const { state, source } = host();
  const tokens = source();

  const all = await Promise.all(Array.from({ length: 100 }, async () => tokens.accessToken()));

  expect(new Set(all)).toEqual(new Set(['token 1']));
  expect(state.granted).toBe(1);
});

test('access token: a second process takes it from the store', async () => {
  const { state, source } = host();
  await source().accessToken();

  expect(await source().accessToken()).toBe('token 1');
  expect(state.granted).toBe(1);
});

test('access token: a rejected token that cannot be replaced is marked as expired for every process', async () => {
  const { clock, state, store, source } = host();
  const tokens = source();
  const accessToken = await tokens.accessToken();
  state.failing = new TokenError('signed_out', 'withdrawn');

  await expect(tokens.accessToken({ accessToken })).rejects.toBe(state.failing);

  expect(await tokenVault(store, 'a').access()).toMatchObject({ expiresAt: clock.now() });
  await expect(source().accessToken()).rejects.toBe(state.failing);
});

test('access token: it is renewed five minutes before it expires, or in the last tenth of a short lifetime', async () => {
  const long = host();
  const short = host({ lifeSeconds: 100 });
  const [one, two] = [long.source(), short.source()];
  await Promise.all([one.accessToken(), two.accessToken()]);

  await long.clock.advance(3_299);
  await short.clock.advance(89);
  expect([await one.accessToken(), await two.accessToken()]).toEqual(['token 1', 'token 1']);
  await long.clock.advance(1);
  await short.clock.advance(1);

  expect([await one.accessToken(), await two.accessToken()]).toEqual(['token 2', 'token 2']);
});

test('access token: a due token is still used while its issuer is unreachable, an expired one is not', async () => {
  const { clock, state, source } = host();
  const tokens = source();
  await tokens.accessToken();
  state.failing = new Error('away');
  await clock.advance(3_400);

  expect(await tokens.accessToken()).toBe('token 1');
  await clock.advance(200);
  await expect(tokens.accessToken()).rejects.toThrow('away');
});

test('access token: a rejected token is never used again, not even from the store', async () => {
  const { state, source } = host();
  const tokens = source();
  const accessToken = await tokens.accessToken();

  const next = await Promise.all([
    tokens.accessToken({ accessToken }),
    tokens.accessToken({ accessToken }),
    tokens.accessToken(),
  ]);

  expect(new Set(next)).toEqual(new Set(['token 2']));
  expect(state.granted).toBe(2);
});

test('access token: it is an error if the issuer returns the rejected token again', async () => {
  const { state, source } = host();
  state.tokens = ['same', 'same'];
  const tokens = source();
  const accessToken = await tokens.accessToken();

  await expect(tokens.accessToken({ accessToken })).rejects.toMatchObject({ code: 'rejected' });
});

test('access token: a token that another process has just stored is used instead of a new one', async () => {
  const { state, source } = host();
  const [one, two] = [source(), source()];
  const accessToken = await one.accessToken();
  await two.accessToken();
  await one.accessToken({ accessToken });

  expect(await two.accessToken({ accessToken })).toBe('token 2');
  expect(state.granted).toBe(2);
});

test('access token: a token that cannot be stored is not used', async () => {
  const broken: SecretStore = {
    ...memorySecretStore(),
    set: () => Promise.reject(new SecretStoreError('locked', 'locked')),
  };
  const tokens = host({ store: broken }).source();

  await expect(tokens.accessToken()).rejects.toMatchObject({ code: 'locked' });
});

test('access token: a failure is not cached', async () => {
  const { state, source } = host();
  state.failing = new Error('away');
  const tokens = source();
  await expect(tokens.accessToken()).rejects.toThrow('away');
  state.failing = undefined;

  expect(await tokens.accessToken()).toBe('token 2');
});

test('access token: a stored value that is not a token is overwritten', async () => {
  const { store, source } = host();
  await store.set('a', '{"something":"else"}');

  expect(await source().accessToken()).toBe('token 1');
});

test('access token: a token without an expiry is used until it is rejected', async () => {
  const { clock, source } = host({ lifeSeconds: 'unknown' });
  const tokens = source();
  await tokens.accessToken();
  await clock.advance(1_000_000);

  expect(await tokens.accessToken()).toBe('token 1');
});
