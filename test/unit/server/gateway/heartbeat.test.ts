import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withHeartbeat } from '#server/gateway/heartbeat';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const beat = ': still here\n\n';

/** A stream that is written by hand, as its reader hears it. */
function stream(type = 'text/event-stream') {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const { body } = withHeartbeat({
    status: 200,
    headers: { 'Content-Type': type },
    body: readable,
  });
  if (typeof body !== 'object' || body instanceof Uint8Array) throw new Error('no stream');
  const heard: string[] = [];
  const over = (async () => {
    for await (const chunk of body) heard.push(Buffer.from(chunk).toString());
  })();
  over.catch(() => undefined);
  return { heard, over, writer };
}

test('a silent stream says every 25 seconds that it is there, and what comes is passed on at once', async () => {
  const { heard, writer, over } = stream();
  await vi.advanceTimersByTimeAsync(24_999);

  expect(heard).toEqual([]);

  await vi.advanceTimersByTimeAsync(1);
  await writer.write(Buffer.from('data: 1\n\n'));
  await vi.advanceTimersByTimeAsync(24_999);

  expect(heard).toEqual([beat, 'data: 1\n\n']);

  await vi.advanceTimersByTimeAsync(50_000);
  await writer.close();
  await over;

  expect(heard).toEqual([beat, 'data: 1\n\n', beat, beat]);
  expect(vi.getTimerCount()).toBe(0);
});

test('inside an event nothing is said', async () => {
  const { heard, writer } = stream();
  await writer.write(Buffer.from('data: 1\n'));
  await vi.advanceTimersByTimeAsync(60_000);
  await writer.write(Buffer.from('\n'));
  await vi.advanceTimersByTimeAsync(25_000);

  expect(heard).toEqual(['data: 1\n', '\n', beat]);
});

test('a stream that fails does so for its reader, and leaves nothing behind', async () => {
  const { writer, over } = stream();
  await vi.advanceTimersByTimeAsync(30_000);
  const lost = new Error('lost');
  await writer.abort(lost);

  await expect(over).rejects.toBe(lost);
  expect(vi.getTimerCount()).toBe(0);
});

test('who reads no further ends the stream behind it', async () => {
  const ended = vi.fn();
  async function* endless() {
    try {
      for (;;) yield Buffer.from('data: 1\n\n');
    } finally {
      ended();
    }
  }
  const headers = { 'Content-Type': 'text/event-stream' };
  const { body } = withHeartbeat({ status: 200, headers, body: endless() });
  if (typeof body !== 'object' || body instanceof Uint8Array) throw new Error('no stream');
  for await (const _ of body) break;

  expect(ended).toHaveBeenCalledTimes(1);
});

test('what is no stream of events stays as it is', async () => {
  const { heard } = stream('application/json');
  await vi.advanceTimersByTimeAsync(60_000);
  const whole = { status: 200, headers: { 'Content-Type': 'text/event-stream' }, body: 'data: 1' };

  expect(heard).toEqual([]);
  expect(withHeartbeat(whole)).toBe(whole);
});
