import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Reaper } from '#server/gateway/reaper';
import { type StillClock, stillClock } from '#support/still-clock';
import { patient } from '#support/patient';

let clock: StillClock;
let owners: Reaper;
let revision = 0;
const kept = new Set<string>();
const keeps = vi.fn((owner: string) => kept.has(owner));
const end = vi.fn((owner: string) => void kept.delete(owner));
const left = vi.fn();
const changeToken = vi.fn(() => String(revision));

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  clock = stillClock();
  kept.clear();
  end.mockClear();
  left.mockClear();
  changeToken.mockClear();
  keeps.mockClear();
  owners = new Reaper({ clock, changeToken, keeps, end, left });
});

afterEach(() => {
  owners.close();
  vi.useRealTimers();
});

/** An access that is active until `revoke` is called. */
function access(name: string) {
  const isActive = vi.fn(() => Promise.resolve(true));
  const revoke = () => {
    revision += 1;
    isActive.mockResolvedValue(false);
  };
  return { name, isActive, revoke };
}

async function known(owner: string, ...lets: readonly ReturnType<typeof access>[]) {
  kept.add(owner);
  for (const one of lets) owners.note(owner, one);
  await owners.look();
}

test('sessions of an owner end once its credential is revoked, and those of others stay', async () => {
  const [one, other] = [access('key a'), access('key b')];
  await known('a', one);
  await known('b', other);

  expect(end).not.toHaveBeenCalled();

  one.revoke();
  await owners.look();

  expect(end).toHaveBeenCalledExactlyOnceWith('a');
});

test('the reaper checks within a second on its own', async () => {
  const one = access('key a');
  await known('a', one);
  one.revoke();
  vi.advanceTimersByTime(1000);

  await vi.waitFor(() => expect(end).toHaveBeenCalledExactlyOnceWith('a'), patient);
});

test('an owner with another grant loses nothing until the last grant is revoked', async () => {
  const [first, second] = [access('client c grant 1'), access('client c grant 2')];
  await known('a', first, second);
  first.revoke();
  await owners.look();

  expect(end).not.toHaveBeenCalled();

  second.revoke();
  await owners.look();

  expect(end).toHaveBeenCalledExactlyOnceWith('a');
});

test('without a write, owners are looked up only once a minute, since keys expire', async () => {
  const one = access('key a');
  await known('a', one);
  one.isActive.mockClear().mockResolvedValue(false);
  await owners.look();

  expect(one.isActive).not.toHaveBeenCalled();

  clock.advance(60);
  await owners.look();

  expect(end).toHaveBeenCalledExactlyOnceWith('a');
});

test('a new owner is looked up even without a write since', async () => {
  await known('a', access('key a'));
  const late = access('key b');
  late.isActive.mockResolvedValue(false);
  await known('b', late);

  expect(end).toHaveBeenCalledExactlyOnceWith('b');
});

test('what a request opens after the revocation ends too', async () => {
  const one = access('key a');
  await known('a', one);
  one.revoke();
  await owners.look();
  kept.add('a');
  await owners.look();

  expect(end).toHaveBeenCalledTimes(2);
  expect(left).toHaveBeenCalledExactlyOnceWith('a');
});

test('an owner that is admitted again is not ended again', async () => {
  const one = access('key a');
  await known('a', one);
  one.revoke();
  await owners.look();
  await known('a', access('key a'));

  expect(end).toHaveBeenCalledTimes(1);
  expect(kept).toEqual(new Set(['a']));
});

test('a store that fails ends nothing, and is queried again', async () => {
  const one = access('key a');
  await known('a', one);
  one.revoke();
  one.isActive.mockRejectedValueOnce(new Error('disk full'));
  await owners.look();
  changeToken.mockImplementationOnce(() => {
    throw new Error('disk full');
  });
  await owners.look();

  expect(end).not.toHaveBeenCalled();

  await owners.look();

  expect(end).toHaveBeenCalledExactlyOnceWith('a');
});

test('owners without sessions are forgotten, the others not', async () => {
  await known('a', access('key a'));
  await known('b', access('key b'));
  kept.delete('b');
  clock.advance(901);
  await owners.look();

  expect(owners.size).toBe(1);

  kept.delete('a');
  clock.advance(60);
  await owners.look();

  expect(owners.size).toBe(0);
});

test('a thousand owners are all looked up', async () => {
  const all = Array.from({ length: 1000 }, (_, n) => access(`key ${n}`));
  all.forEach((one, n) => owners.note(`owner ${n}`, one));
  kept.add('owner 999');
  all.forEach((one) => one.revoke());
  await owners.look();

  expect(end).toHaveBeenCalledExactlyOnceWith('owner 999');
});

test('while one of a thousand owners has lost access, only that one is looked up again', async () => {
  const all = Array.from({ length: 1000 }, (_, n) => access(`key ${n}`));
  all.forEach((one, n) => owners.note(`owner ${n}`, one));
  all[7]?.revoke();
  await owners.look();
  keeps.mockClear();
  await owners.look();
  await owners.look();

  expect(keeps.mock.calls).toEqual([['owner 7'], ['owner 7']]);
});
