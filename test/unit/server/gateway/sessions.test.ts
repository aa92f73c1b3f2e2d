import { describe, expect, test, vi } from 'vitest';

import { LegacySessions } from '#server/gateway/sessions';
import { stillClock } from '#support/still-clock';

test('a session has a random id that reveals nothing of the one upstream', () => {
  const sessions = new LegacySessions(stillClock());
  const one = sessions.open('key:a', 'srv_1', 'upstream-1');
  const two = sessions.open('key:a', 'srv_1', 'upstream-1');

  expect(one.id).toMatch(/^[\w-]{32}$/);
  expect(one.id).not.toBe(two.id);
  expect(sessions.find(one.id, 'key:a', 'srv_1')).toMatchObject({
    upstreamSessionId: 'upstream-1',
  });
});

test('a session opens only for the principal and the server that it was created for', () => {
  const sessions = new LegacySessions(stillClock());
  const { id } = sessions.open('key:a', 'srv_1', 'upstream-1');

  expect(sessions.find(id, 'key:b', 'srv_1')).toBeUndefined();
  expect(sessions.find(id, 'key:a', 'srv_2')).toBeUndefined();
  expect(sessions.find('other', 'key:a', 'srv_1')).toBeUndefined();
  expect(sessions.find(id, 'key:a', 'srv_1')).toBeDefined();
});

test('a closed session is not found', () => {
  const sessions = new LegacySessions(stillClock());
  const { id } = sessions.open('key:a', 'srv_1', 'upstream-1');
  sessions.close(id);

  expect(sessions.find(id, 'key:a', 'srv_1')).toBeUndefined();
});

test('a session ends after an hour without use, and each use counts', () => {
  const clock = stillClock();
  const sessions = new LegacySessions(clock);
  const { id } = sessions.open('key:a', 'srv_1', 'upstream-1');
  clock.advance(3600);

  expect(sessions.find(id, 'key:a', 'srv_1')).toBeDefined();

  clock.advance(3600);

  expect(sessions.find(id, 'key:a', 'srv_1')).toBeDefined();

  clock.advance(3601);

  expect(sessions.find(id, 'key:a', 'srv_1')).toBeUndefined();
});

test('trying the id of another principal’s session does not keep it alive', () => {
  const clock = stillClock();
  const sessions = new LegacySessions(clock);
  const { id } = sessions.open('key:a', 'srv_1', 'upstream-1');
  clock.advance(3000);
  sessions.find(id, 'key:b', 'srv_1');
  clock.advance(601);

  expect(sessions.find(id, 'key:a', 'srv_1')).toBeUndefined();
});

test('beyond the limit, the least recently used session of a principal is forgotten', () => {
  const sessions = new LegacySessions(stillClock());
  const first = sessions.open('key:a', 'srv_1', 'upstream-1');
  const second = sessions.open('key:a', 'srv_1', 'upstream-2');
  for (let count = 2; count < 1000; count += 1) sessions.open('key:a', 'srv_1', 'upstream');
  sessions.find(first.id, 'key:a', 'srv_1');
  sessions.open('key:a', 'srv_1', 'one too many');

  expect(sessions.find(first.id, 'key:a', 'srv_1')).toBeDefined();
  expect(sessions.find(second.id, 'key:a', 'srv_1')).toBeUndefined();
});

describe('the upstream session is ended', () => {
  test('after an hour without use', () => {
    const clock = stillClock();
    const sessions = new LegacySessions(clock);
    const end = vi.fn(() => Promise.reject(new Error('gone')));
    sessions.open('key:a', 'srv_1', 'upstream-1', { end });
    clock.advance(3601);
    sessions.open('key:b', 'srv_1', 'upstream-2');

    expect(end).toHaveBeenCalledOnce();
  });

  test('when its principal loses it to a newer one', () => {
    const sessions = new LegacySessions(stillClock());
    const end = vi.fn(() => Promise.resolve());
    sessions.open('key:a', 'srv_1', 'upstream-0', { end });
    for (let n = 0; n < 1000; n++) sessions.open('key:a', 'srv_1', 'another');

    expect(end).toHaveBeenCalledOnce();
  });

  test('when the server stops, unless it was closed before', async () => {
    const sessions = new LegacySessions(stillClock());
    const open = vi.fn(() => Promise.resolve());
    const closed = vi.fn(() => Promise.resolve());
    sessions.open('key:a', 'srv_1', 'upstream-1', { end: open });
    sessions.close(sessions.open('key:a', 'srv_1', 'upstream-2', { end: closed }).id);
    await sessions.endAll();

    expect(open).toHaveBeenCalledOnce();
    expect(closed).not.toHaveBeenCalled();
  });
});
