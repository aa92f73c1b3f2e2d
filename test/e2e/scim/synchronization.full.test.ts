import { expect, test } from 'vitest';

import { synchronize } from '#support/scim-synchronization';

test('synchronization: 5,000 users and 500 groups, every tenth user deactivated', async () => {
  expect(await synchronize({ users: 5000, groups: 500 })).toEqual({
    users: 5000,
    groups: 500,
    placed: 5000 + 499 * 50,
    members: 4500,
    statuses: [200, 201, 204],
  });
});
