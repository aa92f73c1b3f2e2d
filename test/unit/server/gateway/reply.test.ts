import { describe, expect, test, vi } from 'vitest';

import { discard, send } from '#server/gateway/answers';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { UpstreamError } from '#server/gateway/upstream';
import { type ScriptedAnswer, brokenOff, eventStream, fakeUpstream } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';

describe('an answer for the caller', () => {
  const json = { json: true, events: false };
  const events = { json: false, events: true };
  const both = { json: true, events: true };
  const response = '{"jsonrpc":"2.0","id":1,"result":{"big":12345678901234567890}}';
  const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
  const stream = eventStream(progress, response);

  describe('an answer passes byte for byte', () => {
    test('JSON for a caller that accepts JSON', async () => {
      const answer = await replied({ text: response }, { accepts: json });

      expect(answer).toMatchObject({
        status: 200,
        headers: { 'Content-Type': 'application/json' },
      });
      expect(await bodyText(answer)).toBe(response);
    });

    test('an event stream for a caller that accepts events, unbuffered', async () => {
      const answer = await replied(
        { mediaType: 'text/event-stream', text: stream },
        { accepts: both },
      );

      expect(answer.headers).toEqual({
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-store',
        'X-Accel-Buffering': 'no',
      });
      expect(await bodyText(answer)).toBe(stream);
    });

    test.each([400, 404])('a JSON-RPC refusal with status %i', async (status) => {
      const answer = await replied({ status, text: response }, { accepts: json });

      expect(answer.status).toBe(status);
      expect(await bodyText(answer)).toBe(response);
    });
  });

  test('no header of the upstream is passed on, not even its session', async () => {
    const answer = await replied({ sessionId: 'theirs', text: response }, { accepts: json });

    expect(Object.keys(answer.headers)).toEqual(['Content-Type', 'Cache-Control']);
  });

  test('a caller that accepts only JSON gets the one response of an event stream', async () => {
    const answer = await replied(
      { mediaType: 'text/event-stream', text: stream },
      { accepts: json },
    );

    expect(answer.headers).toMatchObject({ 'Content-Type': 'application/json' });
    expect(await bodyText(answer)).toBe(response);
  });

  test('a caller that accepts only events gets JSON as an event of one line', async () => {
    const spread = response.replace(',', ',\r\n');
    const answer = await replied({ text: spread }, { accepts: events });

    expect(answer.headers).toMatchObject({ 'Content-Type': 'text/event-stream' });
    expect(await bodyText(answer)).toBe(`event: message\ndata: ${response.replace(',', ', ')}\n\n`);
  });

  test.each([202, 204])('an answer %i to a notification is 202 without a body', async (status) => {
    expect(await replied({ status, text: 'ignored' }, { accepts: json })).toEqual({
      status: 202,
      headers: {},
    });
  });

  test('a body that is not needed is read to its end, and cut off if it is long', async () => {
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
});

describe('an unusable answer', () => {
  const json = { json: true, events: false };
  const events = { json: false, events: true };
  const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
  const request = { method: 'POST', headers: {}, signal: new AbortController().signal } as const;

  describe('an upstream without an answer is refused with a message of the gateway', () => {
    test.each([
      ['unreachable', 'upstream_unreachable'],
      ['unknown_host', 'upstream_unknown_host'],
      ['not_public', 'upstream_not_public'],
      ['tls', 'upstream_tls_failed'],
      ['not_served', 'upstream_not_served'],
      ['timeout', 'upstream_timeout'],
      ['broken', 'upstream_broke_off'],
      ['too_large', 'upstream_too_large'],
      ['encoded', 'upstream_unreadable'],
      ['offline', 'agent_offline'],
    ] as const)('%s: %s', async (fault, code) => {
      const upstream = fakeUpstream(() => Promise.reject(new UpstreamError(fault, 'POST')));

      await expect(send(upstream, request)).rejects.toMatchObject({ name: 'GatewayRefusal', code });
    });
  });

  test('an error that does not mean an absent upstream stays as it is', async () => {
    const aborted = new DOMException('aborted', 'AbortError');
    const upstream = fakeUpstream(() => Promise.reject(aborted));

    await expect(send(upstream, request)).rejects.toBe(aborted);
  });

  test('Retry-After of a server that is not busy is not passed on', async () => {
    const replying = replied({ status: 500, retryAfterSeconds: 7, text: '' }, { accepts: json });

    await expect(replying).rejects.toSatisfy(
      ({ code, details }: GatewayRefusal) =>
        code === 'upstream_server_error' && details.retryAfterSeconds === undefined,
    );
  });

  describe('an unusable answer is refused', () => {
    test.each<[string, ScriptedAnswer, object]>([
      ['upstream_busy', { status: 503, retryAfterSeconds: 7 }, { retryAfterSeconds: 7 }],
      ['upstream_rate_limited', { status: 429 }, {}],
      [
        'upstream_rate_limited',
        { status: 429, retryAfterSeconds: 900_000 },
        { retryAfterSeconds: 3600 },
      ],
      [
        'upstream_refused_credentials',
        { status: 401 },
        { detail: 'it refused the request (HTTP 401)' },
      ],
      [
        'upstream_refused_credentials',
        { status: 403 },
        { detail: 'it refused the request (HTTP 403)' },
      ],
      [
        'upstream_server_error',
        { status: 500 },
        { detail: 'it answered HTTP 500 with application/json' },
      ],
      ['upstream_redirected', { status: 307, mediaType: '' }, { detail: 'it answered HTTP 307' }],
      [
        'upstream_not_json',
        { mediaType: 'text/html' },
        { detail: 'it answered HTTP 200 with text/html' },
      ],
      ['upstream_not_found', { status: 404, mediaType: 'text/html' }, {}],
      ['upstream_not_found', { status: 410, mediaType: '' }, {}],
      ['upstream_method_not_allowed', { status: 405, mediaType: '' }, {}],
      ['upstream_failed', { status: 400, mediaType: 'text/html' }, {}],
    ])('%s: %j', async (code, answer, details) => {
      await expect(
        replied({ ...answer, text: 'private' }, { accepts: json }),
      ).rejects.toMatchObject({
        code,
        details,
      });
    });
  });

  describe('an answer that is interrupted before its response is upstream_broke_off', () => {
    test.each<[string, ScriptedAnswer, typeof json]>([
      [
        'in an event stream that ends',
        { mediaType: 'text/event-stream', text: eventStream(progress) },
        json,
      ],
      [
        'in an event stream that is cut',
        { mediaType: 'text/event-stream', text: brokenOff('data: {') },
        json,
      ],
      ['in JSON that must become an event', { text: brokenOff('{') }, events],
    ])('%s', async (_, answer, accepts) => {
      await expect(replied(answer, { accepts })).rejects.toMatchObject({
        name: 'GatewayRefusal',
        code: 'upstream_broke_off',
      });
    });
  });

  test('an answer that we ended is no failure of the upstream', async () => {
    const aborted = new DOMException('aborted', 'AbortError');
    const ended = { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(aborted) }) };
    const answer = { mediaType: 'text/event-stream', text: ended };

    await expect(replied(answer, { accepts: json })).rejects.toBe(aborted);
  });
});

