import { expect, test } from 'vitest';
import { AccountsError } from '#proxy/connections/accounts-service';
import { outcomeOf } from '#tray/model/outcome';

const refusing = async (message: string, ...names: string[]) =>
  outcomeOf(Promise.reject(new AccountsError('usage', message, 'look at it')), ...names);

test('outcome for a window: a refusal becomes full sentences with a remedy', async () => {
  expect(await refusing('no keychain is available')).toEqual({
    ok: false,
    problem: 'No keychain is available.',
    remedy: 'Look at it.',
  });
});

test('outcome for a window: a connection name at the start of a sentence keeps its case', async () => {
  expect(await refusing('sales has no API key', 'sales')).toMatchObject({
    problem: 'sales has no API key.',
  });
});

test('outcome for a window: the name of a program at the start of a command keeps its case', async () => {
  const refusal = new AccountsError('signed_out', 'not signed in', 'latchkey login sales');

  expect(await outcomeOf(Promise.reject(refusal), 'sales')).toMatchObject({
    problem: 'Not signed in.',
    remedy: 'latchkey login sales.',
  });
});

test('outcome for a window: an unexpected exception is thrown on unchanged', async () => {
  const bug = new TypeError('undefined is not a function');

  await expect(outcomeOf(Promise.reject(bug))).rejects.toBe(bug);
});
