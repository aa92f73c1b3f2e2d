import { expect, test, vi } from 'vitest';

import type { GatewayAnswer } from '#server/gateway/exchange';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { limitedAnswer } from '#server/gateway/limited-answer';
import { bodyText } from '#support/gateway-answer';

const json = { 'Content-Type': 'application/json' };
const events = { 'Content-Type': 'text/event-stream' };
const signal = new AbortController().signal;

async function* pieces(texts: readonly string[], ended = vi.fn()): AsyncGenerator<Uint8Array> {
  try {
    for (const text of texts) yield Buffer.from(text);
  } finally {
    ended();
  }
}

function limited(
  body: NonNullable<GatewayAnswer['body']>,
  maxBytes: number,
  headers: Record<string, string> = json,
  but: { signal?: AbortSignal; cut?: () => void } = {},
) {
  return limitedAnswer({ status: 200, headers, body }, { maxBytes, signal, cut: vi.fn(), ...but });
}

test.each([
  ['whole', Buffer.from('{"a":1}')],
  ['as text', '{"a":1}'],
  ['in pieces', pieces(['{"a"', ':1}'])],
])('an answer %s that fits to the byte is untouched', async (_, body) => {
  expect(await bodyText(await limited(body, 7))).toBe('{"a":1}');
});

test.each([
  ['whole', Buffer.from('{"a":1}')],
  ['as text', '{"a":1}'],
  ['in pieces', pieces(['{"a"', ':1}'])],
])('an answer %s that is a byte too long is an error that names the limit', async (_, body) => {
  await expect(limited(body, 6)).rejects.toMatchObject({
    code: 'upstream_failed',
    message: 'its answer is larger than the 6 bytes that this server allows',
  });
});

test('the upstream is told to stop when its answer is cut', async () => {
  const ended = vi.fn();
  await limited(pieces(['123456', '789', '0'], ended), 5).catch(() => undefined);

  expect(ended).toHaveBeenCalledOnce();
});

test('of an answer of megabytes what came is passed on, and the break is noted', async () => {
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

  await expect(read).rejects.toMatchObject({ code: 'upstream_failed' });
  expect(passed).toBe(2_100_000);
  expect(cut).toHaveBeenCalledOnce();
  expect(ended).toHaveBeenCalledOnce();
});

test('a stream of events ends between two of them', async () => {
  const body = pieces(['data: 1\n\ndata', ': 2\n\n', 'data: 3\n\n']);
  const { body: rest } = await limited(body, 18, events);
  let text = '';
  const read = (async () => {
    if (typeof rest !== 'object' || rest instanceof Uint8Array) throw new Error('no stream');
    for await (const chunk of rest) text += Buffer.from(chunk).toString();
  })();

  await expect(read).rejects.toMatchObject({ code: 'upstream_failed' });
  expect(text).toBe('data: 1\n\ndata: 2\n\n');
});

test.each([
  ['breaks', true],
  ['ends quietly', false],
])('a stream that %s because its time was over says that', async (_, breaks) => {
  const ending = new AbortController();
  const slow = new GatewayRefusal('too_slow', { detail: 'it took too long' });
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('data: 1\n\n');
    ending.abort(slow);
    if (breaks) throw new DOMException('the call was ended', 'AbortError');
  }
  const answer = await limited(body(), Infinity, events, { signal: ending.signal });

  await expect(bodyText(answer)).rejects.toBe(slow);
});
