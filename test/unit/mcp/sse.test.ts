import { describe, expect, test } from 'vitest';

import { messageEvent, sseEvents, SseEvents, SseEventTooLarge, withEventId } from '#mcp/sse';

type Read = { data: string; id?: string; event?: string; retryMs?: number; isComment?: true };

function read(chunks: (string | Buffer)[], maxBytes = 10_000): { events: Read[]; raw: string } {
  const splitter = new SseEvents({ maxBytes });
  const events: Read[] = [];
  let all = '';
  for (const chunk of chunks) {
    for (const { raw, data, ...fields } of splitter.push(Buffer.from(chunk))) {
      events.push({ data: Buffer.from(data).toString(), ...fields });
      all += Buffer.from(raw).toString();
    }
  }
  return { events, raw: all };
}

describe('an event has its fields', () => {
  test.each<[string, string, Read[]]>([
    ['data', 'data: x\n\n', [{ data: 'x' }]],
    ['data without a space', 'data:x\n\n', [{ data: 'x' }]],
    ['data with two spaces', 'data:  x\n\n', [{ data: ' x' }]],
    ['two lines of data', 'data: a\ndata: b\n\n', [{ data: 'a\nb' }]],
    ['an empty line of data', 'data: a\ndata\ndata:\n\n', [{ data: 'a\n\n' }]],
    ['a colon in the data', 'data: {"a":1}\n\n', [{ data: '{"a":1}' }]],
    [
      'id and event',
      'id: 7\nevent: message\ndata: é\n\n',
      [{ id: '7', event: 'message', data: 'é' }],
    ],
    ['an id of nothing, which starts a stream', 'id: 0\ndata:\n\n', [{ id: '0', data: '' }]],
    ['an id with NUL', 'id: a\0b\ndata: x\n\n', [{ data: 'x' }]],
    ['other fields', 'retry: 10\ndatax: 1\nDATA: 2\ndata: x\n\n', [{ data: 'x', retryMs: 10 }]],
    ['a comment', ': keep-alive\n\n', [{ data: '', isComment: true }]],
    ['a comment among lines', 'data: a\n:no\ndata: b\n\n', [{ data: 'a\nb' }]],
    ['two events', 'data: a\n\ndata: b\n\n', [{ data: 'a' }, { data: 'b' }]],
    ['blank lines between', '\n\ndata: a\n\n\n\n\ndata: b\n\n', [{ data: 'a' }, { data: 'b' }]],
    ['CR', 'data: a\rdata: b\r\rdata: c\r\r', [{ data: 'a\nb' }, { data: 'c' }]],
    ['CRLF', 'data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n', [{ data: 'a\nb' }, { data: 'c' }]],
    [
      'mixed line ends',
      'data: a\r\n\ndata: b\n\r\ndata: c\r\n\r',
      [{ data: 'a' }, { data: 'b' }, { data: 'c' }],
    ],
    ['a byte order mark', '\ufeffdata: a\n\n', [{ data: 'a' }]],
    ['no blank line at the end', 'data: a\n\ndata: b\n', [{ data: 'a' }]],
  ])('%s', (_, text, events) => {
    expect(read([text]).events).toEqual(events);
  });
});

const sample =
  '\ufeff: hello\r\n\r\nid: 1\r\nevent: message\r\ndata: {"é":1}\r\n\r\n' +
  'data: a\ndata: b\n\n\n\rdata: c\r\rdata: d\r\n\r\r\n:\n\ndata: 😀\n\n';

test('a stream cut anywhere, twice over, gives the same events and every byte', () => {
  const body = Buffer.from(sample);
  const whole = read([body]);
  const wrong: [number, number][] = [];
  for (let one = 0; one <= body.length; one++)
    for (let two = one; two <= body.length; two++) {
      const cut = [body.subarray(0, one), body.subarray(one, two), body.subarray(two)];
      if (JSON.stringify(read(cut)) !== JSON.stringify(whole)) wrong.push([one, two]);
    }

  expect(wrong).toEqual([]);
  expect(whole.events.map(({ data }) => data)).toEqual(['', '{"é":1}', 'a\nb', 'c', 'd', '', '😀']);
  expect(whole.raw).toBe(sample.slice(1));
});

test('a stream in single bytes gives the same events', () => {
  const body = Buffer.from(sample);
  const bytes = Array.from(body, (_, at) => body.subarray(at, at + 1));

  expect(read(bytes)).toEqual(read([body]));
});

test('an event is given out before the line feed of its last CRLF is there', () => {
  expect(read(['data: a\r\n\r']).events).toEqual([{ data: 'a' }]);
});

