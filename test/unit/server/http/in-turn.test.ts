import { expect, test } from 'vitest';
import { InTurn } from '#server/http/in-turn';

test('things of one name are done one behind the other, however the first goes; others beside them', async () => {
  const turns = new InTurn();
  const done: string[] = [];
  const first = Promise.withResolvers<void>();
  const failing = turns.take('a', async () => {
    await first.promise;
    done.push('first');
    throw new Error('it failed');
  });
  const second = turns.take('a', () => Promise.resolve(done.push('second')));
  await turns.take('b', () => Promise.resolve(done.push('other')));
  first.resolve();

  await expect(failing).rejects.toThrow('it failed');
  await second;
  expect(done).toEqual(['other', 'first', 'second']);
});
