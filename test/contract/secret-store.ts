import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { SecretStore } from '#proxy/keychain/secret-store';

/** The tests that every `SecretStore` must pass. `again` is the same store as another process would open it. */
export function secretStoreContract(
  name: string,
  stores: () => { store: SecretStore; again: SecretStore },
): void {
  describe(name, () => {
    const account = () => `contract ${randomUUID()}`;

    test('an absent secret is undefined', async () => {
      const { store } = stores();

      expect(await store.get(account())).toBeUndefined();
    });

    test('a secret can be read by the next process once set has resolved', async () => {
      const { store, again } = stores();
      const mine = account();

      await store.set(mine, 'first');
      await store.set(mine, 'second');

      expect(await again.get(mine)).toBe('second');
    });

    test('secrets of different accounts do not affect each other', async () => {
      const { store } = stores();
      const [one, two] = [account(), account()];

      await Promise.all([store.set(one, 'one'), store.set(two, 'two')]);

      expect(await Promise.all([store.get(one), store.get(two)])).toEqual(['one', 'two']);
    });

    test('text in any language and a token of several thousand characters are stored unchanged', async () => {
      const { store, again } = stores();
      const mine = account();
      const secret = `ключ 鍵 🔑 ${'x'.repeat(6_000)}`;

      await store.set(mine, secret);

      expect(await again.get(mine)).toBe(secret);
    });

    test('remove returns whether there was a secret', async () => {
      const { store, again } = stores();
      const mine = account();
      await store.set(mine, 'secret');

      expect(await store.remove(mine)).toBe(true);
      expect(await store.remove(mine)).toBe(false);
      expect(await again.get(mine)).toBeUndefined();
    });

    test('a hundred concurrent reads and writes all succeed', async () => {
      const { store } = stores();
      const mine = account();
      await store.set(mine, 'start');

      const work = Array.from({ length: 100 }, async (_, index) => {
        if (index % 2 === 0) await store.set(mine, `value ${index}`);
        return store.get(mine);
      });

      expect(await Promise.all(work)).not.toContain(undefined);
    });
  });
}
