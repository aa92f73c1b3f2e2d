import { expect, test } from 'vitest';

import { setPassword } from '#server/people/set-password';
import { turnedClock } from '#support/turned-clock';

test('48: what was allowed until the old sessions ended is over with the old password', async () => {
  const allowed = new Set(['long ago']);
  const steps: string[] = [];
  await setPassword(
    { id: 'user_dana', email: 'dana@example.com', createdAt: 0 },
    'hash',
    { address: '192.0.2.1', requestId: 'r' },
    {
      endGrants: async () => allowed.clear(),
      passwords: {
        async set() {
          steps.push(...allowed);
          allowed.add('by a session that ends here');
        },
      },
      attempts: { clear: async () => {} },
      audit: { append: async () => {} },
      clock: turnedClock(),
    },
  );

  // Should we end between the two steps, the password is the old one and nothing is allowed.
  expect(steps).toEqual([]);
  expect([...allowed]).toEqual([]);
});
