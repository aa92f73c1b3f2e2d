import { describe, expect, test } from 'vitest';

import { SseEventTooLarge, SseEvents } from '#mcp/sse';

type Read = { data: string; id?: string; event?: string };

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
    ['other fields', 'retry: 10\ndatax: 1\nDATA: 2\ndata: x\n\n', [{ data: 'x' }]],
    ['a comment', ': keep-alive\n\n', [{ data: '' }]],
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
  expect(whole.raw).toBe(sample);
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

test('too large an event can come in pieces without data, and what follows it whole', () => {
  const large = `data: ${'x'.repeat(200)}\r\ndata: y\r\n\r\n`;
  const body = Buffer.from(`data: a\n\n${large}data: b\n\n`);
  for (let cut = 0; cut <= body.length; cut++) {
    const events = new SseEvents({ maxBytes: 100, passLarge: true });
    const pieces = [
      ...events.push(body.subarray(0, cut)),
      ...events.push(body.subarray(cut, cut + 20)),
      ...events.push(body.subarray(cut + 20)),
    ];

    expect(Buffer.concat(pieces.map(({ raw }) => raw)).toString()).toBe(body.toString());
    expect(pieces.map(({ data }) => Buffer.from(data).toString()).filter(Boolean)).toEqual([
      'a',
      'b',
    ]);
  }
});
