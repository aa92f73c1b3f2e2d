import { expect, test } from 'vitest';
import { BriefMap } from '#mcp/brief-map';

test('brief map: finds, replaces and deletes entries, and counts them', () => {
  const map = new BriefMap<string, { n: number }>();
  map.set('a', { n: 1 });
  map.set('b', { n: 2 });
  map.set('a', { n: 3 });

  expect([map.size, map.get('a'), map.has('b'), map.get('c')]).toEqual([
    2,
    { n: 3 },
    true,
    undefined,
  ]);
  expect([...map]).toEqual([
    ['a', { n: 3 }],
    ['b', { n: 2 }],
  ]);
  expect([...map.values()]).toEqual([{ n: 3 }, { n: 2 }]);
  expect([map.delete('a'), map.delete('a')]).toEqual([true, false]);
  expect([map.size, map.has('a'), map.get('a')]).toEqual([1, false, undefined]);

  map.clear();

  expect([map.size, [...map.values()]]).toEqual([0, []]);
});

test('brief map: an entry that is deleted while all are read is not read', () => {
  const map = new BriefMap<number, { n: number }>();
  for (const n of [1, 2, 3]) map.set(n, { n });
  const read: number[] = [];
  for (const { n } of map.values()) {
    read.push(n);
    map.delete(2);
  }

  expect(read).toEqual([1, 3]);
});