test('an event of more bytes than the limit is refused, in one chunk and in many', () => {
  const event = `data: ${'x'.repeat(92)}\n\n`;

  expect(read([event, event], 100).events).toHaveLength(2);
  expect(() => read([event], 99)).toThrow(SseEventTooLarge);
  expect(() => read(event.split(''), 99)).toThrow(SseEventTooLarge);
  expect(() => read(['x'.repeat(101)], 100)).toThrow(SseEventTooLarge);
});

test('117: an event of more than 10,000 lines is refused, however short they are and however it is cut', () => {
  const lines = (count: number) => `${'a\n'.repeat(count - 1)}\n`;
  const blank = '\n'.repeat(10_001);

  expect(read([lines(10_000), lines(10_000)], 100_000).events).toHaveLength(2);
  expect(() => read([lines(10_001)], 100_000)).toThrow(
    'an event of the stream is larger than 10000 lines',
  );
  expect(() => read(['a\n'.repeat(6000), 'data:\n'.repeat(6000)], 100_000)).toThrow(
    SseEventTooLarge,
  );
  expect(() => read([blank], 100_000)).toThrow(SseEventTooLarge);
});

test.each([
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
])('events of a body with lines ending in %s arrive with their fields', async (_, lineEnd) => {
  const lines =
    '\ufeff: comment\nid: 1\nevent: message\ndata: a\ndata:b\n\nretry: 50\ndata\n\ndata: c\n';
  const body = async function* () {
    for (const byte of Buffer.from(lines.replaceAll('\n', lineEnd))) yield Buffer.from([byte]);
  };
  const events = [];
  for await (const { raw: _raw, data, ...fields } of sseEvents(body(), { maxBytes: 1000 }))
    events.push({ data: data.toString(), ...fields });

  expect(events).toEqual([
    { id: '1', event: 'message', data: 'a\nb' },
    { retryMs: 50, data: '' },
  ]);
});

test('a body over the limit is refused, in one line or in many', async () => {
  const refused = async (text: string) => {
    const events = sseEvents(Buffer.from(text), { maxBytes: 1000 });
    await expect(events.next()).rejects.toThrow(SseEventTooLarge);
  };

  await refused(`data: ${'x'.repeat(2_000)}`);
  await refused('data: 0123456789\n'.repeat(100));
});

test('an id with control characters is ignored where ids must be printable', () => {
  const stream = 'id: a\x01b\ndata: x\n\nid: é\nid: a\tb\ndata: y\n\n';
  const ids = (printableIds: boolean) =>
    [...new SseEvents({ maxBytes: 1000, printableIds }).push(Buffer.from(stream))].map(
      ({ id }) => id,
    );

  expect(ids(true)).toEqual([undefined, 'é']);
  expect(ids(false)).toEqual(['a\x01b', 'a\tb']);
});

test('a byte order mark after the start of the stream is part of a field name', () => {
  const stream = '\ufeffdata: a\n\n\ufeffdata: b\n\n';

  expect(read([stream])).toEqual({
    events: [{ data: 'a' }, { data: '' }],
    raw: stream.slice(1),
  });
  // An id that is put in front of the event must not turn this field into data either.
  const [, second] = [...new SseEvents({ maxBytes: 1000 }).push(Buffer.from(stream))];
  if (!second) throw new Error('no second event');
  expect(read([withEventId(second, '1')]).events).toEqual([{ id: '1', data: '' }]);
});

test('an event gets another id, and loses every id that it had', () => {
  const replaced = (raw: string, id?: string) =>
    withEventId({ raw: Buffer.from(raw), ...(id !== undefined && { id }) }, '2').toString();

  expect(replaced('\n\r\ndata: x\n\n')).toBe('id: 2\ndata: x\n\n');
  expect(replaced('id: 1\rdata: id: 1\rid\r\r', '')).toBe('id: 2\ndata: id: 1\r\r');
  expect(replaced('id: a\0b\ndata: x\n\n')).toBe('id: 2\ndata: x\n\n');
  // The line ends before and after a removed id must not join into one.
  expect(read([replaced('data: x\rid: 1\nid\n\n', '')]).events).toEqual([{ id: '2', data: 'x' }]);
});

test('a message becomes one line of data, or the lines of the event that it came in', () => {
  const message = Buffer.from('{"a":\r\n1,\r"b":\n2}');

  expect(messageEvent(message).toString()).toBe('event: message\ndata: {"a": 1, "b": 2}\n\n');
  expect(messageEvent(message, { id: '7', event: 'x', retryMs: 5 }).toString()).toBe(
    'id: 7\nevent: x\nretry: 5\ndata: {"a":\ndata: 1,\ndata: "b":\ndata: 2}\n\n',
  );
});
