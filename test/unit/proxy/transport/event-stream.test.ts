import { expect, test } from 'vitest';
import { eventStream, EventTooLargeError } from '#proxy/transport/event-stream';

async function* chunks(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

async function events(...texts: string[]) {
  const all = [];
  for await (const event of eventStream(chunks(...texts), 1_000))
    all.push({ ...event, data: event.data.toString() });
  return all;
}

const stream = '\u{FEFF}: comment\nid: 1\nevent: message\ndata: a\ndata:b\n\nretry: 50\ndata\n\n';

test('event stream: fields make events, and several data lines one text', async () => {
  expect(await events(stream)).toEqual([
    { type: 'message', id: '1', data: 'a\nb' },
    { type: 'message', retryMs: 50, data: '' },
  ]);
});

test.each([
  ['LF', stream],
  ['CRLF', stream.replaceAll('\n', '\r\n')],
  ['CR', stream.replaceAll('\n', '\r')],
])(
  'event stream: lines ending in %s are read the same, however the bytes are cut',
  async (_, text) => {
    const whole = await events(text);
    const bytes = [...Buffer.from(text)];
    const all = [];
    const single = (async function* () {
      for (const byte of bytes) yield Buffer.from([byte]);
    })();
    for await (const event of eventStream(single, 1_000))
      all.push({ ...event, data: event.data.toString() });

    expect(all).toEqual(whole);
    expect(whole).toHaveLength(2);
  },
);

test('event stream: an incomplete event at the end is dropped', async () => {
  expect(await events('data: a\n\ndata: b\n')).toEqual([{ type: 'message', data: 'a' }]);
});

test('event stream: an event over the limit is refused, in one line or in many', async () => {
  await expect(events(`data: ${'x'.repeat(2_000)}`)).rejects.toThrow(EventTooLargeError);
  await expect(events('data: 0123456789\n'.repeat(100))).rejects.toThrow(EventTooLargeError);
});
