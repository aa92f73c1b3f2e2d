import { afterAll, beforeAll, expect, test } from 'vitest';

import { noticesRead, noticesSet } from '#server/admin/notices';
import { operator } from '#server/admin/operation';
import { administered, type Administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';

const organization = 'acme';
let at: Administered;
beforeAll(async () => {
  at = await administered();
});
afterAll(() => at[Symbol.asyncDispose]());

test('notices: a person chooses for themselves, the operator for anyone, and nobody for a stranger', async () => {
  const [dana, lee] = [await at.person('admin'), await at.person('owner')];
  const userId = dana.type === 'person' ? dana.userId : '';
  const wanted = { organization, frequency: 'now' };

  await expect(at.perform(noticesSet, { ...wanted, userId }, lee)).rejects.toMatchObject({
    code: 'forbidden',
  });
  await expect(at.perform(noticesSet, wanted, operator)).rejects.toMatchObject({ code: 'invalid' });
  await expect(
    at.perform(noticesSet, { ...wanted, userId: 'user_x' }, operator),
  ).rejects.toMatchObject({ code: 'not_found' });
  await at.perform(noticesSet, { ...wanted, kinds: ['key-old'] }, dana);
  await at.perform(noticesSet, { ...wanted, frequency: 'daily', userId }, operator);
  expect(await at.perform(noticesRead, { organization }, dana)).toMatchObject({
    frequency: 'daily',
    kinds: ['key-old'],
    hasMailServer: false,
  });
  expect(await at.perform(noticesRead, { organization }, lee)).toMatchObject({
    frequency: 'never',
  });
  const target = `user:${userId}`;
  expect(await newestEvents(at.stores.db, 3)).toMatchObject([
    { actor: 'operator', action: 'notice.set', target, outcome: 'done' },
    { actor: target, action: 'notice.set', target, outcome: 'done' },
    { actor: 'operator', action: 'notice.set', target: 'user:user_x', outcome: 'refused' },
  ]);
});
