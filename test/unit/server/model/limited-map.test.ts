import { expect, test } from 'vitest';

import { LimitedMap } from '#server/model/limited-map';

test('limited map: beyond its limit, the entry that was set longest ago is forgotten', () => {
  const map = new LimitedMap<string, number>(2);
  map.set('a', 1).set('b', 2).set('a', 3).set('c', 4);

  expect([...map]).toEqual([
    ['a', 3],
    ['c', 4],
  ]);
});

test('limited map: an undefined key is forgotten like any other', () => {
  const map = new LimitedMap<string | undefined, number>(1);
  map.set(undefined, 1).set('a', 2);

  expect([...map]).toEqual([['a', 2]]);
});
