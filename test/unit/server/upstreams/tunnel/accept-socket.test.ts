import { setImmediate as nextTurn } from 'node:timers/promises';
import { PassThrough } from 'node:stream';
import { expect, test, vi } from 'vitest';
import { batchWrites } from '#server/upstreams/tunnel/accept-socket';

/** A connection, and what each write to it contained. */
function connection() {
  const duplex = new PassThrough();
  const writes: string[][] = [];
  duplex._writev = (chunks, done) => {
    writes.push(chunks.map(({ chunk }) => String(chunk)));
    done();
  };
  duplex._write = (chunk, _, done) => {
    writes.push([String(chunk)]);
    done();
  };
  const batch = batchWrites(duplex);
  const write = (text: string) => {
    batch.hold();
    duplex.write(text);
  };
  return { duplex, batch, writes, write };
}

test('batched writes: what is written in one turn of the event loop goes out together at its end', async () => {
  const { writes, write } = connection();
  for (const text of ['a', 'b', 'c']) write(text);

  expect(writes).toEqual([]);

  await nextTurn();

  expect(writes).toEqual([['a', 'b', 'c']]);
});

test('batched writes: the next turn holds back again', async () => {
  const { writes, write } = connection();
  write('a');
  await nextTurn();
  write('b');
  write('c');
  const before = writes.length;
  await nextTurn();

  expect(before).toBe(1);
  expect(writes).toEqual([['a'], ['b', 'c']]);
});

test('batched writes: a release writes immediately, and the connection is uncorked once', async () => {
  const { duplex, batch, writes, write } = connection();
  const uncork = vi.spyOn(duplex, 'uncork');
  write('a');
  write('b');
  batch.release();

  expect(writes).toEqual([['a', 'b']]);

  batch.release();
  await nextTurn();

  expect(uncork).toHaveBeenCalledTimes(1);
});

test('batched writes: what is written after a release is held until the end of the turn', async () => {
  const { writes, write, batch } = connection();
  write('a');
  batch.release();
  write('b');
  write('c');
  const before = writes.length;
  await nextTurn();
  await nextTurn();

  expect(before).toBe(1);
  expect(writes).toEqual([['a'], ['b', 'c']]);
});
