import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';

import { batchedSink } from '#server/log/batched-sink';

test('the lines of one turn are one write, in their order, and the next turn is another', async () => {
  const written: string[] = [];
  const sink = batchedSink({ write: (text) => written.push(text) });
  sink.write('one\n');
  sink.write('two\n');
  await setImmediate();
  sink.write('three\n');
  await setImmediate();

  expect(written).toEqual(['one\ntwo\n', 'three\n']);
});

test('flushing writes what waits, once', async () => {
  const written: string[] = [];
  const sink = batchedSink({ write: (text) => written.push(text) });
  sink.write('last words\n');
  sink.flush();
  await setImmediate();

  expect(written).toEqual(['last words\n']);
});
