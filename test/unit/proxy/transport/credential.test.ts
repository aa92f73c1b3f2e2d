import { expect, test } from 'vitest';
import { rereadCredential } from '#proxy/transport/credential';

test('rejected API key: it is read again, and given up if it is still the same', async () => {
  let key = 'old';
  const credential = rereadCredential({ 'x-api-key': key }, () =>
    Promise.resolve({ 'x-api-key': key }),
  );
  const same = await credential.renewed(await credential.headers(), undefined);
  key = 'new';
  const other = await credential.renewed(await credential.headers(), undefined);

  expect(same).toBeUndefined();
  expect(other).toEqual({ 'x-api-key': 'new' });
  expect(await credential.headers()).toEqual({ 'x-api-key': 'new' });
});
