import { expect, test, vi } from 'vitest';
import { abortSignal, Ending } from '#server/model/ending';

test('ending: tells each listener once, with the first reason, and none that was removed or came too late', () => {
  const ending = new Ending();
  const told = vi.fn();
  const [removed, removedMeanwhile, late] = [vi.fn(), vi.fn(), vi.fn()];
  const first = () => {
    told('first', ending.aborted, ending.reason);
    ending.removeEventListener('abort', removedMeanwhile);
    ending.addEventListener('abort', late);
  };
  ending.addEventListener('abort', removed);
  ending.addEventListener('abort', first);
  ending.addEventListener('abort', first);
  ending.removeEventListener('abort', removed);
  ending.addEventListener('abort', first);
  ending.addEventListener('abort', removedMeanwhile);
  ending.addEventListener('abort', { handleEvent: () => told('object') });
  ending.abort('why');
  ending.abort('again');

  expect(told.mock.calls).toEqual([['first', true, 'why'], ['object']]);
  expect([removed, removedMeanwhile, late].flatMap(({ mock }) => mock.calls)).toEqual([]);
});

test('ending: without a reason, its reason is that of an AbortController, and it throws it', () => {
  const ending = new Ending();
  ending.throwIfAborted();
  ending.abort();
  const controller = new AbortController();
  controller.abort();

  expect(ending.reason).toEqual(controller.signal.reason);
  expect(() => ending.throwIfAborted()).toThrow(DOMException);
});

test.each(['before', 'after'] as const)(
  'ending: an AbortSignal made of it %s the end is aborted with the same reason',
  (when) => {
    const ending = new Ending();
    if (when === 'after') ending.abort('why');
    const signal = abortSignal(ending.signal);
    const told = vi.fn();
    AbortSignal.any([signal]).addEventListener('abort', told);
    if (when === 'before') ending.abort('why');

    expect(signal).toBe(abortSignal(ending));
    expect([signal.aborted, signal.reason, told.mock.calls.length]).toEqual([
      true,
      'why',
      when === 'before' ? 1 : 0,
    ]);
  },
);

test('ending: an AbortSignal stays the one that it is', () => {
  const { signal } = new AbortController();

  expect(abortSignal(signal)).toBe(signal);
});
