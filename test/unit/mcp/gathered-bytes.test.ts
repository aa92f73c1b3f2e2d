import { array, assert, integer, oneof, property } from 'fast-check';
import { expect, test } from 'vitest';

import { GatheredBytes } from '#mcp/gathered-bytes';

test('gathered bytes: parts of any length are the whole again', () => {
  const parts = array(oneof(integer({ max: 40, min: 0 }), integer({ max: 40_000, min: 0 })), {
    maxLength: 40,
  });
  assert(
    property(parts, (lengths) => {
      const gathered = new GatheredBytes();
      const given = lengths.map((length, index) => Buffer.alloc(length, index));
      for (const part of given) gathered.add(part);
      const whole = Buffer.concat(given);
      const isSame =
        gathered.whole().equals(whole) && Buffer.concat(gathered.parts()).equals(whole);
      return isSame && gathered.length === whole.length;
    }),
  );
});

test('107: gathered bytes: short parts take few buffers, whatever follows them', () => {
  const gathered = new GatheredBytes();
  for (let n = 0; n < 100_000; n += 1) gathered.add(Buffer.from([n]));
  gathered.add(Buffer.alloc(20_000));

  expect(gathered.parts().length).toBeLessThan(10);
  expect(gathered.length).toBe(120_000);
});

test('gathered bytes: one part is returned without a copy', () => {
  const gathered = new GatheredBytes();
  const part = Buffer.from('whole');
  gathered.add(part);

  expect(gathered.whole().buffer).toBe(part.buffer);
  gathered.clear();
  expect([gathered.length, gathered.whole().length]).toEqual([0, 0]);
});
