import { expect, test } from 'vitest';
import type { AgentEvent } from '#proxy/agent/agent-status';
import { followKey, keyInUse } from '#proxy/agent/keep-tunnel';
import { TunnelError } from '#proxy/agent/tunnel';
import { fakeClock } from '#support/fake-clock';

/** A key that a test replaces in `place`, and a tunnel that refuses the key with `place.refusal`, if a test sets one. */
async function followed({ watches = true } = {}) {
  const clock = fakeClock();
  const stop = new AbortController();
  const events: AgentEvent[] = [];
  const drained = Promise.withResolvers<void>();
  const place: { key: string | TunnelError; refusal?: TunnelError; dials: string[] } = {
    key: 'old',
    dials: [],
  };
  const key = keyInUse(async () => {
    if (typeof place.key === 'string') return place.key;
    throw place.key;
  });
  await key.read();
  const check = followKey(
    {
      key,
      watches,
      clock,
      status: (event) => events.push(event),
      async renew() {
        place.dials.push(await key.read());
        if (place.refusal) throw place.refusal;
        return { drained: drained.promise };
      },
    },
    stop.signal,
  );
  return { clock, events, drained, place, check, stop };
}

test('agent key: a new key is used once, and reported when no call with the old one is open', async () => {
  const { clock, events, drained, place } = await followed();
  await clock.advance(4);
  place.key = 'new';
  for (let turn = 0; turn < 5; turn += 1) await clock.advance(2);
  const before = events.map(({ event }) => event);
  drained.resolve();
  await clock.settled();

  expect(place.dials).toEqual(['new']);
  expect(before).toEqual(['key_replaced']);
  expect(events.at(-1)).toEqual({ event: 'key_unused' });
});

test('agent key: a rejected new key is reported once and not retried until it changes', async () => {
  const { clock, events, place } = await followed();
  place.key = 'wrong';
  place.refusal = new TunnelError('refused', 'not accepted', { remedy: 'make one' });
  for (let turn = 0; turn < 5; turn += 1) await clock.advance(2);
  const reported = [...events];
  delete place.refusal;
  place.key = 'right';
  await clock.advance(2);

  expect(reported).toEqual([
    { event: 'key_not_replaced', problem: 'not accepted', remedy: 'make one' },
  ]);
  expect(place.dials).toEqual(['wrong', 'right']);
});

test('agent key: a new key is retried while the server is unreachable', async () => {
  const { clock, events, place } = await followed();
  place.key = 'new';
  place.refusal = new TunnelError('unreachable', 'no route');
  for (let turn = 0; turn < 3; turn += 1) await clock.advance(2);
  delete place.refusal;
  await clock.advance(2);
  await clock.advance(2);

  expect(place.dials).toHaveLength(4);
  expect(events.map(({ event }) => event)).toEqual(['key_not_replaced', 'key_replaced']);
});

test('agent key: a file that is being written is ignored; one that stays unreadable is reported once', async () => {
  const { clock, events, place } = await followed();
  place.key = new TunnelError('unreadable', 'holds no agent key');
  await clock.advance(2);
  const first = events.length;
  for (let turn = 0; turn < 4; turn += 1) await clock.advance(2);

  expect(first).toBe(0);
  expect(events).toEqual([
    { event: 'key_not_replaced', problem: 'holds no agent key', remedy: '' },
  ]);
});

test('agent key: an unwatched key is read on request, and none is read after the end', async () => {
  const { clock, place, check } = await followed({ watches: false });
  place.key = 'new';
  await clock.advance(10);
  const unasked = place.dials.length;
  check();
  await clock.settled();

  expect([unasked, place.dials.length]).toEqual([0, 1]);
  const watching = await followed();
  watching.stop.abort();
  watching.place.key = 'new';
  for (let turn = 0; turn < 4; turn += 1) await watching.clock.advance(2);
  expect(watching.place.dials).toEqual([]);
});
