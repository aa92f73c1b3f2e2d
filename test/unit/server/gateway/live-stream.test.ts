import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { ReopenPauses, live } from '#server/gateway/live-stream';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { UpstreamError } from '#server/gateway/upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';

describe('a heartbeat', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const beat = ': still here\n\n';

  /** A stream of events that is written by hand, as its reader gets it. */
  function stream() {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const heard: string[] = [];
    const over = (async () => {
      for await (const chunk of live(readable)) heard.push(Buffer.from(chunk).toString());
    })();
    over.catch(() => undefined);
    return { heard, over, writer };
  }

  test('a silent stream gets a comment every 25 seconds, and events are passed on immediately', async () => {
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

  test('an event that arrives in pieces is not interrupted by a comment', async () => {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const { body } = await replied({ mediaType: 'text/event-stream', text: readable });
    if (typeof body !== 'object' || body instanceof Uint8Array) throw new Error('no stream');
    const heard: string[] = [];
    const over = (async () => {
      for await (const chunk of body) heard.push(Buffer.from(chunk).toString());
    })();
    await writer.write(Buffer.from('data: 1\n'));
    await vi.advanceTimersByTimeAsync(25_000);
    await writer.write(Buffer.from('\n'));
    await vi.advanceTimersByTimeAsync(25_000);
    await writer.close();
    await over;

    expect(heard).toEqual([beat, 'data: 1\n\n', beat]);
  });

  test('a stream that fails does so for its reader, and leaves no timer behind', async () => {
    const { writer, over } = stream();
    await vi.advanceTimersByTimeAsync(30_000);
    const lost = new Error('lost');
    await writer.abort(lost);

    await expect(over).rejects.toBe(lost);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('a reader that stops ends the stream behind it', async () => {
    const ended = vi.fn();
    async function* endless() {
      try {
        for (;;) yield Buffer.from('data: 1\n\n');
      } finally {
        ended();
      }
    }
    for await (const _ of live(endless())) break;

    expect(ended).toHaveBeenCalledTimes(1);
  });

  test('a JSON answer gets no comments', async () => {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const answering = replied({ text: readable });
    await vi.advanceTimersByTimeAsync(60_000);
    await writer.write(Buffer.from('{}'));
    await writer.close();

    expect(await bodyText(await answering)).toBe('{}');
  });
});

describe('the end of a stream', () => {
  async function* lost(texts: readonly string[], error: Error): AsyncGenerator<Uint8Array> {
    for (const text of texts) yield Buffer.from(text);
    throw error;
  }

  const words = (error: unknown) =>
    error instanceof GatewayRefusal ? `{"lost":"${error.code}"}` : undefined;

  async function read(texts: readonly string[], error: Error, mediaType = 'text/event-stream') {
    return bodyText(await replied({ mediaType, text: lost(texts, error) }, { report: words }));
  }

  const broken = new UpstreamError('broken', 'gone');
  const told = 'event: message\ndata: {"lost":"upstream_broke_off"}\n\n';

  test.each([
    ['before the first event', [], ''],
    ['after an event', ['data: 1\n\n'], 'data: 1\n\n'],
    ['after an event in pieces', ['data: 1\n', '\n'], 'data: 1\n\n'],
    // The line feed belongs to the carriage return, and does not begin an event.
    ['after an event with carriage returns', ['data: 1\r\n\r', '\n'], 'data: 1\r\n\r'],
  ])('a stream that is lost %s ends with an error', async (_, texts, passed) => {
    expect(await read(texts, broken)).toBe(passed + told);
  });

  test('a stream that is lost inside an event ends with an error, without the incomplete event', async () => {
    expect(await read(['data: 1\n\nda'], broken)).toBe(`data: 1\n\n${told}`);
  });

  test('a stream that ends for an unreported reason just ends', async () => {
    const aborted = new DOMException('the call was stopped', 'AbortError');

    await expect(read(['data: 1\n\n'], aborted)).rejects.toBe(aborted);
  });

  test('an answer that is no event stream is refused when it is interrupted', async () => {
    await expect(read(['{}\n\n'], broken, 'application/json')).rejects.toMatchObject({
      code: 'upstream_broke_off',
      cause: broken,
    });
  });
});

describe('a stream that is reopened whenever it ends', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** How long each pause was, in seconds. */
  async function lengths(pauses: ReopenPauses, count: number): Promise<number[]> {
    const { signal } = new AbortController();
    const seconds: number[] = [];
    for (let n = 0; n < count; n += 1) {
      const from = performance.now();
      const paused = pauses.pause(signal);
      await vi.runAllTimersAsync();
      await paused;
      seconds.push(Math.round((performance.now() - from) / 1000));
      pauses.opened();
    }
    return seconds;
  }

  test('pauses ever longer while it ends immediately after opening', async () => {
    expect(await lengths(new ReopenPauses(), 7)).toEqual([1, 2, 4, 8, 16, 30, 30]);
  });

  test('pauses briefly again after it stayed open', async () => {
    const pauses = new ReopenPauses();
    await lengths(pauses, 5);
    vi.advanceTimersByTime(29_000);
    const early = await lengths(pauses, 1);
    vi.advanceTimersByTime(30_000);

    expect([early, await lengths(pauses, 2)]).toEqual([[30], [1, 2]]);
  });

  test('stops pausing when it is no longer needed', async () => {
    const gone = new AbortController();
    const paused = new ReopenPauses().pause(gone.signal);
    gone.abort();

    await paused;
    await new ReopenPauses().pause(gone.signal);

    expect(vi.getTimerCount()).toBe(0);
  });
});