describe('the limits of an answer', () => {
  const json = 'application/json';
  const events = 'text/event-stream';
  const signal = new AbortController().signal;

  async function* pieces(texts: readonly string[], ended = vi.fn()): AsyncGenerator<Uint8Array> {
    try {
      for (const text of texts) yield Buffer.from(text);
    } finally {
      ended();
    }
  }

  function limited(
    text: string | AsyncIterable<Uint8Array> | Uint8Array,
    maxBytes: number,
    mediaType = json,
    but: { signal?: AbortSignal; cut?: () => void } = {},
  ) {
    return replied({ text, mediaType }, { maxBytes, signal, ...but });
  }

  test.each([
    ['whole', Buffer.from('{"a":1}')],
    ['as text', '{"a":1}'],
    ['in pieces', pieces(['{"a"', ':1}'])],
  ])('an answer %s of exactly the limit is unchanged', async (_, body) => {
    expect(await bodyText(await limited(body, 7))).toBe('{"a":1}');
  });

  test.each([
    ['whole', Buffer.from('{"a":1}')],
    ['as text', '{"a":1}'],
    ['in pieces', pieces(['{"a"', ':1}'])],
  ])(
    'an answer %s of one byte over the limit is an error that names the limit',
    async (_, body) => {
      await expect(limited(body, 6)).rejects.toMatchObject({
        code: 'upstream_too_large',
        message: 'its response is larger than the 6 bytes that this server allows',
      });
    },
  );

  test('the request to the upstream is aborted when its answer is cut off', async () => {
    const ended = vi.fn();
    await limited(pieces(['123456', '789', '0'], ended), 5).catch(() => undefined);

    expect(ended).toHaveBeenCalledOnce();
  });

  test('of an answer of megabytes the received part is passed on, and the interruption recorded', async () => {
    const piece = 'x'.repeat(700_000);
    const cut = vi.fn();
    const ended = vi.fn();
    const body = pieces([piece, piece, piece, piece], ended);
    const { body: rest } = await limited(body, 2_200_000, json, { cut });
    let passed = 0;
    const read = (async () => {
      if (typeof rest !== 'object' || rest instanceof Uint8Array) throw new Error('no stream');
      for await (const chunk of rest) passed += chunk.length;
    })();

    await expect(read).rejects.toMatchObject({ code: 'upstream_too_large' });
    expect(passed).toBe(2_100_000);
    expect(cut).toHaveBeenCalledOnce();
    expect(ended).toHaveBeenCalledOnce();
  });

  test('an event stream ends between two events', async () => {
    const body = pieces(['data: 1\n\ndata', ': 2\n\n', 'data: 3\n\n']);
    const { body: rest } = await limited(body, 18, events);
    let text = '';
    const read = (async () => {
      if (typeof rest !== 'object' || rest instanceof Uint8Array) throw new Error('no stream');
      for await (const chunk of rest) text += Buffer.from(chunk).toString();
    })();

    await expect(read).rejects.toMatchObject({ code: 'upstream_too_large' });
    expect(text).toBe('data: 1\n\ndata: 2\n\n');
  });

  test.each([
    ['breaks', true],
    ['ends quietly', false],
  ])('a stream that %s at its time limit ends with an error about it', async (_, breaks) => {
    const ending = new AbortController();
    const slow = new GatewayRefusal('too_slow', { detail: 'it took too long' });
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('data: 1\n\n');
      ending.abort(slow);
      if (breaks) throw new DOMException('the call was stopped', 'AbortError');
    }
    const answer = await limited(body(), Infinity, events, { signal: ending.signal });

    await expect(bodyText(answer)).rejects.toBe(slow);
  });
});
