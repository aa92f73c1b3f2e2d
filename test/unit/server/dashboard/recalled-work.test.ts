import { expect, test } from 'vitest';
import { recalledWork } from '#server/dashboard/recalled-work';

/** Work that says how often it was done, and a database that is written to. */
function worked() {
  let [writes, times] = [0, 0];
  const recalled = recalledWork({ written: () => `${writes}` });
  const work = async () => ({ time: (times += 1) });
  return {
    recalled,
    work,
    ask: (...key: readonly unknown[]) => recalled(key, work),
    write: () => (writes += 1),
  };
}

test('work is done once for a key while nothing is written', async () => {
  const { ask } = worked();

  expect(await ask('acme', { range: '1h' })).toEqual({ time: 1 });
  expect(await ask('acme', { range: '1h' })).toEqual({ time: 1 });
});

test('each key has work of its own', async () => {
  const { ask } = worked();

  expect(await ask('acme', 'owner')).toEqual({ time: 1 });
  expect(await ask('acme', 'viewer')).toEqual({ time: 2 });
  expect(await ask('acme', undefined, 'owner')).toEqual({ time: 3 });
});

test('a write makes all of it be done anew', async () => {
  const { ask, write } = worked();
  await ask('acme');
  await ask('other');

  write();

  expect(await ask('acme')).toEqual({ time: 3 });
  expect(await ask('other')).toEqual({ time: 4 });
});

test('work during which something was written is not kept', async () => {
  const { recalled, ask, work, write } = worked();

  const first = await recalled(['acme'], async () => {
    write();
    return work();
  });

  expect(first).toEqual({ time: 1 });
  expect(await ask('acme')).toEqual({ time: 2 });
});

test('work that another request outlived with newer work is not kept', async () => {
  const { recalled, ask, write } = worked();

  await recalled(['acme'], async () => {
    write();
    await ask('acme');
    return { time: 0 };
  });

  expect(await ask('acme')).toEqual({ time: 1 });
});

test('work that failed is done again', async () => {
  const { recalled, ask } = worked();
  const failing = recalled(['acme'], async () => {
    throw new Error('no database');
  });
  await expect(failing).rejects.toThrow('no database');

  expect(await ask('acme')).toEqual({ time: 1 });
});

test('however many keys there are, a bounded number is kept', async () => {
  const { ask } = worked();
  for (let key = 0; key < 60; key += 1) await ask(key);

  expect(await ask(59)).toEqual({ time: 60 });
  expect(await ask(0)).toEqual({ time: 61 });
});
