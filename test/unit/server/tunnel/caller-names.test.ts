import { expect, test } from 'vitest';

import { callerNames } from '#server/tunnel/caller-names';

test('a caller has one name at one server, and nothing of who it is in it', () => {
  const name = callerNames(Buffer.alloc(32, 1));

  expect(name('client:c:dana srv_a')).toBe(name('client:c:dana srv_a'));
  expect(name('client:c:dana srv_a')).not.toBe(name('client:c:dana srv_b'));
  expect(name('client:c:dana srv_a')).toMatch(/^[\w-]{32}$/);
  expect(callerNames(Buffer.alloc(32, 2))('x')).not.toBe(name('x'));
});
