import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { batchedSink } from '#server/log/log';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('lines within 20 ms are one write, in their order, and later ones are another', () => {
  const written: string[] = [];
  const sink = batchedSink({ write: (text) => written.push(text) });
  sink.write('one\n');
  vi.advanceTimersByTime(19);
  sink.write('two\n');
  vi.advanceTimersByTime(1);
  sink.write('three\n');
  vi.advanceTimersByTime(20);

  expect(written).toEqual(['one\ntwo\n', 'three\n']);
});

test('flushing writes the waiting lines, once', () => {
  const written: string[] = [];
  const sink = batchedSink({ write: (text) => written.push(text) });
  sink.write('last words\n');
  sink.flush();
  vi.advanceTimersByTime(20);

  expect(written).toEqual(['last words\n']);
});
