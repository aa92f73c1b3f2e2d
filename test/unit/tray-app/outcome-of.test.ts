import { expect, test } from 'vitest';
import { AccountsError } from '#proxy/accounts/accounts-error';
import { outcomeOf } from '#tray/outcome-of';

const refusing = async (message: string, about?: string) =>
  outcomeOf(Promise.reject(new AccountsError('usage', message, 'look at it')), about);

test('what a door refuses is told in whole sentences', async () => {
  expect(await refusing('no keychain is available')).toEqual({
    ok: false,
    problem: 'No keychain is available.',
    remedy: 'Look at it.',
  });
});

test('a sentence that begins with the name of a connection leaves the name as it is', async () => {
  expect(await refusing('sales has no API key', 'sales')).toMatchObject({
    problem: 'sales has no API key.',
  });
});

test('a bug goes on as it came', async () => {
  const bug = new TypeError('undefined is not a function');

  await expect(outcomeOf(Promise.reject(bug))).rejects.toBe(bug);
});
