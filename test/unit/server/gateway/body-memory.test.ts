import { expect, test } from 'vitest';

import { BodyMemory } from '#server/gateway/body-memory';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';

const [kib, mib] = [1024, 1024 * 1024];
const refused = expect.objectContaining({ code: 'too_many_requests' });

function fits(take: (bytes: number) => void, bytes: number): boolean {
  try {
    take(bytes);
    return true;
  } catch (error) {
    if (error instanceof GatewayRefusal && error.code === 'too_many_requests') return false;
    throw error;
  }
}

test('107: body memory: a caller with 1,024 open bodies of 4 MiB holds 64 MiB, which are released', () => {
  const memory = new BodyMemory({ what: 'bodies', maxBodyBytes: 4 * mib });
  const bodies = Array.from({ length: 1024 }, () => memory.body('key_a'));
  const refusals = bodies.filter(({ take }) => {
    const isWhole = Array(64)
      .fill(64 * kib)
      .every((bytes) => fits(take, bytes));
    return !isWhole;
  });

  expect(memory.size).toEqual({ bytes: 64 * mib, callers: 1 });
  expect(refusals.length).toBeGreaterThan(1000);
  expect(() => memory.body('key_b').take(4 * mib)).not.toThrow();

  for (const { release } of bodies) {
    release();
    release();
  }
  expect(memory.size).toEqual({ bytes: 4 * mib - 64 * kib, callers: 1 });
  expect(() => memory.body('key_a').take(4 * mib)).not.toThrow();
});

test('107: body memory: many callers never hold more than 512 MiB, and another one is still served', () => {
  const memory = new BodyMemory({ what: 'bodies' });
  for (let caller = 0; caller < 50; caller += 1) {
    const { take } = memory.body(`key_${caller}`);
    while (fits(take, mib));
  }
  const before = memory.size.bytes;

  expect(before).toBeGreaterThan(500 * mib);
  expect(before).toBeLessThan(512 * mib);
  expect(() => memory.body('key_new').take(64 * kib)).not.toThrow();
  expect(memory.size.bytes).toBe(before);
});

test('body memory: one body of the largest accepted size always fits', () => {
  const memory = new BodyMemory({ what: 'bodies', maxBodyBytes: 1024 * mib });

  expect(() => memory.body('key_a').take(1024 * mib)).not.toThrow();
  expect(() => memory.body('key_a').take(mib)).toThrow(refused);
});

test('body memory: what arrives after the end of a call is not kept', () => {
  const memory = new BodyMemory({ what: 'bodies' });
  const { take, release } = memory.body('key_a');
  take(mib);
  release();

  expect(() => take(1)).toThrow(expect.objectContaining({ code: 'cancelled' }));
  expect(memory.size).toEqual({ bytes: 0, callers: 0 });
});
