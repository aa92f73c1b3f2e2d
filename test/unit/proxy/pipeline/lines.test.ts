import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { identify, readLines, lineWriter } from '#proxy/pipeline/lines';

async function lines(chunks: string[], maxBytes = 100) {
  const input = (async function* () {
    for (const chunk of chunks) yield Buffer.from(chunk);
  })();
  const all = [];
  for await (const line of readLines(input, maxBytes)) all.push(line);
  return all;
}

test('line reader: lines have no line endings, however the bytes are split, and blank lines are skipped', async () => {
  const found = await lines(['a', 'b\r', '\n\n  \nc\nd', 'é']);

  expect(found.map(String)).toEqual(['ab', 'c', 'dé']);
});

test('line reader: a line over the limit keeps only its start and end, and the next line is whole', async () => {
  const [long, next] = await lines([`{"id":1,${'x'.repeat(90)}`, `${'y'.repeat(9_000)}}\n{}`]);

  expect(long).toMatchObject({ head: expect.any(Buffer), tail: expect.any(Buffer) });
  expect(next).toEqual(Buffer.from('{}'));
});

const long = (head: string, tail: string) =>
  identify({ head: Buffer.from(head), tail: Buffer.from(tail) });

test.each([
  ['{"jsonrpc":"2.0","id":12,"method":"m","par', 'x"}}', '12'],
  ['{"method":"m","params":{', '"},"jsonrpc":"2.0","id":"a\\"b"}', '"a\\"b"'],
  ['{"method":"m","params":{', '"},"id":3,"jsonrpc":"2.0"}', '3'],
  ['{"jsonrpc":"2.0","method":"notifications/x","params":{', ',"id":3}}', undefined],
  ['{"jsonrpc":"2.0","id":12,"result":{', '}}', undefined],
])('line reader: %s … %s over the limit is request %s', (head, tail, id) => {
  expect(long(head, tail)).toBe(id);
});

/** A reader that asks for the next chunk only when `read` is called. */
function slowReader(highWaterMark = 16) {
  const taken: string[] = [];
  let release: (() => void) | undefined;
  const output = new Writable({
    highWaterMark,
    write(chunk: Buffer, _encoding, done) {
      taken.push(chunk.toString());
      release = done;
    },
  });
  return { output, taken, read: () => release?.() };
}

test('line writer: lines of one event loop turn are written together, in order', async () => {
  const { output, taken } = slowReader(1024);
  const writer = lineWriter(output);

  await Promise.all(['one', 'two', 'three'].map((line) => writer.write(Buffer.from(line))));
  await new Promise(setImmediate);

  expect(taken).toEqual(['one\ntwo\nthree\n']);
});

test('line writer: a line waits while the reader is behind', async () => {
  const { output, taken, read } = slowReader();
  const writer = lineWriter(output);
  await writer.write(Buffer.from('a line that fills the reader'));
  writer.flush();
  let written = false;
  const second = writer.write(Buffer.from('second')).then(() => (written = true));
  await new Promise(setImmediate);
  const early = written;

  read();
  await second;
  writer.flush();

  expect(early).toBe(false);
  expect(taken).toEqual(['a line that fills the reader\n', 'second\n']);
});

test('line writer: a very long line is written whole', async () => {
  let taken = '';
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      taken += chunk.toString();
      done();
    },
  });
  const writer = lineWriter(output);

  await writer.write(Buffer.alloc(1_000_000, 'x'));

  expect(taken.length).toBe(1_000_001);
  expect(taken.endsWith('x\n')).toBe(true);
});

test('line writer: no line waits for a reader that has disconnected', async () => {
  const { output } = slowReader();
  const writer = lineWriter(output);
  await writer.write(Buffer.from('a line that fills the reader'));
  writer.flush();
  const waiting = writer.write(Buffer.from('second'));

  output.destroy();

  await expect(waiting).resolves.toBeUndefined();
  expect(writer.gone.aborted).toBe(true);
});

test('line writer: flush writes the buffered lines', async () => {
  const { output, taken } = slowReader(1024);
  const writer = lineWriter(output);
  void writer.write(Buffer.from('last words'));

  writer.flush();

  expect(taken).toEqual(['last words\n']);
});
