import { expect, test } from 'vitest';
import { secretTrial } from '#proxy/connections/secret-trial';
import { memorySecretStore, type SecretStore } from '#proxy/keychain/secret-store';

const account = 'api key ["https://acme.example/mcp","work"]';

/** A store whose process ends after this number of changes, before the next one; the contents of the store stay. */
function dyingStore(store: SecretStore, changes: number): SecretStore {
  let left = changes;
  const alive = () => {
    if (left <= 0) throw new Error('killed');
    left -= 1;
  };
  return {
    get: async (name) => store.get(name),
    async set(name, secret) {
      alive();
      return store.set(name, secret);
    },
    async remove(name) {
      alive();
      return store.remove(name);
    },
  };
}

async function stored(secret: string) {
  const store = memorySecretStore();
  await store.set(account, secret);
  return store;
}

test('secret on trial: a new secret is used immediately, and stays on trial until it has worked', async () => {
  const store = await stored('old');
  const trial = secretTrial(account, store);
  const before = await trial.isOn();
  await trial.begin('new');
  const during = await trial.isOn();
  const used = await store.get(account);
  await trial.proven();

  expect([before, during, await trial.isOn()]).toEqual([false, true, false]);
  expect([used, await store.get(account)]).toEqual(['new', 'new']);
  expect(await trial.undo()).toBe(false);
});

test('secret on trial: undo restores the last secret that worked, even after two that did not', async () => {
  const store = await stored('old');
  const trial = secretTrial(account, store);
  await trial.begin('new');
  await trial.begin('newer');

  expect(await trial.undo()).toBe(true);
  expect(await store.get(account)).toBe('old');
  expect(await trial.isOn()).toBe(false);
});

test('secret on trial: wherever the process crashes, one complete secret is in use, and whether it is on trial is known', async () => {
  for (const changes of [0, 1, 2]) {
    const store = await stored('old');
    await secretTrial(account, dyingStore(store, changes))
      .begin('new')
      .catch(() => undefined);
    const later = secretTrial(account, store);
    const used = await store.get(account);

    expect([changes, used, await later.isOn()]).toEqual([
      changes,
      changes === 2 ? 'new' : 'old',
      changes === 2,
    ]);

    await later.begin('again');
    expect(await later.isOn()).toBe(true);
    expect(await later.undo()).toBe(true);
    expect(await store.get(account)).toBe('old');
  }
});

test('secret on trial: wherever undo crashes, undoing again gives the same result', async () => {
  for (const changes of [0, 1, 2]) {
    const store = await stored('old');
    await secretTrial(account, store).begin('new');
    await secretTrial(account, dyingStore(store, changes))
      .undo()
      .catch(() => undefined);
    const later = secretTrial(account, store);
    await later.undo();

    expect([changes, await store.get(account), await later.isOn()]).toEqual([
      changes,
      'old',
      false,
    ]);
  }
});

test('secret on trial: binding a client secret to its issuer does not make it a new secret', async () => {
  const store = await stored('{"clientSecret":"a"}');
  const trial = secretTrial(account, dyingStore(store, 1));
  await trial.begin('{"clientSecret":"b"}').catch(() => undefined);
  await store.set(account, '{"clientSecret":"a","issuer":"https://acme.example"}');

  expect(await secretTrial(account, store).isOn()).toBe(false);
});
