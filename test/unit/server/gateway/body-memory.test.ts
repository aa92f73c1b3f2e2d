import { expect, test, vi } from 'vitest';

import { BodyMemory, type HeldBody } from '#server/gateway/body-memory';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';

const [kib, mib] = [1024, 1024 * 1024];
const refused = expect.objectContaining({ code: 'too_many_requests' });

const of = (caller: string, organization = 'org_a') => ({ organization, caller });

function unexpected(refusal: GatewayRefusal): void {
  throw refusal;
}

/** Opens bodies of a caller until its memory is full or `bytes` are taken; the bodies, and the refusals of those that were given up. */
function fill(memory: BodyMemory, caller: string, organization: string, bytes = Infinity) {
  const givenUp: GatewayRefusal[] = [];
  const bodies: HeldBody[] = [];
  for (let taken = 0; taken < bytes; taken += mib) {
    const body = memory.body(of(caller, organization), (refusal) => givenUp.push(refusal));
    if (!fits(body, mib + 64 * kib)) break;
    bodies.push(body);
  }
  return { bodies, givenUp };
}

function fits(body: HeldBody, bytes: number): boolean {
  try {
    body.take(bytes);
    return true;
  } catch (error) {
    if (error instanceof GatewayRefusal && error.code === 'too_many_requests') return false;
    throw error;
  }
}

test('107: body memory: a caller with 1,024 open bodies of 4 MiB holds 64 MiB, which are released', () => {
  const memory = new BodyMemory({ what: 'bodies', maxBodyBytes: 4 * mib });
  const bodies = Array.from({ length: 1024 }, () => memory.body(of('key_a'), unexpected));
  const refusals = bodies.filter((body) => {
    const isWhole = Array(64)
      .fill(64 * kib)
      .every((bytes) => fits(body, bytes));
    return !isWhole;
  });

  expect(memory.size).toEqual({ bytes: 64 * mib, callers: 1 });
  expect(refusals.length).toBeGreaterThan(1000);
  expect(() => memory.body(of('key_b'), unexpected).take(4 * mib)).not.toThrow();

  for (const body of bodies) {
    body.release();
    body.release();
  }
  expect(memory.size).toEqual({ bytes: 4 * mib - 64 * kib, callers: 1 });
  expect(() => memory.body(of('key_a'), unexpected).take(4 * mib)).not.toThrow();
});

test('107: body memory: many callers never hold more than 512 MiB', () => {
  const memory = new BodyMemory({ what: 'bodies' });
  for (let caller = 0; caller < 50; caller += 1) fill(memory, `key_${caller}`, `org_${caller}`);

  expect(memory.size.bytes).toBeGreaterThan(500 * mib);
  expect(memory.size.bytes).toBeLessThanOrEqual(512 * mib);
  const before = memory.size.bytes;
  expect(() => memory.body(of('key_new'), unexpected).take(64 * kib)).not.toThrow();
  expect(memory.size.bytes).toBe(before);
});

test('108: body memory: however many keys of an organization hold everything, another one gets its half', () => {
  const memory = new BodyMemory({ what: 'responses', maxBodyBytes: 64 * mib });
  const evil = Array.from({ length: 30 }, (_, key) => fill(memory, `key_${key}`, 'evil'));
  expect(memory.size.bytes).toBe(512 * mib);

  const good = ['key_a', 'key_b', 'key_c', 'key_d'].map((key) =>
    fill(memory, key, 'good', 64 * mib),
  );

  expect(good.map(({ bodies }) => bodies.length)).toEqual([64, 64, 64, 64]);
  expect(good.flatMap(({ givenUp }) => givenUp)).toEqual([]);
  expect(evil.flatMap(({ givenUp }) => givenUp)).not.toEqual([]);
  expect(memory.bytesOf('good')).toBe(256 * mib);
  expect(memory.bytesOf('evil')).toBe(256 * mib);

  const more = fill(memory, 'key_30', 'evil');
  expect(more.bodies).not.toEqual([]);
  expect(memory.bytesOf('good')).toBe(256 * mib);
  expect(memory.size.bytes).toBe(512 * mib);
});

test('108: body memory: callers of one organization share what it may hold, and each keeps its part', () => {
  const memory = new BodyMemory({ what: 'responses', maxBodyBytes: 64 * mib });
  const first = fill(memory, 'key_0', 'org', 32 * mib);
  for (let key = 1; key < 16; key += 1) fill(memory, `key_${key}`, 'org');

  expect(memory.size.bytes).toBe(512 * mib);
  expect(first.givenUp).toEqual([]);
  expect(fill(memory, 'key_15', 'org', 32 * mib).givenUp).toEqual([]);
});

test('108: body memory: what was given up no longer counts, says why, and takes nothing more', () => {
  const memory = new BodyMemory({ what: 'bodies' });
  const evil = Array.from({ length: 8 }, (_, key) => fill(memory, `key_${key}`, 'evil'));
  const ended = vi.fn<(refusal: GatewayRefusal) => void>();
  const [first] = evil[0]?.bodies ?? [];
  first?.letGo();
  const largest = memory.body(of('key_0', 'evil'), ended);
  largest.take(mib + 64 * kib);
  first?.take(0);
  for (const body of evil[0]?.bodies.slice(1, 11) ?? []) body.release();
  largest.take(10 * mib);

  fill(memory, 'key', 'good', 30 * mib);

  expect(ended).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({
      code: 'too_many_requests',
      details: expect.objectContaining({ isOutcomeUnknown: true }),
    }),
  );
  expect(largest.bytes).toBe(0);
  expect(() => largest.take(mib)).toThrow(refused);
});

test('body memory: one body of the largest accepted size always fits', () => {
  const memory = new BodyMemory({ what: 'bodies', maxBodyBytes: 1024 * mib });

  expect(() => memory.body(of('key_a'), unexpected).take(1024 * mib)).not.toThrow();
  expect(() => memory.body(of('key_a'), unexpected).take(mib)).toThrow(refused);
});

test('body memory: what arrives after the end of a call is not kept', () => {
  const memory = new BodyMemory({ what: 'bodies' });
  const body = memory.body(of('key_a'), unexpected);
  body.take(mib);
  body.release();

  expect(() => body.take(1)).toThrow(expect.objectContaining({ code: 'cancelled' }));
  expect(memory.size).toEqual({ bytes: 0, callers: 0 });
});
