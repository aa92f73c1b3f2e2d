import { expect, test } from 'vitest';

import { type Attempt, FailedAttempts } from '#server/oauth/failed-attempts';
import { OAuthError } from '#server/oauth/oauth-error';
import { fakeClock } from '#support/fake-clock';
import { refusal } from '#support/authorization-server';

const fail = () => Promise.reject(new OAuthError('invalid_client', 'no'));
const succeed = () => Promise.resolve('yes');

/** Rejects where `guard` throws. */
async function guarded(attempts: FailedAttempts, attempt: Attempt, act: () => Promise<string>) {
  return attempts.guard(attempt, act);
}

async function afterFailures(count: number, address = '192.0.2.1', clientId = 'client_a') {
  const clock = fakeClock();
  const attempts = new FailedAttempts(clock);
  for (let n = 0; n < count; n += 1) {
    await guarded(attempts, { address, clientId }, fail).catch(() => undefined);
  }
  return { clock, attempts };
}

test('after twenty failures an address is refused, with the time to retry', async () => {
  const { attempts } = await afterFailures(20);

  await expect(
    guarded(attempts, { address: '192.0.2.1', clientId: 'client_b' }, succeed),
  ).rejects.toMatchObject({ ...refusal('slow_down'), retryAfterSeconds: 300 });
});

test('nineteen failures have no effect', async () => {
  const { attempts } = await afterFailures(19);

  expect(await attempts.guard({ address: '192.0.2.1', clientId: 'client_a' }, succeed)).toBe('yes');
});

test('a client under attack can still authenticate from another address, and wrong secrets are slowed down', async () => {
  const { attempts } = await afterFailures(20);
  const elsewhere = { address: '192.0.2.2', clientId: 'client_a' };

  expect(await attempts.guard(elsewhere, succeed)).toBe('yes');
  await expect(guarded(attempts, elsewhere, fail)).rejects.toMatchObject(refusal('slow_down'));
});

test('after five minutes all failures are forgotten', async () => {
  const { attempts, clock } = await afterFailures(25);
  await clock.advance(300);

  expect(await attempts.guard({ address: '192.0.2.1', clientId: 'client_a' }, succeed)).toBe('yes');
});

test('a failure that is thrown counts like one that is awaited, and an available answer needs no waiting', async () => {
  const { attempts } = await afterFailures(19);
  const from = { address: '192.0.2.1', clientId: 'client_a' };
  const throws = () => {
    throw new OAuthError('invalid_client', 'no');
  };

  expect(attempts.guard(from, () => 'yes')).toBe('yes');
  expect(() => attempts.guard(from, throws)).toThrow(
    expect.objectContaining(refusal('invalid_client')),
  );
  expect(() => attempts.guard(from, () => 'yes')).toThrow(
    expect.objectContaining(refusal('slow_down')),
  );
});

test('attempts that failed at another node count like those here, and are not reported again', async () => {
  const clock = fakeClock();
  const told: string[] = [];
  const here = new FailedAttempts(clock, (subject) => void told.push(subject));
  for (let n = 0; n < 19; n += 1) here.noteFailure('address 192.0.2.1');
  const attempt = { address: '192.0.2.1', clientId: 'client_a' };
  await guarded(here, attempt, fail).catch(() => undefined);

  await expect(guarded(here, attempt, succeed)).rejects.toMatchObject(refusal('slow_down'));
  expect(told).toEqual(['address 192.0.2.1', 'client client_a']);
});
