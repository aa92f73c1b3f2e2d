import { expect, test } from 'vitest';

import { BodyMemory } from '#server/gateway/body-memory';
import { HeldAnswers } from '#server/gateway/held-answers';
import { reply, type ReplyOptions } from '#server/gateway/reply';
import type { GatewayAnswer } from '#server/gateway/request';
import type { UpstreamAnswer } from '#server/gateway/upstream';
import { upstreamAnswer } from '#support/fake-upstream';

const [kib, mib] = [1024, 1024 * 1024];
const refused = expect.objectContaining({ code: 'too_many_requests' });
const nothing = { bytes: 0, callers: 0 };

/** JSON of about `bytes`, in chunks. It breaks off after that many if `isBroken`. */
async function* long(bytes: number, isBroken = false): AsyncGenerator<Uint8Array> {
  yield Buffer.from('{"jsonrpc":"2.0","id":1,"result":{"text":"');
  for (let sent = 0; sent < bytes; sent += 64 * kib) yield Buffer.alloc(64 * kib, 'x');
  if (isBroken) throw new Error('other side closed');
  yield Buffer.from('"}}');
}

/** Asks for one answer, as the call of a caller does; the call finishes once the answer is complete. */
async function answered(
  answer: Partial<UpstreamAnswer>,
  {
    memory,
    caller = 'key_a',
    ...but
  }: { memory: BodyMemory; caller?: string } & Partial<ReplyOptions>,
) {
  const held = new HeldAnswers(memory, { organization: 'org', caller }, () => undefined);
  const upstream = held.counted({
    send: () => Promise.resolve({ ...upstreamAnswer({}), ...answer }),
  });
  const request = { method: 'POST', headers: {}, signal: AbortSignal.any([]) } as const;
  try {
    return await reply(await upstream.send(request), {
      accepts: { json: true, events: true },
      filters: [],
      isHeldWhole: true,
      maxBytes: Infinity,
      signal: request.signal,
      held,
      finish: () => held.over(),
      report: undefined,
      cut: () => undefined,
      ...but,
    });
  } catch (error) {
    held.over();
    throw error;
  }
}

function streamOf(body: GatewayAnswer['body']): AsyncIterable<Uint8Array> {
  if (typeof body === 'object' && !(body instanceof Uint8Array)) return body;
  throw new Error('the body is whole');
}

const newMemory = () => new BodyMemory({ what: 'responses', maxBodyBytes: 64 * mib });

test('107: held answers: many calls of many callers stay within the bound, and free it once sent', async () => {
  const memory = newMemory();
  const largest: number[] = [];
  const calls = Array.from({ length: 120 }, async (_, i) => {
    const answer = answered({ body: long(4 * mib) }, { memory, caller: `key_${i % 3}` });
    return answer.finally(() => largest.push(memory.size.bytes)).catch(() => undefined);
  });
  const answers = await Promise.all(calls);
  const held = answers.filter((answer) => answer !== undefined);

  expect(Math.max(...largest)).toBeLessThanOrEqual(3 * 64 * mib);
  expect(held.length).toBeLessThan(60);
  for (const { sent } of held) sent?.();
  expect(memory.size).toEqual(nothing);
});

test('107: held answers: one of the largest size fits, and no other of its caller until it was sent', async () => {
  const memory = newMemory();
  const { sent } = await answered({ body: long(64 * mib - 64 * kib) }, { memory });

  await expect(answered({ body: long(mib) }, { memory })).rejects.toThrow(refused);
  sent?.();
  sent?.();
  expect(memory.size).toEqual(nothing);
  expect((await answered({ body: long(mib) }, { memory })).status).toBe(200);
});

test('107: held answers: nothing counts for a short answer, nor after a broken or refused one', async () => {
  const memory = newMemory();

  expect(await answered({ body: long(0) }, { memory })).not.toHaveProperty('sent');
  await expect(answered({ body: long(mib, true) }, { memory })).rejects.toThrow('ended early');
  await expect(answered({ body: long(65 * mib) }, { memory })).rejects.toThrow('too large');
  const tooLarge = answered({ body: long(mib) }, { memory, maxBytes: kib });
  await expect(tooLarge).rejects.toThrow('larger than');
  expect(memory.size).toEqual(nothing);
});

test('107: held answers: what a reading caller has received of long JSON or of many large events does not count', async () => {
  const memory = newMemory();
  async function* events(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 10; i += 1) {
      yield Buffer.from('data: {"jsonrpc":"2.0","method":"notifications/message","params":"');
      for (let sent = 0; sent < 16 * mib; sent += 256 * kib) yield Buffer.alloc(256 * kib, 'x');
      yield Buffer.from('"}\n\n');
    }
  }
  const stream = await answered({ mediaType: 'text/event-stream', body: events() }, { memory });
  const json = await answered({ body: long(100 * mib) }, { memory, isHeldWhole: false });
  const largest = { bytes: 0 };
  let bytes = 0;
  for (const { body } of [stream, json]) {
    for await (const chunk of streamOf(body)) {
      bytes += chunk.length;
      largest.bytes = Math.max(largest.bytes, memory.size.bytes);
    }
  }

  expect(bytes).toBeGreaterThan(260 * mib);
  expect(largest.bytes).toBeGreaterThan(15 * mib);
  expect(largest.bytes).toBeLessThan(20 * mib);
  expect(memory.size).toEqual(nothing);
});

test('107: held answers: a large event counts until its caller has received it or disconnected', async () => {
  const memory = newMemory();
  const event = () => [Buffer.from('data: '), Buffer.alloc(8 * mib, 'x'), Buffer.from('\n\n')];
  const streams = Array.from({ length: 10 }, async () => {
    const body = (async function* () {
      yield* event();
    })();
    const stream = await answered({ mediaType: 'text/event-stream', body }, { memory });
    const reader = streamOf(stream.body)[Symbol.asyncIterator]();
    return reader.next().then(
      () => reader,
      () => undefined,
    );
  });
  const readers = (await Promise.all(streams)).filter((reader) => reader !== undefined);

  expect(readers.length).toBeLessThan(10);
  expect(memory.size.bytes).toBeGreaterThan(50 * mib);
  for (const reader of readers) await reader.return?.();
  expect(memory.size).toEqual(nothing);
});
