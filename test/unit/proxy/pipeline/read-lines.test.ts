import { expect, test } from 'vitest';
import { identify } from '#proxy/pipeline/identify';
import { readLines } from '#proxy/pipeline/read-lines';

async function lines(chunks: string[], maxBytes = 100) {
  const input = (async function* () {
    for (const chunk of chunks) yield Buffer.from(chunk);
  })();
  const all = [];
  for await (const line of readLines(input, maxBytes)) all.push(line);
  return all;
}

test('line reader: lines come without line ends, however the bytes are cut, and blank lines are skipped', async () => {
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
