import { setImmediate as nextTurn } from 'node:timers/promises';
import { PassThrough } from 'node:stream';
import { expect, test, vi } from 'vitest';
import { framesOfATurn } from '#server/tunnel/frames-of-a-turn';

/** A connection, and what went out over it in one go. */
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
  const frames = framesOfATurn(duplex);
  const write = (text: string) => {
    frames.hold();
    duplex.write(text);
  };
  return { duplex, frames, writes, write };
}

test('what is written in one turn of the event loop goes out at once, at its end', async () => {
  const { writes, write } = connection();
  for (const text of ['a', 'b', 'c']) write(text);

  expect(writes).toEqual([]);

  await nextTurn();

  expect(writes).toEqual([['a', 'b', 'c']]);
});

test('the next turn holds back anew', async () => {
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

test('a connection that is let go is so now, and is not let go twice', async () => {
  const { duplex, frames, writes, write } = connection();
  const uncork = vi.spyOn(duplex, 'uncork');
  write('a');
  write('b');
  frames.release();

  expect(writes).toEqual([['a', 'b']]);

  frames.release();
  await nextTurn();

  expect(uncork).toHaveBeenCalledTimes(1);
});

test('what is written after it was let go in a turn is held until the end of that', async () => {
  const { writes, write, frames } = connection();
  write('a');
  frames.release();
  write('b');
  write('c');
  const before = writes.length;
  await nextTurn();
  await nextTurn();

  expect(before).toBe(1);
  expect(writes).toEqual([['a'], ['b', 'c']]);
});
