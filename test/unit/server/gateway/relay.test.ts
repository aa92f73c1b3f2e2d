import { describe, expect, test } from 'vitest';
import { discard, relay } from '#server/gateway/relay';
import { eventStream, upstreamAnswer } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';

const json = { json: true, events: false };
const events = { json: false, events: true };
const both = { json: true, events: true };
const response = '{"jsonrpc":"2.0","id":1,"result":{"big":12345678901234567890}}';
const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
const stream = eventStream(progress, response);

describe('an answer goes through byte for byte', () => {
  test('JSON to who takes JSON', async () => {
    const answer = await relay(upstreamAnswer({ text: response }), json);

    expect(answer).toMatchObject({ status: 200, headers: { 'Content-Type': 'application/json' } });
    expect(await bodyText(answer)).toBe(response);
  });

  test('an event stream to who takes events, unbuffered', async () => {
    const answer = await relay(
      upstreamAnswer({ mediaType: 'text/event-stream', text: stream }),
      both,
    );

    expect(answer.headers).toEqual({
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    expect(await bodyText(answer)).toBe(stream);
  });

  test.each([400, 404])('a JSON-RPC refusal with status %i', async (status) => {
    const answer = await relay(upstreamAnswer({ status, text: response }), json);

    expect(answer.status).toBe(status);
    expect(await bodyText(answer)).toBe(response);
  });
});

test('of the headers of an upstream nothing is handed on, its session neither', async () => {
  const answer = await relay(upstreamAnswer({ sessionId: 'theirs', text: response }), json);

  expect(Object.keys(answer.headers)).toEqual(['Content-Type', 'Cache-Control']);
});

test('who takes JSON only gets the one response out of an event stream', async () => {
  const answer = await relay(
    upstreamAnswer({ mediaType: 'text/event-stream', text: stream }),
    json,
  );

  expect(answer.headers).toMatchObject({ 'Content-Type': 'application/json' });
  expect(await bodyText(answer)).toBe(response);
});

test('who takes events only gets JSON as an event of one line', async () => {
  const spread = response.replace(',', ',\r\n');
  const answer = await relay(upstreamAnswer({ text: spread }), events);

  expect(answer.headers).toMatchObject({ 'Content-Type': 'text/event-stream' });
  expect(await bodyText(answer)).toBe(`event: message\ndata: ${response.replace(',', ', ')}\n\n`);
});

test.each([202, 204])('an answer %i to a notification is 202 without a body', async (status) => {
  expect(await relay(upstreamAnswer({ status, text: 'ignored' }), json)).toEqual({
    status: 202,
    headers: {},
  });
});

test('a body that nobody wants is read to its end, and cut off when it is long', async () => {
  let read = 0;
  let ended = false;
  async function* endless() {
    try {
      for (;;) {
        read += 1024;
        yield new Uint8Array(1024);
      }
    } finally {
      ended = true;
    }
  }
  await discard(endless());

  expect(read).toBe(65 * 1024);
  expect(ended).toBe(true);
});
