import { expect, onTestFinished, test, vi } from 'vitest';

import { RequestRate } from '#server/scim/request-rate';
import { readUser } from '#server/scim/users';

const body = {
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:User', 'urn:example:unknown'],
  id: 'chosen by the client',
  USERNAME: ' dana@example.com ',
  externalId: 'x-1',
  active: 'True',
  displayName: 'Dana',
  password: 'never stored',
  name: { GivenName: 'Dana', familyName: '', unknown: 1 },
  emails: [
    { value: 'first@example.com', type: 'work' },
    { value: 'second@example.com', primary: 'True' },
    { value: 'third@example.com', primary: true },
    { type: 'home' },
  ],
  phoneNumbers: [{ value: '1' }],
};

test('user: read regardless of case; what is not stored is ignored', () => {
  expect(readUser(body)).toEqual({
    userName: 'dana@example.com',
    externalId: 'x-1',
    active: true,
    attributes: {
      name: { givenName: 'Dana' },
      displayName: 'Dana',
      emails: [
        { value: 'first@example.com', type: 'work' },
        { value: 'second@example.com', primary: true },
        { value: 'third@example.com', primary: false },
      ],
    },
    addresses: ['second@example.com', 'dana@example.com', 'first@example.com', 'third@example.com'],
  });
});

test('user: without active it stays as it is, and addresses are those that are one', () => {
  expect(readUser({ userName: 'dlee' }, false)).toEqual({
    userName: 'dlee',
    externalId: undefined,
    active: false,
    attributes: {},
    addresses: [],
  });
});

test.each([
  [{}, 'userName is missing'],
  [{ userName: 5 }, 'userName must be a string'],
  [{ userName: 'a\u0000b' }, 'userName contains control characters'],
  [{ userName: 'a'.repeat(321) }, 'userName must have at most 320 characters'],
  [{ userName: 'a', active: 'perhaps' }, 'active must be true or false'],
  [{ userName: 'a', name: 'Dana' }, 'name must be an object'],
  [{ userName: 'a', emails: [5] }, 'emails must be a list of objects'],
  [{ userName: 'a', emails: Array(21).fill('a@b.c') }, 'emails must have at most 20 values'],
])('user: %j is refused', (user, detail) => {
  expect(() => readUser(user)).toThrow(detail);
});

test('request rate: a burst, then as many as are regained, for each name', () => {
  let at = 0;
  const rate = new RequestRate({ perSecond: 2, burst: 3 }, { milliseconds: () => at });
  const take = (name = 'acme') => rate.take(name);
  const burst = [take(), take(), take(), take()];
  const other = take('other');
  at = 499;
  const early = take();
  at = 500;

  expect(burst).toEqual([0, 0, 0, 1]);
  expect([other, early, take(), take()]).toEqual([0, 1, 0, 1]);
  at = 60_000;
  expect([take(), take(), take(), take()]).toEqual([0, 0, 0, 1]);
});

test('request rate: two nodes that tell each other admit together what one would', () => {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const nodes: RequestRate[] = [];
  const node = (other: number) =>
    new RequestRate(
      { perSecond: 1, burst: 4 },
      { milliseconds: () => 0, tell: (counts) => nodes[other]?.heard(counts) },
    );
  nodes.push(node(1), node(0));
  const [one, two] = nodes;
  const taken = [one?.take('acme'), one?.take('acme'), two?.take('acme')];
  vi.advanceTimersByTime(200);

  expect(taken).toEqual([0, 0, 0]);
  expect([two?.take('acme'), two?.take('acme')]).toEqual([0, 1]);
  expect([one?.take('other'), two?.take('other')]).toEqual([0, 0]);
  one?.heard([['acme', 1_000_000]]);
  expect(one?.take('acme')).toBe(1);
});
